//! Running baselines, one a role: for games that a policy plays against itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::returns::check_unit;
use crate::error::{Error, Result};

/// RAE: Â_i = r_i − b of its role, b an exponential moving average of that role's rewards.
///
/// The average is state: keep a [`RoleBaselines`] beside the run, let it
/// [`observe`](RoleBaselines::observe) each step's rewards, and hand its answer to
/// [`with_baselines`](crate::AdvantageInput::with_baselines).
///
/// # Source
/// SPIRAL (arXiv 2506.24119), decay 0.95.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoleEma {
    /// How much of the old average stays, in [0, 1].
    pub decay: f64,
}

impl Default for RoleEma {
    fn default() -> Self {
        Self { decay: 0.95 }
    }
}

impl RoleEma {
    pub(crate) fn validate(&self) -> Result<()> {
        check_unit("role_ema decay", self.decay)
    }

    /// Averages that have seen nothing yet: each begins at 0.
    ///
    /// # Errors
    /// A decay outside [0, 1].
    pub fn state(&self) -> Result<RoleBaselines> {
        self.validate()?;
        Ok(RoleBaselines { decay: self.decay, means: BTreeMap::new() })
    }
}

/// The running mean of each role's rewards. Save it with a checkpoint: it is state of the run.
///
/// ```
/// use grpo_core::RoleEma;
/// let mut roles = RoleEma { decay: 0.5 }.state()?;
/// // White won, black lost, white won again; the fourth game has no result.
/// let baselines = roles.observe(&[Some(1.0), Some(-1.0), Some(1.0), None], &[0, 1, 0, 1])?;
/// assert_eq!(baselines, [0.5, -0.5, 0.75, -0.5]);
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleBaselines {
    decay: f64,
    means: BTreeMap<u64, f64>,
}

impl RoleBaselines {
    /// Takes in rewards in order, each with its role (of its game: number them as you like), and gives the baseline of each:
    /// b ← decay · b + (1 − decay) · r, after its own reward, as the source has it. A missing reward changes nothing.
    ///
    /// # Errors
    /// Lists of different lengths, a reward that is not finite. Nothing is taken in then.
    pub fn observe(&mut self, rewards: &[Option<f64>], roles: &[u64]) -> Result<Vec<f64>> {
        Error::check_shape("roles", &[roles.len()], &[rewards.len()])?;
        if let Some(row) = rewards.iter().position(|r| r.is_some_and(|r| !r.is_finite())) {
            return Err(Error::invalid("reward", format!("completion {row} has one that is not finite")));
        }
        let observe = |(reward, role): (&Option<f64>, &u64)| {
            let mean = self.means.entry(*role).or_insert(0.0);
            *mean = reward.map_or(*mean, |r| self.decay * *mean + (1.0 - self.decay) * r);
            *mean
        };
        Ok(rewards.iter().zip(roles).map(observe).collect())
    }

    /// The mean of a role; 0 of one that was never seen.
    pub fn get(&self, role: u64) -> f64 {
        self.means.get(&role).copied().unwrap_or(0.0)
    }
}
