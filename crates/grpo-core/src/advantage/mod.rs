//! Advantages: how much better a completion is than its group. Host arithmetic in f64; N numbers need no device.

mod spread;
mod standardise;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::group::GroupId;

pub use spread::{Ddof, Spread};
pub use standardise::{Scale, Singleton, Standardise};

/// One advantage a completion, or one a token. The loss sees `[N, Tc]` either way.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Advantages {
    /// N numbers, in the order of the groups' completions.
    PerCompletion(Vec<f64>),
    /// For each completion one number a token.
    PerToken(Vec<Vec<f64>>),
}

impl Advantages {
    /// The number of completions.
    pub fn len(&self) -> usize {
        match self {
            Self::PerCompletion(rows) => rows.len(),
            Self::PerToken(rows) => rows.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The advantage of each of the `len` tokens of completion `row`.
    pub(crate) fn row(&self, row: usize, len: usize) -> Result<Vec<f64>> {
        match self {
            Self::PerCompletion(rows) => Ok(vec![rows[row]; len]),
            Self::PerToken(rows) => {
                Error::check_shape("token advantages of a completion", &[rows[row].len()], &[len])?;
                Ok(rows[row].clone())
            }
        }
    }
}

/// How rewards become advantages.
///
/// | estimator | formula |
/// |---|---|
/// | [`Standardise`](Self::Standardise) | Â_i = (r_i − mean) / (std + ε), or r_i − mean without scaling (Dr. GRPO) |
///
/// # Source
/// DeepSeekMath (arXiv 2402.03300) §4.1.2; Dr. GRPO (arXiv 2503.20783). The sources divide by G, trainers by G − 1: both have a name ([`Ddof`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Estimator {
    /// Centred on the group's mean, then scaled.
    Standardise(Standardise),
}

impl Default for Estimator {
    fn default() -> Self {
        Self::Standardise(Standardise::default())
    }
}

impl Estimator {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Standardise(s) => s.validate(),
        }
    }

    /// Advantages of completions with these rewards and groups; `None` is a missing reward.
    ///
    /// A missing reward stays out of every statistic and has advantage 0. A group whose rewards are all equal has
    /// advantage exactly 0, whatever the constant and however it was rounded.
    ///
    /// ```
    /// use grpo_core::{Advantages, Estimator, GroupId};
    /// let (g, h) = (GroupId(7), GroupId(8));
    /// let rewards = [Some(1.0), Some(0.0), Some(0.1 + 0.2), Some(0.3)];
    /// let Advantages::PerCompletion(a) = Estimator::default().advantages(&rewards, &[g, g, h, h])? else { unreachable!() };
    /// assert!((a[0] - 0.7070).abs() < 1e-3 && a[1] == -a[0]);
    /// assert_eq!(a[2..], [0.0, 0.0]); // 0.1 + 0.2 is not 0.3 in f64, and still no signal
    /// # Ok::<(), grpo_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Lists of different lengths, a reward that is NaN or infinite, a group of one unless [`Singleton`] allows it.
    pub fn advantages(&self, rewards: &[Option<f64>], groups: &[GroupId]) -> Result<Advantages> {
        self.validate()?;
        Error::check_shape("groups", &[groups.len()], &[rewards.len()])?;
        if let Some((row, bad)) = rewards.iter().enumerate().find_map(|(i, r)| r.filter(|r| !r.is_finite()).map(|r| (i, r))) {
            return Err(Error::invalid("reward", format!("completion {row} has {bad}, must be finite")));
        }
        match self {
            Self::Standardise(s) => Ok(Advantages::PerCompletion(s.advantages(rewards, groups)?)),
        }
    }
}

/// The rows of each group, groups in the order of their first row. A group's rows need not be neighbours.
pub(crate) fn rows_by_group(groups: &[GroupId]) -> Vec<(GroupId, Vec<usize>)> {
    let mut slot = std::collections::HashMap::new();
    let mut rows: Vec<(GroupId, Vec<usize>)> = Vec::new();
    for (row, &group) in groups.iter().enumerate() {
        let index = *slot.entry(group).or_insert_with(|| {
            rows.push((group, Vec::new()));
            rows.len() - 1
        });
        rows[index].1.push(row);
    }
    rows
}
