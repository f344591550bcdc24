//! REAL: a ranking within the group.

use burn::Tensor;
use burn::tensor::{Bool, TensorData};

use super::PolicyTerm;
use crate::advantage::rows_by_group;
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::loss::stats::StepStats;
use crate::loss::terms::Terms;

/// Per group log(1 + Σ_{Ā ≤ 0} e^{s/τ}) + log(1 + Σ_{Ā > 0} e^{−s/τ}), s the mean of x over the completion, Ā that of its advantages; at
/// each token of the group.
///
/// Completions without tokens, and groups without both signs, give 0. [`Reduction::PromptTokenMean`](crate::Reduction::PromptTokenMean)
/// divides by all P groups of the step; the term is multiplied by P / P', P' those with both signs: the mean is over these.
///
/// # Errors
/// A group that does not stand in one micro-batch whole: its completions are compared with each other.
///
/// # Source
/// REAL (arXiv 2602.05630).
pub fn real(terms: &Terms, batch: &Batch, step: &StepStats, temperature: f64) -> Result<PolicyTerm> {
    let groups = rows_by_group(batch.groups());
    let (p, [n, width]) = (groups.len(), batch.shape());
    let counts = batch.token_counts();
    let rewarded = |row: usize| batch.advantages_host()[row * width..(row + 1) * width].iter().sum::<f64>() > 0.0;
    let (mut lower, mut upper, mut member) = (vec![true; p * n], vec![true; p * n], vec![0.0; p * n]);
    for (g, (id, rows)) in groups.iter().enumerate() {
        let rows = || rows.iter().copied().filter(|&row| counts[row] > 0);
        let (here, all) = (rows().map(|row| counts[row]).sum::<usize>(), step.group_tokens.get(id).copied().unwrap_or(0));
        if here != all {
            let problem = format!("group {} has {here} of its {all} tokens here, must be whole: REAL compares its completions", id.0);
            return Err(Error::invalid("micro-batch", problem));
        }
        if rows().any(rewarded) && rows().any(|row| !rewarded(row)) {
            for row in rows() {
                member[g * n + row] = 1.0;
                let side = if rewarded(row) { &mut upper } else { &mut lower };
                side[g * n + row] = false;
            }
        }
    }
    // burn differentiates a division by a scalar in 32 bits, a product in the tensor's own.
    let s = terms.row_mean(terms.token.log.clone()) * temperature.recip(); // [N, 1]
    let log_sum = |s: Tensor<2>, left_out: Vec<bool>| {
        let left_out = Tensor::<2, Bool>::from_data(TensorData::new(left_out, [p, n]), &terms.device());
        let s = s.transpose().expand([p, n]).mask_fill(left_out, f64::from(f32::MIN)); // [P, N]
        // log(1 + Σ e^s) from the largest term on: e^{x/τ} alone leaves 32 bits at small τ.
        let top = s.clone().inner().max_dim(1).clamp_min(0.0); // [P, 1]
        ((s - top.clone()).exp().sum_dim(1) + top.clone().neg().exp()).log() + top // [P, 1]
    };
    let share = step.group_tokens.len() as f64 / step.mixed_groups.len().max(1) as f64;
    let value = (log_sum(s.clone(), lower) + log_sum(s.neg(), upper)) * share; // [P, 1]
    let member = terms.constant(&member, [p, n]); // [P, N]
    Ok(PolicyTerm::new(terms.spread(member.transpose().matmul(value)).mask_fill(terms.ignored.clone(), 0.0))) // [N, Tc]
}
