//! Whitening and clipping of advantages. Tokens that the mask leaves out stay exactly 0.

use serde::{Deserialize, Serialize};

use super::Advantages;
use super::spread::Ddof;
use crate::error::{Error, Result};

/// What mean and variance are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WhitenOver {
    /// All tokens of the loss: long completions weigh more.
    #[default]
    Tokens,
    /// All completions, each by the mean of its tokens: lengths do not matter.
    Completions,
    /// The tokens of each completion by itself. One advantage a completion has nothing to be whitened by, and becomes 0.
    EachCompletion,
}

/// x → (x − μ) / √(var + ε), over the tokens of the loss.
///
/// μ and the raw variance are sums divided by (n + `count_epsilon`); the raw variance is then multiplied by n / (n − 1) if
/// `ddof` is [`Ddof::Sample`]. With `count_epsilon` = 0 these are the plain mean and variance.
///
/// Values that do not differ have nothing to be scaled by and become exactly 0. So does a single value.
///
/// # Source
/// REINFORCE++ (arXiv 2501.03262). verl: sample variance, ε and `count_epsilon` 1e-8 ([`Default`]); OpenRLHF and NeMo:
/// population variance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Whitening {
    /// What mean and variance are taken over.
    pub over: WhitenOver,
    /// Which variance.
    pub ddof: Ddof,
    /// ε ≥ 0, added to the variance.
    pub epsilon: f64,
    /// Added to the number of values in the mean and the raw variance, at least 0.
    pub count_epsilon: f64,
}

impl Default for Whitening {
    fn default() -> Self {
        Self { over: WhitenOver::Tokens, ddof: Ddof::Sample, epsilon: 1e-8, count_epsilon: 1e-8 }
    }
}

impl Whitening {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        for (name, value) in [("whitening epsilon", self.epsilon), ("whitening count_epsilon", self.count_epsilon)] {
            if !value.is_finite() || value < 0.0 {
                return Err(Error::config(name, value, "finite and at least 0"));
            }
        }
        Ok(())
    }

    /// Whitens a list of values.
    ///
    /// ```
    /// use grpo_core::{Ddof, Whitening};
    /// let plain = Whitening { ddof: Ddof::Population, epsilon: 0.0, count_epsilon: 0.0, ..Whitening::default() };
    /// assert_eq!(plain.values(&[10.0, 20.0]), [-1.0, 1.0]);
    /// assert_eq!(plain.values(&[0.3, 0.1 + 0.2]), [0.0, 0.0]);
    /// ```
    pub fn values(&self, values: &[f64]) -> Vec<f64> {
        let (shift, scale) = self.shift_and_scale(values);
        values.iter().map(|v| (v - shift) * scale).collect()
    }

    /// μ and 1 / √(var + ε); a scale of 0 where there is no spread.
    fn shift_and_scale(&self, values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
        if values.len() < 2 || high - low <= 4.0 * f64::EPSILON * high.abs().max(low.abs()) {
            return (0.0, 0.0);
        }
        let mean = values.iter().sum::<f64>() / (n + self.count_epsilon);
        let raw = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n + self.count_epsilon);
        let variance = match self.ddof {
            Ddof::Population => raw,
            Ddof::Sample => raw * n / (n - 1.0),
        } + self.epsilon;
        // Squares of spreads below 1e-154 underflow: nothing to scale by.
        (mean, if variance > 0.0 { 1.0 / variance.sqrt() } else { 0.0 })
    }

    /// Whitens token rows in place, over tokens where `live` is true; all others become 0.
    pub(crate) fn rows(&self, rows: &mut [Vec<f64>], live: &[Vec<bool>]) {
        let counted = |row: &[f64], live: &[bool]| row.iter().zip(live).filter(|(_, l)| **l).map(|(v, _)| *v).collect::<Vec<f64>>();
        let shared = match self.over {
            WhitenOver::Tokens => Some(rows.iter().zip(live).flat_map(|(r, l)| counted(r, l)).collect::<Vec<_>>()),
            WhitenOver::Completions => {
                let means = rows.iter().zip(live).map(|(r, l)| counted(r, l)).filter(|r| !r.is_empty());
                Some(means.map(|r| r.iter().sum::<f64>() / r.len() as f64).collect())
            }
            WhitenOver::EachCompletion => None,
        }
        .map(|values| self.shift_and_scale(&values));
        for (row, live) in rows.iter_mut().zip(live) {
            let (shift, scale) = shared.unwrap_or_else(|| self.shift_and_scale(&counted(row, live)));
            row.iter_mut().zip(live).for_each(|(v, live)| *v = if *live { (*v - shift) * scale } else { 0.0 });
        }
    }
}

impl Advantages {
    /// One number a token: a completion's advantage at each token of the loss, exactly 0 where the mask leaves a token out.
    ///
    /// # Errors
    /// Masks that do not fit.
    pub fn per_token(&self, masks: &[Vec<bool>]) -> Result<Vec<Vec<f64>>> {
        Error::check_shape("masks", &[masks.len()], &[self.len()])?;
        masks
            .iter()
            .enumerate()
            .map(|(row, mask)| Ok(self.row(row, mask.len())?.iter().zip(mask).map(|(&a, &m)| if m { a } else { 0.0 }).collect()))
            .collect()
    }

    /// Whitened over the tokens of the loss. One advantage a completion stays that, unless each completion is whitened by itself.
    ///
    /// # Errors
    /// Settings out of range, masks that do not fit.
    pub fn whiten(&self, whitening: &Whitening, masks: &[Vec<bool>]) -> Result<Self> {
        whitening.validate()?;
        let mut rows = self.per_token(masks)?;
        whitening.rows(&mut rows, masks);
        Ok(match self {
            // A completion without a token of the loss has no advantage that anyone reads.
            Self::PerCompletion(_) => {
                let first = |(row, mask): (&Vec<f64>, &Vec<bool>)| mask.iter().position(|m| *m).map_or(0.0, |t| row[t]);
                Self::PerCompletion(rows.iter().zip(masks).map(first).collect())
            }
            Self::PerToken(_) => Self::PerToken(rows),
        })
    }

    /// Each advantage clipped to [−limit, limit], and how many were beyond.
    ///
    /// # Errors
    /// A limit that is not above 0.
    pub fn clip(&self, limit: f64) -> Result<(Self, usize)> {
        // An infinite limit is no limit; NaN is none either, but nobody means it.
        if limit.is_nan() || limit <= 0.0 {
            return Err(Error::config("advantage clip limit", limit, "above 0"));
        }
        let mut beyond = 0;
        let mut clip = |v: &f64| {
            beyond += usize::from(v.abs() > limit);
            v.clamp(-limit, limit)
        };
        let clipped = match self {
            Self::PerCompletion(rows) => Self::PerCompletion(rows.iter().map(clip).collect()),
            Self::PerToken(rows) => Self::PerToken(rows.iter().map(|row| row.iter().map(&mut clip).collect()).collect()),
        };
        Ok((clipped, beyond))
    }
}
