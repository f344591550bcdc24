//! The importance ratio ρ = π_θ / π_old.

use burn::Tensor;

use crate::config::RatioLevel;

/// Log-ratio and ratio, `[N, Tc]`; a ratio of the sequence stands at each of its tokens.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogRatio {
    /// x as it came, unbounded.
    pub raw: Tensor<2>,
    /// x, bounded.
    pub log: Tensor<2>,
    /// ρ = e^x of the bounded x.
    pub ratio: Tensor<2>,
    /// 1 where the bound cut, else 0. A token that is cut has no gradient.
    pub bounded: Tensor<2>,
}

/// Bounds x to ± `bound`, then takes ρ = e^x.
///
/// The bound stands before `exp`: after it, 0 · ∞ in the backward pass gives NaN. x must already be 0 at masked places.
///
/// # Source
/// verl bounds to ± 20; TRL does not bound.
pub fn log_ratio(x: Tensor<2>, bound: Option<f64>) -> LogRatio {
    let Some(bound) = bound else {
        return LogRatio { ratio: x.clone().exp(), bounded: x.zeros_like().inner(), log: x.clone(), raw: x };
    };
    let bounded = x.clone().inner().abs().greater_elem(bound).float().cast(x.dtype()); // [N, Tc]
    let log = x.clone().clamp(-bound, bound); // [N, Tc]
    LogRatio { ratio: log.clone().exp(), bounded, log, raw: x }
}

/// Takes x_t = log π_θ − log π_old to the level of the ratio.
///
/// | level | x of a token |
/// |---|---|
/// | token | x_t |
/// | sequence | Σ_k x_k / L |
/// | sequence-token | sg(Σ_k x_k / L) + x_t − sg(x_t) |
/// | sequence sum | Σ_k x_k |
///
/// `x` is 0 at masked places, `lengths` `[N, 1]` is max(L, 1). All `[N, Tc]`.
///
/// # Source
/// GSPO (arXiv 2507.18071).
pub fn at_level(level: RatioLevel, x: Tensor<2>, lengths: &Tensor<2>) -> Tensor<2> {
    let shape = x.dims();
    match level {
        RatioLevel::Token => x,
        RatioLevel::Sequence => (x.sum_dim(1) / lengths.clone()).expand(shape), // [N, Tc]
        RatioLevel::SequenceToken => {
            let mean = (x.clone().inner().sum_dim(1) / lengths.clone()).expand(shape); // [N, Tc]
            mean + (x.clone() - x.inner()) // [N, Tc]; the difference is exactly 0, so the value is the mean to the last bit
        }
        RatioLevel::SequenceSum => x.sum_dim(1).expand(shape), // [N, Tc]
    }
}
