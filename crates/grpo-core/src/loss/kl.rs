//! The KL term of one token: the leash to the reference.

use burn::Tensor;

use super::ratio::LogRatio;
use crate::batch::{Batch, Reference};
use crate::config::{KlEstimator, KlGradient, KlPenalty};
use crate::error::{Error, Result};
use crate::policy::Scores;

/// A KL term, each `[N, Tc]`; not yet multiplied by β.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KlTerm {
    /// The estimate. Tracked if the scores are.
    pub value: Tensor<2>,
    /// 1 where d was cut by the bound, else 0.
    pub bounded: Tensor<2>,
}

/// The KL term with d = log π_ref − log π:
///
/// | estimator | formula |
/// |---|---|
/// | k1 | −d |
/// | k2 | d² / 2 |
/// | k3 | e^d − d − 1 |
/// | exact | Σ_v π_v (log π_v − log π_ref,v), from the scores |
///
/// times ρ where the gradient is [`KlGradient::RatioWeighted`]. `log_probs` is masked; d is bounded before `exp`.
///
/// # Errors
/// No reference in the batch; a reference or scores in the wrong form for the estimator.
///
/// # Source
/// DeepSeekMath (arXiv 2402.03300) eq. 4 for k3; the gradients: arXiv 2506.09477, arXiv 2512.02556.
pub fn kl_term(kl: KlPenalty, new: &Scores, log_probs: &Tensor<2>, x: &LogRatio, batch: &Batch, bound: Option<f64>) -> Result<KlTerm> {
    if kl.estimator == KlEstimator::Exact {
        let value = new.kl.clone().ok_or_else(|| Error::invalid("scores", "hold no exact KL: score with ScoreRequest::with_kl_to"))?;
        Error::check_shape("exact KL", &value.dims(), &batch.shape())?;
        return Ok(KlTerm { bounded: value.zeros_like().inner(), value });
    }
    let Some(Reference::LogProbs(reference)) = batch.reference() else {
        return Err(Error::invalid(
            "reference log-probs",
            format!("missing, though the KL coefficient is {}: call Batch::score_reference", kl.coefficient),
        ));
    };
    let reference = reference.tensor().cast(log_probs.dtype()).mask_fill(batch.mask().bool_not(), 0.0); // [N, Tc]
    let d = super::log_ratio(reference - log_probs.clone(), bound); // [N, Tc]
    let value = estimate(kl.estimator, &d);
    let value = match kl.gradient {
        KlGradient::Plain => value,
        KlGradient::RatioWeighted => value * x.ratio.clone(),
    };
    Ok(KlTerm { value, bounded: d.bounded })
}

fn estimate(estimator: KlEstimator, d: &LogRatio) -> Tensor<2> {
    match estimator {
        KlEstimator::K1 => d.log.clone().neg(),
        KlEstimator::K2 => d.log.clone().square() / 2.0,
        KlEstimator::K3 | KlEstimator::Exact => d.ratio.clone() - d.log.clone() - 1.0,
    }
}
