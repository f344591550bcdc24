//! Process supervision: a reward a reasoning step.

use serde::{Deserialize, Serialize};

use super::input::AdvantageInput;
use super::rows_by_group;
use super::spread::{Ddof, Spread};
use super::standardise::Singleton;
use crate::error::{Error, Result};

/// Process supervision: Â_t = Σ_{steps that end at or after t} r̃, with r̃ = (r − mean) / (std + ε) over all step rewards of the group.
///
/// Completions may have different numbers of steps; all steps of a group are normalised together. A completion without step
/// rewards stays out and has advantage 0. If all step rewards of a group are equal, every advantage is exactly 0.
///
/// # Source
/// DeepSeekMath (arXiv 2402.03300) §4.1.3, which divides by the population standard deviation, without ε.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    /// Which standard deviation.
    pub ddof: Ddof,
    /// ε ≥ 0.
    pub epsilon: f64,
    /// What a group of one gives. [`Singleton::Raw`] sums its raw step rewards.
    pub singleton: Singleton,
}

impl Default for Process {
    /// Sample standard deviation and ε = 1e-4, as outcome supervision has them.
    fn default() -> Self {
        Self { ddof: Ddof::Sample, epsilon: 1e-4, singleton: Singleton::Refuse }
    }
}

impl Process {
    pub(crate) fn validate(&self) -> Result<()> {
        let ok = self.epsilon.is_finite() && self.epsilon >= 0.0;
        if ok { Ok(()) } else { Err(Error::config("process epsilon", self.epsilon, "finite and at least 0")) }
    }

    pub(crate) fn advantages(&self, input: &AdvantageInput<'_>) -> Result<Vec<Vec<f64>>> {
        let masks = input.masks.as_deref().unwrap_or_default();
        let steps = input.steps.as_deref().unwrap_or_default();
        for (row, (steps, mask)) in steps.iter().zip(masks).enumerate() {
            if let Some((end, _)) = steps.iter().flatten().find(|(end, _)| *end >= mask.len()) {
                let problem = format!("completion {row} has a step that ends at token {end}, must be below {}", mask.len());
                return Err(Error::invalid("steps", problem));
            }
        }
        let mut advantages: Vec<Vec<f64>> = masks.iter().map(|m| vec![0.0; m.len()]).collect();
        for (id, rows) in rows_by_group(&input.groups) {
            let raw = self.singleton.of(id, rows.len())?;
            let all: Vec<f64> = rows.iter().filter_map(|&row| steps[row].as_ref()).flatten().map(|(_, r)| *r).collect();
            let spread = Spread::of(&all, self.ddof);
            if !raw && (rows.len() == 1 || spread.std == 0.0) {
                continue;
            }
            let (mean, divisor) = if raw { (0.0, 1.0) } else { (spread.mean, spread.std + self.epsilon) };
            for row in rows {
                let Some(steps) = &steps[row] else { continue };
                let mut ending = vec![0.0; masks[row].len()];
                steps.iter().for_each(|&(end, r)| ending[end] += (r - mean) / divisor);
                let mut to_come = 0.0;
                for t in (0..ending.len()).rev() {
                    // A step may end at a token that is not trained: its reward counts all the same.
                    to_come += ending[t];
                    advantages[row][t] = if masks[row][t] { to_come } else { 0.0 };
                }
            }
        }
        Ok(advantages)
    }
}
