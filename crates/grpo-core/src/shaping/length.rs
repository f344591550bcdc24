//! Rewards in which the length of right and wrong answers counts.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Whether an answer is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is.
    Right,
    /// It is not.
    Wrong,
}

impl Verdict {
    /// Right where a reward reaches `threshold`.
    pub fn of(reward: f64, threshold: f64) -> Self {
        if reward >= threshold { Self::Right } else { Self::Wrong }
    }
}

/// A reward that falls with the length of a right answer and rises with that of a wrong one, along half a cosine.
///
/// With p = min(len / L, 1): right: from `right_short` at p = 0 to `right_long` at p = 1; wrong: from `wrong_short` to `wrong_long`:
/// long + (short − long) · (1 + cos π p) / 2. Past L it stays (a cosine that goes on climbs back).
///
/// ```
/// use grpo_core::{CosineLength, Verdict};
/// let cosine = CosineLength::new(100)?;
/// assert_eq!([0, 50, 100, 200].map(|len| cosine.of(len, Verdict::Right)), [1.0, 0.75, 0.5, 0.5]);
/// assert_eq!([0, 50, 100, 200].map(|len| cosine.of(len, Verdict::Wrong)), [-1.0, -0.75, -0.5, -0.5]);
/// # Ok::<(), grpo_core::Error>(())
/// ```
///
/// # Source
/// arXiv 2502.03373; bounds of TRL and open-r1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CosineLength {
    /// L, at least 1.
    pub max_len: usize,
    /// A right answer of no length.
    pub right_short: f64,
    /// A right answer of L.
    pub right_long: f64,
    /// A wrong answer of no length.
    pub wrong_short: f64,
    /// A wrong answer of L.
    pub wrong_long: f64,
}

impl CosineLength {
    /// Right: 1 to 0.5; wrong: −1 to −0.5.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn new(max_len: usize) -> Result<Self> {
        let this = Self { max_len, right_short: 1.0, right_long: 0.5, wrong_short: -1.0, wrong_long: -0.5 };
        this.validate().map(|()| this)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        if self.max_len == 0 {
            return Err(Error::config("cosine max_len", 0, "at least 1"));
        }
        let fields = [
            ("cosine right_short", self.right_short),
            ("cosine right_long", self.right_long),
            ("cosine wrong_short", self.wrong_short),
            ("cosine wrong_long", self.wrong_long),
        ];
        fields.into_iter().find(|(_, v)| !v.is_finite()).map_or(Ok(()), |(name, v)| Err(Error::config(name, v, "finite")))
    }

    /// The reward of an answer of this length, in whatever unit L has.
    pub fn of(&self, len: usize, verdict: Verdict) -> f64 {
        let (short, long) = match verdict {
            Verdict::Right => (self.right_short, self.right_long),
            Verdict::Wrong => (self.wrong_short, self.wrong_long),
        };
        if len >= self.max_len {
            return long;
        }
        let progress = len as f64 / self.max_len as f64;
        long + 0.5 * (short - long) * (1.0 + (std::f64::consts::PI * progress).cos())
    }
}

/// The length reward of a group: λ = 0.5 − (len − min) / (max − min) for right answers, min(λ, 0) for wrong ones; 0 for all if every
/// length is the same. In [−0.5, 0.5].
///
/// ```
/// use grpo_core::{ShorterWins, Verdict::{Right, Wrong}};
/// assert_eq!(ShorterWins::of(&[22, 34, 22, 34], &[Right, Right, Wrong, Wrong])?, [0.5, -0.5, 0.0, -0.5]);
/// # Ok::<(), grpo_core::Error>(())
/// ```
///
/// # Source
/// Kimi k1.5 (arXiv 2501.12599) §2.3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShorterWins;

impl ShorterWins {
    /// The reward of each answer of a group.
    ///
    /// # Errors
    /// Lists of different lengths.
    pub fn of(lengths: &[usize], verdicts: &[Verdict]) -> Result<Vec<f64>> {
        Error::check_shape("verdicts", &[verdicts.len()], &[lengths.len()])?;
        let (Some(&min), Some(&max)) = (lengths.iter().min(), lengths.iter().max()) else { return Ok(Vec::new()) };
        if min == max {
            return Ok(vec![0.0; lengths.len()]);
        }
        let reward = |(&len, &verdict): (&usize, &Verdict)| {
            let lambda = 0.5 - (len - min) as f64 / (max - min) as f64;
            if verdict == Verdict::Right { lambda } else { lambda.min(0.0) }
        };
        Ok(lengths.iter().zip(verdicts).map(reward).collect())
    }
}
