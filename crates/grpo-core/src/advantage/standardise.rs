//! Group-relative advantages: Â_i = (r_i − mean) / (std + ε).

use serde::{Deserialize, Serialize};

use super::rows_by_group;
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
    /// r_i − mean: no scaling (Dr. GRPO).
    pub fn centred() -> Self {
        Self { scale: Scale::None, ..Self::default() }
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
        for (id, rows) in rows_by_group(groups) {
            let present: Vec<(usize, f64)> = rows.iter().filter_map(|&row| rewards[row].map(|r| (row, r))).collect();
            let values: Vec<f64> = present.iter().map(|&(_, r)| r).collect();
            let spread = match (rows.len(), self.singleton) {
                (1, Singleton::Refuse) => {
                    return Err(Error::invalid(
                        "group",
                        format!("group {} has one completion, must have at least two (or set singleton to zero or raw)", id.0),
                    ));
                }
                (1, Singleton::Raw) => Spread { mean: 0.0, std: 1.0, count: values.len() },
                _ => Spread::of(&values, self.ddof),
            };
            // Equal rewards: exactly 0, not rounding noise over ε.
            if spread.std == 0.0 {
                continue;
            }
            for (row, reward) in present {
                let centred = reward - spread.mean;
                advantages[row] = match self.scale {
                    Scale::Group => centred / (spread.std + self.epsilon),
                    Scale::Batch if rows.len() == 1 => centred / (1.0 + self.epsilon),
                    Scale::Batch => centred / (batch_std + self.epsilon),
                    Scale::None => centred,
                };
            }
        }
        Ok(advantages)
    }
}
