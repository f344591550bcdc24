//! Generalised advantage estimation with a critic's values.

use serde::{Deserialize, Serialize};

use super::input::AdvantageInput;
use super::returns::{check_unit, live};
use super::whiten::Whitening;
use crate::error::{Error, Result};

/// λ of [`Gae`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Lambda {
    /// The same for all completions, in [0, 1].
    Fixed(f64),
    /// λ = 1 − 1 / (α · L), L the completion's tokens of the loss; 0 where that is below 0. α > 0 (VAPO, arXiv 2504.05118: 0.05).
    LengthAdaptive(f64),
}

impl Lambda {
    fn validate(self, name: &'static str) -> Result<()> {
        match self {
            Self::Fixed(lambda) => check_unit(name, lambda),
            Self::LengthAdaptive(alpha) if alpha.is_finite() && alpha > 0.0 => Ok(()),
            Self::LengthAdaptive(alpha) => Err(Error::config(name, alpha, "above 0 where it adapts to the length")),
        }
    }

    /// λ of a completion with this many tokens of the loss.
    ///
    /// ```
    /// use grpo_core::Lambda;
    /// assert_eq!(Lambda::LengthAdaptive(0.05).at(200), 0.9);
    /// assert_eq!(Lambda::LengthAdaptive(0.05).at(10), 0.0); // 1 − 1 / 0.5 would be −1
    /// ```
    pub fn at(self, length: usize) -> f64 {
        match self {
            Self::Fixed(lambda) => lambda,
            Self::LengthAdaptive(alpha) if length > 0 => (1.0 - 1.0 / (alpha * length as f64)).max(0.0),
            Self::LengthAdaptive(_) => 0.0,
        }
    }
}

/// GAE: δ_t = r_t + γ V_{t+1} − V_t, Â_t = δ_t + γ λ Â_{t+1}, V after the last token 0; then whitened.
///
/// Backwards over the tokens of the loss only: a token that the mask leaves out hands V and Â on unchanged, so the tokens of a tool
/// are no time that passes. A group of one is fine: the critic is the baseline.
///
/// # Source
/// arXiv 1506.02438. VAPO (arXiv 2504.05118) takes one λ for the policy and another, 1, for the critic's targets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gae {
    /// γ in [0, 1].
    pub gamma: f64,
    /// λ of the advantages.
    pub lambda: Lambda,
    /// λ of the critic's targets. `None`: the same.
    pub value_lambda: Option<Lambda>,
    /// How advantages are whitened. `None`: not at all.
    pub whiten: Option<Whitening>,
}

impl Default for Gae {
    /// γ = λ = 1, verl's whitening.
    fn default() -> Self {
        Self { gamma: 1.0, lambda: Lambda::Fixed(1.0), value_lambda: None, whiten: Some(Whitening::default()) }
    }
}

impl Gae {
    pub(crate) fn validate(&self) -> Result<()> {
        check_unit("gae gamma", self.gamma)?;
        self.lambda.validate("gae lambda")?;
        self.value_lambda.map_or(Ok(()), |l| l.validate("gae value_lambda"))?;
        self.whiten.map_or(Ok(()), |w| w.validate())
    }

    pub(crate) fn advantages(&self, input: &AdvantageInput<'_>) -> Vec<Vec<f64>> {
        let (mut rows, live) = self.raw(input, self.lambda);
        self.whiten.iter().for_each(|w| w.rows(&mut rows, &live));
        rows
    }

    /// What the critic should have said: Â_t + V_t before whitening, with λ of the targets; 0 where a token does not count.
    ///
    /// # Errors
    /// As [`Estimator::estimate`](crate::Estimator::estimate).
    pub fn value_targets(&self, input: &AdvantageInput<'_>) -> Result<Vec<Vec<f64>>> {
        self.validate()?;
        input.check(crate::Estimator::Gae(*self).needs())?;
        let (mut rows, live) = self.raw(input, self.value_lambda.unwrap_or(self.lambda));
        let values = input.values.as_deref().unwrap_or_default();
        for ((row, values), live) in rows.iter_mut().zip(values).zip(&live) {
            row.iter_mut().zip(values).zip(live).filter(|(_, l)| **l).for_each(|((a, v), _)| *a += v);
        }
        Ok(rows)
    }

    fn raw(&self, input: &AdvantageInput<'_>, lambda: Lambda) -> (Vec<Vec<f64>>, Vec<Vec<bool>>) {
        let rewards = input.rewards_by_token();
        let live = live(input, &rewards);
        let values = input.values.as_deref().unwrap_or_default();
        let row = |row: usize| {
            let (live, values) = (&live[row], &values[row]);
            let lambda = lambda.at(live.iter().filter(|l| **l).count());
            let mut advantages = vec![0.0; live.len()];
            let Some(rewards) = &rewards[row] else { return advantages };
            let (mut next_value, mut next) = (0.0, 0.0);
            for t in (0..live.len()).rev().filter(|&t| live[t]) {
                let delta = rewards[t] + self.gamma * next_value - values[t];
                next = delta + self.gamma * lambda * next;
                next_value = values[t];
                advantages[t] = next;
            }
            advantages
        };
        ((0..rewards.len()).map(row).collect(), live)
    }
}
