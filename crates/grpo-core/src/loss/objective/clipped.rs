//! Surrogates of the ratio: clipped, and gated softly.

use burn::Tensor;

use super::PolicyTerm;
use crate::config::{ClipRange, DualClip};
use crate::loss::terms::Terms;

/// ℓ = −min(ρ Â, clip(ρ, 1 − low, 1 + high) Â), bounded for Â < 0 by the dual clip.
///
/// The minimum is taken of the products, not of the ratios. Without a dual clip it is unbounded for Â < 0 and ρ > 1 + high.
///
/// # Source
/// PPO (arXiv 1707.06347) eq. 7; dual clip: arXiv 1912.09729, arXiv 2505.07291.
pub fn clipped(terms: &Terms, clip: ClipRange, dual: DualClip) -> PolicyTerm {
    let (ratio, a) = (terms.level.ratio.clone(), terms.advantages.clone());
    let capped = match dual {
        DualClip::RatioCap(cap) => ratio.clone().clamp_max(cap), // [N, Tc]
        DualClip::None | DualClip::LossCap(_) => ratio.clone(),
    };
    let inside = ratio.clone().clamp(1.0 - clip.low, 1.0 + clip.high); // [N, Tc]
    let surrogate = (capped.clone() * a.clone()).min_pair(inside * a.clone()); // [N, Tc]
    let (negative, positive) = (a.clone().lower_elem(0.0), a.clone().greater_elem(0.0)); // [N, Tc]
    let value = capped.inner();
    let low = value.clone().lower_elem(1.0 - clip.low).bool_and(negative.clone());
    let high = value.clone().greater_elem(1.0 + clip.high).bool_and(positive);
    let region = low.clone().bool_or(high.clone());
    let mut loss = surrogate.neg(); // [N, Tc]
    let mut cut = None;
    match dual {
        DualClip::None => {}
        DualClip::RatioCap(cap) => cut = Some(ratio.inner().greater_elem(cap).bool_and(negative)),
        DualClip::LossCap(cap) => {
            let ceiling = a * -cap; // [N, Tc], positive where Â < 0
            cut = Some(loss.clone().inner().greater(ceiling.clone()).bool_and(negative.clone()));
            loss = loss.clone().mask_where(negative, loss.min_pair(ceiling)); // [N, Tc]
        }
    }
    let term = PolicyTerm::new(loss).with(terms, "clip_ratio/low_mean", low).with(terms, "clip_ratio/high_mean", high).with(
        terms,
        "clip_ratio/region_mean",
        region,
    );
    match cut {
        Some(at) => term.with(terms, "clip_ratio/dual_mean", at),
        None => term,
    }
}

/// ℓ = −(4/τ) σ(τ (ρ − 1)) Â, τ = `positive` where Â > 0, else `negative`.
///
/// At ρ = 1 the gradient is −Â ∇ρ, the value −2 Â / τ.
///
/// # Source
/// SAPO (arXiv 2511.20347).
pub fn sapo(terms: &Terms, positive: f64, negative: f64) -> PolicyTerm {
    let a = terms.advantages.clone();
    let up = terms.indicator(a.clone().greater_elem(0.0)); // [N, Tc]
    let temperature: Tensor<2> = up * (positive - negative) + negative; // [N, Tc]
    // σ(x) = (1 + tanh(x / 2)) / 2: burn's own sigmoid has 32 bits in f64 on ndarray.
    let gate = (temperature.clone() * (terms.level.ratio.clone() - 1.0) * 0.5).tanh() * 0.5 + 0.5; // [N, Tc]
    PolicyTerm::new((gate * a * 4.0 / temperature).neg())
}
