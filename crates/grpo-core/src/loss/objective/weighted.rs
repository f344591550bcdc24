//! Terms of log π with a constant weight, and terms of the bare ratio.

use burn::Tensor;

use super::PolicyTerm;
use crate::config::{ClipRange, WeightCap};
use crate::loss::terms::Terms;

/// ℓ = −ρ Â
pub fn importance_sampling(terms: &Terms) -> PolicyTerm {
    PolicyTerm::new((terms.level.ratio.clone() * terms.advantages.clone()).neg())
}

/// ℓ = −Â log π
///
/// # Source
/// REINFORCE; GPG (arXiv 2504.02546).
pub fn reinforce(terms: &Terms) -> PolicyTerm {
    PolicyTerm::new(weighted(terms, terms.mask.clone()))
}

/// ℓ = −sg(min(ρ, cap)) Â log π
///
/// # Source
/// CISPO (arXiv 2506.13585), in TRL's one-sided form.
pub fn cispo(terms: &Terms, cap: WeightCap) -> PolicyTerm {
    let ratio = terms.level.ratio.clone().inner();
    let cut = ratio.clone().greater_elem(cap.0).bool_and(terms.advantages.clone().greater_elem(0.0));
    PolicyTerm::new(weighted(terms, ratio.clamp_max(cap.0))).with(terms, "cispo_clip_ratio", cut)
}

/// ℓ = −sg(clip(ρ, 1 − low, 1 + high)) Â log π
///
/// # Source
/// CISPO, in verl's two-sided form.
pub fn cispo_two_sided(terms: &Terms, clip: ClipRange) -> PolicyTerm {
    let ratio = terms.level.ratio.clone().inner();
    let weight = ratio.clone().clamp(1.0 - clip.low, 1.0 + clip.high); // [N, Tc]
    let cut = ratio.not_equal(weight.clone());
    PolicyTerm::new(weighted(terms, weight)).with(terms, "cispo_clip_ratio", cut)
}

/// ℓ = −sg(min(ρ, cap)) Â log π · M; M = 0 where Â > 0 and π − π_old > high, or Â ≤ 0 and π − π_old < −low.
///
/// # Source
/// DPPO-TV (arXiv 2602.04879).
pub fn dppo_tv(terms: &Terms, range: ClipRange, cap: WeightCap) -> PolicyTerm {
    let moved = probability_change(terms); // [N, Tc]
    let up = terms.advantages.clone().greater_elem(0.0);
    let out = up.clone().bool_and(moved.clone().greater_elem(range.high)).bool_or(up.bool_not().bool_and(moved.lower_elem(-range.low)));
    let weight = terms.token.ratio.clone().inner().clamp_max(cap.0).mask_fill(out.clone(), 0.0); // [N, Tc]
    PolicyTerm::new(weighted(terms, weight)).with(terms, "dppo_mask_ratio", out)
}

/// As [`dppo_tv`], masked where the binary KL D = p_o log(p_o / p) + (1 − p_o) log((1 − p_o) / (1 − p)) is beyond the range *and*
/// the move goes on in the direction of Â.
///
/// # Source
/// DPPO-KL (arXiv 2602.04879).
pub fn dppo_kl(terms: &Terms, range: ClipRange, cap: WeightCap) -> PolicyTerm {
    let (p, old) = (terms.log_probs.clone().inner().exp(), terms.old.clone().exp()); // [N, Tc]
    // 1e-8 keeps the logarithm finite where a probability is 1.
    let rest = ((old.clone().neg() + (1.0 + 1e-8)) / (p.clone().neg() + (1.0 + 1e-8))).log(); // [N, Tc]
    let divergence = old.clone() * terms.token.raw.clone().inner().neg() + (old.clone().neg() + 1.0) * rest; // [N, Tc]
    let up = terms.advantages.clone().greater_elem(0.0);
    let above = up.clone().bool_and(p.clone().greater(old.clone())).bool_and(divergence.clone().greater_elem(range.high));
    let below = up.bool_not().bool_and(p.lower(old)).bool_and(divergence.greater_elem(range.low));
    let out = above.bool_or(below);
    let weight = terms.token.ratio.clone().inner().clamp_max(cap.0).mask_fill(out.clone(), 0.0); // [N, Tc]
    PolicyTerm::new(weighted(terms, weight)).with(terms, "dppo_mask_ratio", out)
}

/// ℓ = −ρ Â where |π − π_old| ≤ threshold, else 0.
///
/// # Source
/// prime-rl's `ipo`.
pub fn threshold_mask(terms: &Terms, threshold: f64) -> PolicyTerm {
    let out = probability_change(terms).abs().greater_elem(threshold);
    let loss = (terms.token.ratio.clone() * terms.advantages.clone()).neg().mask_fill(out.clone(), 0.0); // [N, Tc]
    PolicyTerm::new(loss).with(terms, "threshold_mask_ratio", out)
}

/// ℓ = −(Â log π − (β/2) x²), x unbounded.
///
/// # Source
/// arXiv 2405.19107; verl's `dro`.
pub fn dro(terms: &Terms, beta: f64) -> PolicyTerm {
    let drift = terms.token.raw.clone().square() * (beta / 2.0); // [N, Tc]
    PolicyTerm::new(drift - terms.advantages.clone() * terms.log_probs.clone())
}

/// −weight · Â · log π, the weight a constant.
pub(super) fn weighted(terms: &Terms, weight: Tensor<2>) -> Tensor<2> {
    (terms.log_probs.clone() * (weight * terms.advantages.clone())).neg() // [N, Tc]
}

/// π − π_old, a constant.
fn probability_change(terms: &Terms) -> Tensor<2> {
    terms.log_probs.clone().inner().exp() - terms.old.clone().exp() // [N, Tc]
}
