//! Group-relative advantages: Â_i = (r_i − mean) / (std + ε).

use serde::{Deserialize, Serialize};

use super::groups::present;
use super::spread::{Ddof, Spread};
use crate::error::{Error, Result};
use crate::group::GroupId;

/// What centred rewards are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The group's own standard deviation (GRPO).
    #[default]
    Group,
    /// The standard deviation of all rewards of the call (Lite PPO, arXiv 2508.08221).
    Batch,
    /// Nothing: r_i − mean (Dr. GRPO, arXiv 2503.20783).
    None,
}

/// What a group of one completion gives. It has no one to be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Singleton {
    /// An error.
    #[default]
    Refuse,
    /// Advantage 0: it teaches nothing.
    Zero,
    /// The raw reward, mean taken as 0 and std as 1: r / (1 + ε), or r without scaling (verl's convention).
    Raw,
}

impl Singleton {
    /// Whether the raw reward is wanted of a group of this many completions.
    pub(crate) fn of(self, id: GroupId, completions: usize) -> Result<bool> {
        match (completions, self) {
            (1, Self::Refuse) => Err(Error::invalid(
                "group",
                format!("group {} has one completion, must have at least two (or set singleton to zero or raw)", id.0),
            )),
            (1, Self::Raw) => Ok(true),
            _ => Ok(false),
        }
    }
}

/// The settings of Â_i = (r_i − mean) / (std + ε).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Standardise {
    /// What is divided by.
    pub scale: Scale,
    /// Which standard deviation.
    pub ddof: Ddof,
    /// ε ≥ 0, added to the standard deviation.
    pub epsilon: f64,
    /// What a group of one gives.
    pub singleton: Singleton,
}

impl Default for Standardise {
    /// Group scaling, sample standard deviation, ε = 1e-4 (TRL's values).
    fn default() -> Self {
        Self { scale: Scale::Group, ddof: Ddof::Sample, epsilon: 1e-4, singleton: Singleton::Refuse }
    }
}

impl Standardise {
    /// r_i − mean: no scaling.
    pub fn centred() -> Self {
        Self { scale: Scale::None, ..Self::default() }
    }

    /// Dr. GRPO (arXiv 2503.20783): r_i − mean, as [`centred`](Self::centred).
    pub fn dr_grpo() -> Self {
        Self::centred()
    }

    /// Lite PPO (arXiv 2508.08221): centred on the group, divided by the standard deviation of the batch.
    pub fn lite_ppo() -> Self {
        Self { scale: Scale::Batch, ..Self::default() }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if !self.epsilon.is_finite() || self.epsilon < 0.0 {
            return Err(Error::config("advantage epsilon", self.epsilon, "finite and at least 0"));
        }
        Ok(())
    }

    pub(crate) fn advantages(&self, rewards: &[Option<f64>], groups: &[GroupId]) -> Result<Vec<f64>> {
        let batch_std = match self.scale {
            Scale::Batch => Spread::of(&rewards.iter().flatten().copied().collect::<Vec<_>>(), self.ddof).std,
            Scale::Group | Scale::None => 0.0,
        };
        let mut advantages = vec![0.0; rewards.len()];
        // Equal rewards have no spread and are not among these: exactly 0, not rounding noise over ε.
        for group in present(rewards, groups, self.singleton, self.ddof)? {
            let (mean, std) = if group.raw { (0.0, 1.0) } else { (group.spread.mean, group.spread.std) };
            let divisor = match self.scale {
                Scale::Batch if !group.raw => batch_std + self.epsilon,
                Scale::Group | Scale::Batch => std + self.epsilon,
                Scale::None => 1.0,
            };
            // Only a batch whose spread is rounding next to its size, and ε = 0, divides by 0.
            let divisor = if divisor > 0.0 { divisor } else { f64::INFINITY };
            group.rewards.iter().for_each(|&(row, reward)| advantages[row] = (reward - mean) / divisor);
        }
        Ok(advantages)
    }
}
