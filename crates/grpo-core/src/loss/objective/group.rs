//! REAL: a ranking within the group.

use burn::Tensor;

use super::PolicyTerm;
use crate::advantage::rows_by_group;
use crate::batch::Batch;
use crate::loss::terms::Terms;

/// Per group log(1 + Σ_{Â ≤ 0} e^{s/τ}) + log(1 + Σ_{Â > 0} e^{−s/τ}), s the mean of x over the completion; at each token of the group.
///
/// Completions without tokens, and groups without both signs, give 0. A group must stand in one micro-batch.
///
/// # Source
/// REAL (arXiv 2602.05630).
pub fn real(terms: &Terms, batch: &Batch, temperature: f64) -> PolicyTerm {
    let groups = rows_by_group(batch.groups());
    let (p, n) = (groups.len(), batch.shape()[0]);
    let advantages = terms.row_mean(terms.advantages.clone()); // [N, 1]
    let counts = batch.token_counts();
    let mut member = vec![0.0; p * n];
    for (g, (_, rows)) in groups.iter().enumerate() {
        for &row in rows.iter().filter(|&&row| counts[row] > 0) {
            member[g * n + row] = 1.0;
        }
    }
    let member: Tensor<2> = terms.constant(&member, [p, n]); // [P, N]
    let up = terms.indicator(advantages.greater_elem(0.0)); // [N, 1]
    let s = terms.row_mean(terms.token.log.clone()) * temperature.recip(); // [N, 1]; burn differentiates a division by a scalar in f32
    let sum = |rows: Tensor<2>| member.clone().matmul(rows); // [P, 1]
    let lower = sum(s.clone().exp() * (up.clone().neg() + 1.0)); // [P, 1]
    let upper = sum(s.neg().exp() * up.clone()); // [P, 1]
    let mixed = sum(up.clone()).greater_elem(0.0).bool_and(sum(up.neg() + 1.0).greater_elem(0.0)); // [P, 1]
    let value = ((lower + 1.0).log() + (upper + 1.0).log()).mask_fill(mixed.bool_not(), 0.0); // [P, 1]
    PolicyTerm::new(terms.spread(member.transpose().matmul(value)).mask_fill(terms.ignored.clone(), 0.0)) // [N, Tc]
}
