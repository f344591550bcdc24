//! Leave-one-out mean and standard deviation.

use serde::{Deserialize, Serialize};

use super::groups::present;
use super::spread::{Ddof, Spread};
use super::standardise::Singleton;
use crate::error::{Error, Result};
use crate::group::GroupId;

/// Â_i = (r_i − mean of the others) / (std of the others + ε); where the others do not differ, r_i − mean of the others.
///
/// Mean and standard deviation are of the same n − 1 rewards, and a standard deviation of 0 never divides: of [1, 0, 0, 0]
/// the first gets 1, not 1 / ε. In groups of two the others are one reward, so nothing is divided. It does not sum to 0.
///
/// # Source
/// NeMo RL's GRPO with leave-one-out baseline and normalised rewards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeaveOneOut {
    /// ε ≥ 0.
    pub epsilon: f64,
    /// Which standard deviation.
    pub ddof: Ddof,
    /// What a group of one gives. [`Singleton::Raw`] gives r.
    pub singleton: Singleton,
}

impl Default for LeaveOneOut {
    /// ε = 1e-6, sample standard deviation.
    fn default() -> Self {
        Self { epsilon: 1e-6, ddof: Ddof::Sample, singleton: Singleton::Refuse }
    }
}

impl LeaveOneOut {
    pub(crate) fn validate(&self) -> Result<()> {
        let ok = self.epsilon.is_finite() && self.epsilon >= 0.0;
        if ok { Ok(()) } else { Err(Error::config("leave_one_out epsilon", self.epsilon, "finite and at least 0")) }
    }

    pub(crate) fn advantages(&self, rewards: &[Option<f64>], groups: &[GroupId]) -> Result<Vec<f64>> {
        let mut advantages = vec![0.0; rewards.len()];
        for group in present(rewards, groups, self.singleton, self.ddof)? {
            for (index, &(row, reward)) in group.rewards.iter().enumerate() {
                let others: Vec<f64> = group.rewards.iter().enumerate().filter(|(j, _)| *j != index).map(|(_, (_, r))| *r).collect();
                let spread = Spread::of(&others, self.ddof);
                let centred = reward - spread.mean;
                advantages[row] = if spread.std > 0.0 { centred / (spread.std + self.epsilon) } else { centred };
            }
        }
        Ok(advantages)
    }
}
