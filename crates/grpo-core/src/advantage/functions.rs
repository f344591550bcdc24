//! Several rewards, each normalised by itself before they are added.

use serde::{Deserialize, Serialize};

use super::Advantages;
use super::input::{AdvantageInput, Functions};
use super::rows_by_group;
use super::spread::{Ddof, Spread};
use super::standardise::Singleton;
use super::whiten::Whitening;
use crate::error::{Error, Result};

/// What follows on the weighted sum of normalised rewards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AfterSum {
    /// (a − mean) / (std + ε) over the completions of the batch (TRL; ε as within groups).
    Standardise,
    /// (a − μ) / √(var + ε) over the tokens of the batch: long completions weigh more (verl). Needs masks.
    Whiten(Whitening),
    /// Nothing.
    Nothing,
}

/// GDPO: Â_i = Σ_f w_f · (r_if − mean_f) / (std_f + ε), mean and std of function f within the group; then normalised over the batch.
///
/// Two functions whose sum is constant still teach: the other order, sum-then-normalise, is
/// [`RewardTable::totals`](crate::RewardTable::totals) and [`Standardise`](crate::Standardise). A missing reward stays out of its function's
/// statistics; a function with one reward in a group says nothing there. Groups in which no function varies have exactly 0.
///
/// # Source
/// arXiv 2601.05242. TRL's `normalize_then_sum`: ε = 1e-4, sample standard deviation ([`Default`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NormaliseThenSum {
    /// Which standard deviation.
    pub ddof: Ddof,
    /// ε ≥ 0.
    pub epsilon: f64,
    /// What follows on the sum.
    pub after: AfterSum,
    /// What a group of one gives. [`Singleton::Raw`] is refused: it would not be normalised.
    pub singleton: Singleton,
}

impl Default for NormaliseThenSum {
    fn default() -> Self {
        Self { ddof: Ddof::Sample, epsilon: 1e-4, after: AfterSum::Standardise, singleton: Singleton::Refuse }
    }
}

impl NormaliseThenSum {
    pub(crate) fn validate(&self) -> Result<()> {
        if !self.epsilon.is_finite() || self.epsilon < 0.0 {
            return Err(Error::config("normalise_then_sum epsilon", self.epsilon, "finite and at least 0"));
        }
        if self.singleton == Singleton::Raw {
            return Err(Error::config("normalise_then_sum singleton", "raw", "refuse or zero"));
        }
        match self.after {
            AfterSum::Whiten(whiten) => whiten.validate(),
            AfterSum::Standardise | AfterSum::Nothing => Ok(()),
        }
    }

    pub(crate) fn advantages(&self, input: &AdvantageInput<'_>) -> Result<Advantages> {
        let Some(Functions { columns, weights }) = &input.functions else { return Ok(Advantages::PerCompletion(Vec::new())) };
        let n = input.len();
        let (mut sums, mut varies, mut scored) = (vec![0.0; n], vec![false; n], vec![false; n]);
        for (id, rows) in rows_by_group(&input.groups) {
            self.singleton.of(id, rows.len())?;
            for (column, weight) in columns.iter().zip(weights.iter()).filter(|(_, w)| **w != 0.0) {
                let present: Vec<(usize, f64)> = rows.iter().filter_map(|&row| column[row].map(|r| (row, r))).collect();
                present.iter().for_each(|&(row, _)| scored[row] = true);
                let spread = Spread::of(&present.iter().map(|(_, r)| *r).collect::<Vec<_>>(), self.ddof);
                if spread.std > 0.0 {
                    present.iter().for_each(|&(row, r)| sums[row] += weight * (r - spread.mean) / (spread.std + self.epsilon));
                    rows.iter().for_each(|&row| varies[row] = true);
                }
            }
        }
        let all: Vec<f64> = sums.iter().zip(&scored).filter(|(_, s)| **s).map(|(a, _)| *a).collect();
        match self.after {
            AfterSum::Nothing => {}
            AfterSum::Standardise => {
                let spread = Spread::of(&all, self.ddof);
                let divisor = if spread.std > 0.0 { spread.std + self.epsilon } else { f64::INFINITY };
                sums.iter_mut().for_each(|a| *a = (*a - spread.mean) / divisor);
            }
            AfterSum::Whiten(whiten) => {
                let masks = input.masks.as_deref().unwrap_or_default();
                let live: Vec<Vec<bool>> = masks.iter().zip(&scored).map(|(m, s)| m.iter().map(|m| *m && *s).collect()).collect();
                let Advantages::PerCompletion(whitened) = Advantages::PerCompletion(sums).whiten(&whiten, &live)? else {
                    return Ok(Advantages::PerCompletion(Vec::new()));
                };
                sums = whitened;
            }
        }
        // Exactly 0, where whitening would shift it by rounding or by length.
        sums.iter_mut().zip(varies.iter().zip(&scored)).filter(|(_, (v, s))| !**v || !**s).for_each(|(a, _)| *a = 0.0);
        Ok(Advantages::PerCompletion(sums))
    }
}
