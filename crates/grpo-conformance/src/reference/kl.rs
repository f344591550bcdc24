//! The KL to the reference: estimators from one log-probability, and the KL itself.

use super::Dual;
use super::softmax::log_softmax;
use crate::cases::{Estimator, EstimatorResult};

/// With d = log π_ref − log π, clamped first if asked for:
/// k1 = −d, |d|, k2 = d²/2, k3 = eᵈ − d − 1, and k3 in value with the gradient of k2.
pub(crate) fn estimate(how: &EstimatorResult, logp: Dual, ref_logp: f64) -> Dual {
    let d = Dual::constant(ref_logp) - logp;
    let clamped = |x: Dual, bound: Option<f64>| bound.filter(|_| how.clamp).map_or(x, |b| x.clamp(-b, b));
    let k3 = |d: Dual| d.exp() - d - 1.0;
    match how.estimator {
        Estimator::K1 => -d,
        Estimator::Abs => d.abs(),
        Estimator::K2 => k2(d),
        Estimator::K3 => clamped(k3(clamped(d, how.clamp_log_ratio)), how.clamp_value),
        // Forward the one, backward the other: k2 + const(k3 − k2).
        Estimator::K3WithK2Gradient => {
            let value = clamped(k3(clamped(d, how.clamp_log_ratio)), how.clamp_value);
            k2(d) + (value - k2(d)).held()
        }
    }
}

fn k2(d: Dual) -> Dual {
    d * d / 2.0
}

/// KL(p ‖ q) = Σ_v p_v (log p_v − log q_v), p and q from logits at a temperature.
pub(crate) fn exact(p: &[Dual], q: &[Dual], temperature: f64) -> Dual {
    let (p, q) = (log_softmax(p, temperature), log_softmax(q, temperature));
    p.iter().zip(&q).map(|(&p, &q)| p.exp() * (p - q)).sum()
}
