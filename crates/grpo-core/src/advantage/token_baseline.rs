//! The optimal token baseline: one baseline a position, weighted by how much each completion's gradient has moved so far.

use serde::{Deserialize, Serialize};

use super::input::AdvantageInput;
use super::returns::all_returns;
use super::rows_by_group;
use super::spread::{Ddof, Spread};
use super::standardise::Singleton;
use crate::error::{Error, Result};

/// OTB: Â_t = G_t − (Σ_j G_{j,t} W_{j,t}) / (Σ_j W_{j,t} + ε), over the completions of the group with a token of the loss at t.
///
/// G_t is the undiscounted return; W_t = Σ_{k ≤ t} ρ_k² (1 − 2 π_k + Σ_v π_k(v)²) over the tokens of the loss, which is the squared
/// norm of the gradient by the logits so far; ρ is the importance weight if it is given, else 1. Where the returns at a place do not
/// differ (the longest completion's tail, a group whose rewards are equal), the advantage is exactly 0.
///
/// # Source
/// arXiv 2602.07078; positions are token places, as in verl.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimalTokenBaseline {
    /// ε ≥ 0.
    pub epsilon: f64,
    /// What a group of one gives. [`Singleton::Raw`] gives its returns.
    pub singleton: Singleton,
}

impl Default for OptimalTokenBaseline {
    /// ε = 1e-8.
    fn default() -> Self {
        Self { epsilon: 1e-8, singleton: Singleton::Refuse }
    }
}

impl OptimalTokenBaseline {
    pub(crate) fn validate(&self) -> Result<()> {
        let ok = self.epsilon.is_finite() && self.epsilon >= 0.0;
        if ok { Ok(()) } else { Err(Error::config("optimal_token_baseline epsilon", self.epsilon, "finite and at least 0")) }
    }

    pub(crate) fn advantages(&self, input: &AdvantageInput<'_>) -> Result<Vec<Vec<f64>>> {
        let (returns, live) = all_returns(input, 1.0);
        let weights = weights(input, &live);
        let mut advantages: Vec<Vec<f64>> = returns.iter().map(|r| vec![0.0; r.len()]).collect();
        for (id, rows) in rows_by_group(&input.groups) {
            if self.singleton.of(id, rows.len())? {
                rows.iter().for_each(|&row| advantages[row].clone_from(&returns[row]));
                continue;
            }
            let width = rows.iter().map(|&row| live[row].len()).max().unwrap_or(0);
            for t in 0..width {
                let here: Vec<usize> = rows.iter().copied().filter(|&row| live[row].get(t).is_some_and(|l| *l)).collect();
                let values: Vec<f64> = here.iter().map(|&row| returns[row][t]).collect();
                if Spread::of(&values, Ddof::Sample).std == 0.0 {
                    continue;
                }
                let total: f64 = here.iter().map(|&row| weights[row][t]).sum::<f64>() + self.epsilon;
                // Nothing has a gradient so far (every token was certain): no baseline is needed.
                let baseline = if total > 0.0 { here.iter().map(|&row| weights[row][t] / total * returns[row][t]).sum() } else { 0.0 };
                here.iter().for_each(|&row| advantages[row][t] = returns[row][t] - baseline);
            }
        }
        Ok(advantages)
    }
}

/// W of every completion.
fn weights(input: &AdvantageInput<'_>, live: &[Vec<bool>]) -> Vec<Vec<f64>> {
    let Some(p) = &input.probabilities else { return Vec::new() };
    let row = |(row, live): (usize, &Vec<bool>)| {
        let mut so_far = 0.0;
        let mut weights = vec![0.0; live.len()];
        for t in (0..live.len()).filter(|&t| live[t]) {
            let ratio = input.ratios.as_ref().map_or(1.0, |r| r[row][t]);
            // (1 − π)² + Σ_{v ≠ token} π(v)² cannot be below 0; rounded inputs can.
            so_far += ratio * ratio * (1.0 - 2.0 * p.token[row][t] + p.squares[row][t]).max(0.0);
            weights[t] = so_far;
        }
        weights
    };
    live.iter().enumerate().map(row).collect()
}
