//! Pass@k: only a group's best completion learns.

use serde::{Deserialize, Serialize};

use super::groups::present;
use super::spread::Ddof;
use super::standardise::{Scale, Singleton};
use crate::error::{Error, Result};
use crate::group::GroupId;

/// The best completion of a group gets (best − second best) / (std + ε), all others 0: the leave-one-out advantage of
/// max over the k = n completions of a group.
///
/// On a tie for the best, every advantage is 0. It does not sum to 0.
///
/// # Source
/// arXiv 2503.19595.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PassAtK {
    /// [`Scale::Group`] or [`Scale::None`].
    pub scale: Scale,
    /// Which standard deviation.
    pub ddof: Ddof,
    /// ε ≥ 0.
    pub epsilon: f64,
    /// What a group of one gives. [`Singleton::Raw`] gives r: its second best is nothing.
    pub singleton: Singleton,
}

impl Default for PassAtK {
    /// Divided by the group's sample standard deviation, ε = 1e-6.
    fn default() -> Self {
        Self { scale: Scale::Group, ddof: Ddof::Sample, epsilon: 1e-6, singleton: Singleton::Refuse }
    }
}

impl PassAtK {
    pub(crate) fn validate(&self) -> Result<()> {
        if !self.epsilon.is_finite() || self.epsilon < 0.0 {
            return Err(Error::config("pass_at_k epsilon", self.epsilon, "finite and at least 0"));
        }
        if self.scale == Scale::Batch {
            return Err(Error::config("pass_at_k scale", "batch", "group or none"));
        }
        Ok(())
    }

    pub(crate) fn advantages(&self, rewards: &[Option<f64>], groups: &[GroupId]) -> Result<Vec<f64>> {
        let mut advantages = vec![0.0; rewards.len()];
        for group in present(rewards, groups, self.singleton, self.ddof)? {
            let Some(&(best, high)) = group.rewards.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
            if group.raw {
                advantages[best] = high;
                continue;
            }
            let second = group.rewards.iter().filter(|(row, _)| *row != best).map(|(_, r)| *r).fold(f64::NEG_INFINITY, f64::max);
            let gap = high - second;
            // A tie up to rounding is a tie.
            if gap > 4.0 * f64::EPSILON * high.abs().max(second.abs()) {
                advantages[best] = if self.scale == Scale::None { gap } else { gap / (group.spread.std + self.epsilon) };
            }
        }
        Ok(advantages)
    }
}
