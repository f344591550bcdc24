//! The policy term of one token.

use burn::Tensor;

use crate::config::ClipRange;

/// A policy term, each `[N, Tc]`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PolicyTerm {
    /// ℓ: minimised.
    pub loss: Tensor<2>,
    /// 1 where ρ < 1 − low and Â < 0, else 0: the clip range takes the gradient away.
    pub clipped_low: Tensor<2>,
    /// 1 where ρ > 1 + high and Â > 0, else 0.
    pub clipped_high: Tensor<2>,
}

/// ℓ = −min(ρ Â, clip(ρ, 1 − low, 1 + high) Â)
///
/// The minimum is taken of the products, not of the ratios. At ρ = 1 its gradient is −Â ∇log π. For Â < 0 and ρ > 1 + high it
/// is not clipped: the loss is unbounded there (hence dual clip).
///
/// Shapes: all `[N, Tc]`; `ratio` may be tracked, `advantages` is a constant.
///
/// # Source
/// PPO (arXiv 1707.06347) eq. 7.
pub fn clipped(ratio: &Tensor<2>, advantages: &Tensor<2>, clip: ClipRange) -> PolicyTerm {
    let inside = ratio.clone().clamp(1.0 - clip.low, 1.0 + clip.high); // [N, Tc]
    let loss = (ratio.clone() * advantages.clone()).min_pair(inside * advantages.clone()).neg(); // [N, Tc]
    let (value, dtype) = (ratio.clone().inner(), ratio.dtype());
    let below = value.clone().lower_elem(1.0 - clip.low).bool_and(advantages.clone().lower_elem(0.0)); // [N, Tc]
    let above = value.greater_elem(1.0 + clip.high).bool_and(advantages.clone().greater_elem(0.0)); // [N, Tc]
    PolicyTerm { loss, clipped_low: below.float().cast(dtype), clipped_high: above.float().cast(dtype) }
}
