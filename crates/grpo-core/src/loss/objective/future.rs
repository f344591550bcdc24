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
    let gamma = (-std::f64::consts::LN_2 / half_life).exp();
    let ratio = terms.token.ratio.clone().inner();
    let unsafe_ = ratio.greater_elem(safety); // [N, Tc]
    let x = terms.token.log.clone().inner().mask_fill(unsafe_.clone(), 0.0); // [N, Tc]
    let future = discounted_future(x, gamma); // [N, Tc]
    let weight = future.clamp(-20.0, 20.0).exp().clamp(low, high); // [N, Tc]
    let held = unsafe_.bool_and(terms.advantages.clone().lower_elem(0.0)); // [N, Tc]
    let weight: Tensor<2> = weight.clone().mask_where(held, weight.clamp(0.8, 1.0)); // [N, Tc]
    let mut term = clipped(terms, clip, DualClip::None);
    term.loss = term.loss * weight.clone(); // [N, Tc]
    term.events.push(Event::of_tokens("fipo/weight_mean", weight));
    term
}

/// Σ_{k ≥ t} γ^(k−t) x_k by doubling: after each round a place holds twice as many terms. ⌈log₂ Tc⌉ passes and no [Tc, Tc] matrix.
fn discounted_future(x: Tensor<2>, gamma: f64) -> Tensor<2> {
    let [n, width] = x.dims();
    let (mut sum, mut reach) = (x, 1);
    while reach < width {
        let later = sum.clone().slice([0..n, reach..width]); // [N, Tc − reach]
        let nothing = Tensor::zeros([n, reach], (&sum.device(), sum.dtype())); // [N, reach]
        sum = sum + Tensor::cat(vec![later, nothing], 1) * gamma.powf(reach as f64); // [N, Tc]
        reach *= 2;
    }
    sum
}
