//! The slow, plain reference: f64, slices and loops, no tensors and none of grpo-core's arithmetic. Each function stands beside its
//! formula and does what the formula says, once for each number that is asked for.

pub(crate) mod advantages;
pub(crate) mod bandit;
mod dual;
pub(crate) mod kl;
pub(crate) mod optim;
pub(crate) mod sampling;
pub(crate) mod softmax;
pub(crate) mod token_advantages;
pub(crate) mod trl;
pub(crate) mod verl;

use std::collections::BTreeMap;

use crate::cases::Matrix;

pub(crate) use dual::{Dual, gradient};

/// A loss and what is counted beside it.
pub(crate) struct Loss {
    pub loss: Dual,
    pub metrics: BTreeMap<&'static str, f64>,
}

/// What a loss is computed from, besides the log-probabilities.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    pub old: Option<&'a Matrix>,
    pub reference: Option<&'a Matrix>,
    pub mask: &'a Matrix,
    pub advantages: &'a [f64],
    pub token_advantages: Option<&'a Matrix>,
}

impl Data<'_> {
    /// x = log π − log π_old at a token; without an old policy, of the policy held constant.
    fn log_ratio(&self, logp: &[Dual], row: usize, col: usize) -> Dual {
        let new = logp[row * self.mask.cols + col];
        new - self.old.map_or(new.held(), |old| Dual::constant(old.at(row, col)))
    }
}

/// A parameter that this loss cannot do without.
pub(crate) fn need(value: Option<f64>, name: &str) -> Result<f64, String> {
    value.ok_or_else(|| format!("params hold no {name}, which this loss needs"))
}

/// Σ / n, and 0 of nothing.
fn share(sum: f64, count: usize) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}
