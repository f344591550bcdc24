//! The importance ratio ρ = π_θ / π_old.

use burn::Tensor;

/// Log-ratio and ratio of each token, `[N, Tc]`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogRatio {
    /// x, bounded.
    pub log: Tensor<2>,
    /// ρ = e^x.
    pub ratio: Tensor<2>,
    /// 1 where the bound cut, else 0. A token that is cut has no gradient.
    pub bounded: Tensor<2>,
}

/// Bounds x = log π_θ − log π_old to ± `bound`, then takes ρ = e^x.
///
/// The bound stands before `exp`: after it, 0 · ∞ in the backward pass gives NaN. x must already be 0 at masked places.
///
/// # Source
/// verl bounds to ± 20; TRL does not bound.
pub fn log_ratio(x: Tensor<2>, bound: Option<f64>) -> LogRatio {
    let Some(bound) = bound else {
        return LogRatio { ratio: x.clone().exp(), bounded: x.zeros_like().inner(), log: x };
    };
    let bounded = x.clone().inner().abs().greater_elem(bound).float().cast(x.dtype()); // [N, Tc]
    let log = x.clamp(-bound, bound); // [N, Tc]
    LogRatio { ratio: log.clone().exp(), bounded, log }
}
