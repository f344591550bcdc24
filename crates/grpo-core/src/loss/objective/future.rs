//! FIPO: tokens weigh by what follows them.

use burn::Tensor;

use super::PolicyTerm;
use super::clipped::clipped;
use crate::config::{ClipRange, DualClip};
use crate::loss::terms::{Event, Terms};

/// The clipped term × sg(f), f_t = clip(exp(Σ_{k ≥ t} γ^{k−t} x_k), low, high), γ = 2^(−1/half_life).
///
/// Tokens with ρ > safety stay out of the sum; where Â < 0 and ρ > safety, f also lies in [0.8, 1]. Masked tokens are passed over but take
/// their place in the exponent.
///
/// # Source
/// FIPO (arXiv 2603.19835).
pub fn fipo(terms: &Terms, clip: ClipRange, half_life: f64, [low, high]: [f64; 2], safety: f64) -> PolicyTerm {
    let width = terms.mask.dims()[1];
    let gamma = (-std::f64::consts::LN_2 / half_life).exp();
    let ratio = terms.token.ratio.clone().inner();
    let unsafe_ = ratio.greater_elem(safety); // [N, Tc]
    let x = terms.token.log.clone().inner().mask_fill(unsafe_.clone(), 0.0); // [N, Tc]
    // decay[k][t] = γ^(k − t) for k ≥ t: one matrix product in place of a loop over places.
    let decay: Vec<f64> = (0..width * width)
        .map(|i| (i / width, i % width))
        .map(|(k, t)| if k >= t { gamma.powi(i32::try_from(k - t).unwrap_or(i32::MAX)) } else { 0.0 })
        .collect();
    let future = x.matmul(terms.constant(&decay, [width, width])); // [N, Tc]
    let weight = future.clamp(-20.0, 20.0).exp().clamp(low, high); // [N, Tc]
    let held = unsafe_.bool_and(terms.advantages.clone().lower_elem(0.0)); // [N, Tc]
    let weight: Tensor<2> = weight.clone().mask_where(held, weight.clamp(0.8, 1.0)); // [N, Tc]
    let mut term = clipped(terms, clip, DualClip::None);
    term.loss = term.loss * weight.clone(); // [N, Tc]
    term.events.push(Event::of_tokens("fipo/weight_mean", weight));
    term
}
