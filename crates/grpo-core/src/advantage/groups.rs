//! Baselines of one number a group: raw rewards, RLOO, MaxRL, OPO, GPG.

use serde::{Deserialize, Serialize};

use super::input::AdvantageInput;
use super::rows_by_group;
use super::spread::{Ddof, Spread};
use super::standardise::Singleton;
use crate::error::{Error, Result};
use crate::group::GroupId;

/// One group's rewards that are there.
pub(crate) struct Present {
    /// (row, reward), in order.
    pub rewards: Vec<(usize, f64)>,
    /// Their spread.
    pub spread: Spread,
    /// Whether the group has one completion, and its raw reward is wanted.
    pub raw: bool,
}

impl Present {
    /// n of the rewards that are there.
    pub fn n(&self) -> f64 {
        self.rewards.len() as f64
    }
}

/// Groups whose rewards differ, and groups of one under [`Singleton::Raw`]. All others have advantage exactly 0.
pub(crate) fn present(rewards: &[Option<f64>], groups: &[GroupId], singleton: Singleton, ddof: Ddof) -> Result<Vec<Present>> {
    let mut found = Vec::new();
    for (id, rows) in rows_by_group(groups) {
        let here: Vec<(usize, f64)> = rows.iter().filter_map(|&row| rewards[row].map(|r| (row, r))).collect();
        let raw = singleton.of(id, rows.len())?;
        let values: Vec<f64> = here.iter().map(|(_, r)| *r).collect();
        let spread = Spread::of(&values, ddof);
        if raw || spread.std > 0.0 {
            found.push(Present { rewards: here, spread, raw });
        }
    }
    Ok(found)
}

/// RLOO: Â_i = r_i − mean of the other rewards of the group = n/(n − 1) · (r_i − mean).
///
/// # Source
/// Ahmadian et al. (arXiv 2402.14740).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rloo {
    /// What a group of one gives.
    pub singleton: Singleton,
}

impl Rloo {
    pub(crate) fn advantages(self, rewards: &[Option<f64>], groups: &[GroupId]) -> Result<Vec<f64>> {
        let mut advantages = vec![0.0; rewards.len()];
        for group in present(rewards, groups, self.singleton, Ddof::Sample)? {
            let factor = if group.raw { 1.0 } else { group.n() / (group.n() - 1.0) };
            let mean = if group.raw { 0.0 } else { group.spread.mean };
            group.rewards.iter().for_each(|&(row, r)| advantages[row] = factor * (r - mean));
        }
        Ok(advantages)
    }
}

/// MaxRL: Â_i = (r_i − mean) / mean, and 0 where the mean is not above 0. Meant for rewards that are at least 0.
///
/// A mean within rounding of 0 (of rewards of both signs) counts as 0.
///
/// # Source
/// arXiv 2602.02710.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MaxRl {
    /// What a group of one gives. [`Singleton::Raw`] gives r.
    pub singleton: Singleton,
}

impl MaxRl {
    pub(crate) fn advantages(self, rewards: &[Option<f64>], groups: &[GroupId]) -> Result<Vec<f64>> {
        let mut advantages = vec![0.0; rewards.len()];
        for group in present(rewards, groups, self.singleton, Ddof::Sample)? {
            let size = group.rewards.iter().map(|(_, r)| r.abs()).fold(0.0, f64::max);
            let mean = group.spread.mean;
            for &(row, r) in &group.rewards {
                advantages[row] = match group.raw {
                    true => r,
                    false if mean > 4.0 * f64::EPSILON * size => (r - mean) / mean,
                    false => 0.0,
                };
            }
        }
        Ok(advantages)
    }
}

/// OPO: Â_i = r_i − (Σ_j L_j r_j) / (Σ_j L_j), L the tokens of the loss. It does not sum to 0 over a group: weighted by length it does.
///
/// # Source
/// arXiv 2505.23585.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Opo {
    /// What a group of one gives.
    pub singleton: Singleton,
}

impl Opo {
    pub(crate) fn advantages(self, input: &AdvantageInput<'_>) -> Result<Vec<f64>> {
        let rewards = input.outcomes();
        let masks = input.masks.as_deref().unwrap_or_default();
        let length = |row: usize| masks[row].iter().filter(|m| **m).count() as f64;
        let mut advantages = vec![0.0; rewards.len()];
        for group in present(&rewards, &input.groups, self.singleton, Ddof::Sample)? {
            let total: f64 = group.rewards.iter().map(|(row, _)| length(*row)).sum();
            // A group without a token of the loss has no baseline, and no use for one.
            let baseline = match group.raw || total == 0.0 {
                true => 0.0,
                false => group.rewards.iter().map(|&(row, r)| length(row) / total * r).sum(),
            };
            group.rewards.iter().for_each(|&(row, r)| advantages[row] = r - baseline);
        }
        Ok(advantages)
    }
}

/// What α of [`Gpg`] makes up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GpgShare {
    /// α = N / number of completions in groups whose rewards differ: the others have no gradient (the paper's B / (B − M)).
    #[default]
    InformativeGroups,
    /// α = N / number of rewards that are not 0, at least 1 (verl).
    NonZeroRewards,
}

/// GPG: Â_i = α · (r_i − mean) / F.
///
/// # Source
/// arXiv 2504.02546. Practice differs in what α counts: [`GpgShare`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gpg {
    /// What α makes up for.
    pub share: GpgShare,
    /// F > 0.
    pub norm: f64,
    /// What a group of one gives. [`Singleton::Raw`] takes its mean as 0.
    pub singleton: Singleton,
}

impl Default for Gpg {
    fn default() -> Self {
        Self { share: GpgShare::default(), norm: 1.0, singleton: Singleton::default() }
    }
}

impl Gpg {
    pub(crate) fn validate(&self) -> Result<()> {
        if self.norm.is_finite() && self.norm > 0.0 { Ok(()) } else { Err(Error::config("gpg norm", self.norm, "above 0")) }
    }

    pub(crate) fn advantages(&self, rewards: &[Option<f64>], groups: &[GroupId]) -> Result<Vec<f64>> {
        let found = present(rewards, groups, self.singleton, Ddof::Sample)?;
        let all = rewards.iter().flatten().count() as f64;
        let counted = match self.share {
            GpgShare::InformativeGroups => found.iter().map(Present::n).sum::<f64>(),
            GpgShare::NonZeroRewards => rewards.iter().flatten().filter(|r| **r != 0.0).count() as f64,
        };
        let alpha = all / counted.max(1.0);
        let mut advantages = vec![0.0; rewards.len()];
        for group in found {
            let mean = if group.raw { 0.0 } else { group.spread.mean };
            group.rewards.iter().for_each(|&(row, r)| advantages[row] = alpha * (r - mean) / self.norm);
        }
        Ok(advantages)
    }
}
