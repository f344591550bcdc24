//! The soft penalty of answers that come near the length limit.

use serde::{Deserialize, Serialize};

use crate::error::{BoxError, Error, Result};
use crate::group::Completion;
use crate::reward::{Reward, RewardFn};

/// What lies beyond the length limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlong {
    /// The full penalty, and no more (DAPO, TRL).
    #[default]
    Capped,
    /// The line goes on (verl, NeMo RL).
    Uncapped,
}

/// 0 up to L − b tokens; −penalty · (len − (L − b)) / b beyond; from L on −penalty, if capped.
///
/// L is `max_len`, b `buffer`. Without a buffer: 0 up to L, −penalty above. The reward is never positive.
///
/// Filter groups by their raw rewards: after this penalty, a group of wrong answers has spread.
///
/// ```
/// use grpo_core::{Overlong, OverlongPenalty};
/// let soft = OverlongPenalty::new(100, 20)?;
/// assert_eq!([80, 90, 100, 110].map(|len| soft.of(len)), [0.0, -0.5, -1.0, -1.0]);
/// let line = OverlongPenalty { beyond: Overlong::Uncapped, ..soft };
/// assert_eq!(line.of(110), -1.5);
/// # Ok::<(), grpo_core::Error>(())
/// ```
///
/// # Source
/// DAPO (arXiv 2503.14476) eq. 13.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverlongPenalty {
    /// L: tokens of a completion, at least 1.
    pub max_len: usize,
    /// b ≤ L; at least 1 if uncapped.
    pub buffer: usize,
    /// What an answer of L tokens loses, at least 0.
    #[serde(default = "one")]
    pub penalty: f64,
    /// What lies beyond L.
    #[serde(default)]
    pub beyond: Overlong,
}

fn one() -> f64 {
    1.0
}

impl OverlongPenalty {
    /// DAPO's: at most −1.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn new(max_len: usize, buffer: usize) -> Result<Self> {
        let this = Self { max_len, buffer, penalty: 1.0, beyond: Overlong::Capped };
        this.validate().map(|()| this)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        if self.max_len == 0 {
            return Err(Error::config("overlong max_len", 0, "at least 1"));
        }
        if self.buffer > self.max_len {
            return Err(Error::config("overlong buffer", self.buffer, "at most max_len"));
        }
        if self.buffer == 0 && self.beyond == Overlong::Uncapped {
            return Err(Error::config("overlong buffer", 0, "at least 1 where the penalty is not capped"));
        }
        if !self.penalty.is_finite() || self.penalty < 0.0 {
            return Err(Error::config("overlong penalty", self.penalty, "finite and at least 0"));
        }
        Ok(())
    }

    /// The reward, at most 0, of a completion of this many tokens.
    pub fn of(&self, tokens: usize) -> f64 {
        let free = self.max_len.saturating_sub(self.buffer);
        if tokens <= free {
            return 0.0;
        }
        // Without a buffer the line is a step: one token too many costs everything.
        let share = (tokens - free) as f64 / self.buffer.max(1) as f64;
        -self.penalty * if self.beyond == Overlong::Capped { share.min(1.0) } else { share }
    }
}

impl<T: ?Sized> RewardFn<T> for OverlongPenalty {
    fn name(&self) -> &str {
        "overlong"
    }

    fn score(&self, _task: &T, completion: &Completion) -> std::result::Result<Reward, BoxError> {
        self.validate()?;
        Ok(self.of(completion.tokens.len()).into())
    }
}
