//! The KL term of one token: the leash to the reference.

use burn::Tensor;

use super::ratio::log_ratio;
use super::terms::Terms;
use crate::batch::{Batch, Reference};
use crate::config::{KlEstimator, KlGradient, KlPenalty};
use crate::error::{Error, Result};
use crate::policy::Scores;

/// A KL term, each `[N, Tc]`; not yet multiplied by β.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KlTerm {
    /// The estimate. Tracked if the log-probabilities are.
    pub value: Tensor<2>,
    /// 1 where d or the value was cut by its bound, else 0.
    pub bounded: Tensor<2>,
}

/// KL estimates from log-probabilities, with d = log π_ref − log π bounded to ± `bound` before `exp`:
///
/// | estimator | value | expected gradient as a plain loss, on-policy |
/// |---|---|---|
/// | k1 | −d | 0 |
/// | k2 | d² / 2 | ∇KL(π ‖ π_ref) |
/// | k3 | e^d − d − 1 | ∇KL(π_ref ‖ π) |
/// | abs | \|d\|, derivative 0 at 0 | 2 ∇TV(π, π_ref): no KL |
///
/// With [`KlGradient::RatioWeighted`] k1 and k3 are multiplied by `ratio`: then ∇KL(π ‖ π_ref), also off-policy. Where a bound cuts,
/// the product is a constant: the ratio's gradient alone would push away from the reference. With [`KlGradient::StraightThrough`] the
/// value keeps and the gradient is that of k2. All `[N, Tc]`.
///
/// The gradients of the table are those at each token with its prefix held: how a token changes the KL of the tokens after it is not in them.
///
/// # Errors
/// [`KlEstimator::Exact`]: it is no function of the sampled token's log-probabilities; see [`kl_term`].
///
/// # Source
/// k1, k2, k3: Schulman's note on approximating KL; DeepSeekMath (arXiv 2402.03300) eq. 4; gradients: arXiv 2506.09477, arXiv 2512.02556.
pub fn kl_estimate(
    penalty: &KlPenalty,
    log_probs: Tensor<2>,
    reference: Tensor<2>,
    ratio: &Tensor<2>,
    bound: Option<f64>,
) -> Result<KlTerm> {
    let d = log_ratio(reference - log_probs, bound); // [N, Tc]
    let value = match penalty.estimator {
        KlEstimator::K1 => d.log.clone().neg(),
        KlEstimator::K2 => d.log.clone().square() / 2.0,
        KlEstimator::K3 => d.ratio.clone() - d.log.clone() - 1.0,
        KlEstimator::Abs => d.log.clone() * d.log.clone().inner().sign(),
        KlEstimator::Exact => return Err(Error::config("KL estimator", "exact, from log-probs of sampled tokens", "k1, k2, k3 or abs")),
    };
    let mut bounded = d.bounded; // [N, Tc]
    let value = match penalty.value_bound {
        Some(bound) => {
            let beyond = value.clone().inner().abs().greater_elem(bound).float().cast(value.dtype()); // [N, Tc]
            bounded = bounded.max_pair(beyond);
            value.clamp(-bound, bound)
        }
        None => value,
    };
    let value = match penalty.gradient {
        KlGradient::Plain => value,
        KlGradient::RatioWeighted => {
            let cut = bounded.clone().greater_elem(0.5); // [N, Tc]
            value * ratio.clone().mask_where(cut, ratio.clone().inner())
        }
        KlGradient::StraightThrough => {
            let path = d.raw.clone().square() / 2.0; // [N, Tc]
            // The path's own value is taken off first: added to a small estimate, it would round it away.
            value.inner() + (path.clone() - path.inner())
        }
    };
    Ok(KlTerm { value, bounded })
}

/// The KL term of a micro-batch in the loss. The ratio that weighs it is the token's own, not capped.
///
/// # Errors
/// No reference in the batch; a reference or scores in the wrong form for the estimator.
pub fn kl_term(penalty: &KlPenalty, new: &Scores, terms: &Terms, batch: &Batch, bound: Option<f64>) -> Result<KlTerm> {
    if penalty.estimator == KlEstimator::Exact {
        let value = new.kl.clone().ok_or_else(|| Error::invalid("scores", "hold no exact KL: score with ScoreRequest::with_kl_to"))?;
        Error::check_shape("exact KL", &value.dims(), &batch.shape())?;
        let value = value.cast(terms.dtype());
        return Ok(KlTerm { bounded: value.zeros_like().inner(), value: value.mask_fill(terms.ignored.clone(), 0.0) });
    }
    let Some(Reference::LogProbs(reference)) = batch.reference() else {
        let problem = format!("missing, though the KL coefficient is {}: call Batch::score_reference", penalty.coefficient);
        return Err(Error::invalid("reference log-probs", problem));
    };
    let reference = reference.tensor().cast(terms.dtype()).mask_fill(terms.ignored.clone(), 0.0); // [N, Tc]
    kl_estimate(penalty, terms.log_probs.clone(), reference, &terms.token.ratio, bound)
}

/// Where KL acts outside the loss: log π_old − log π_ref of each token, `[N, Tc]`, as it was punished.
///
/// # Errors
/// No reference log-probabilities: KL cannot have been put into rewards or advantages then.
pub(super) fn kl_seen(penalty: &KlPenalty, terms: &Terms, batch: &Batch) -> Result<Tensor<2>> {
    let Some(Reference::LogProbs(reference)) = batch.reference() else {
        let problem = format!(
            "missing, though a KL of coefficient {} acts outside the loss: call Batch::score_reference, then kl_in_rewards or kl_in_advantages",
            penalty.coefficient
        );
        return Err(Error::invalid("reference log-probs", problem));
    };
    Ok(terms.old.clone() - reference.tensor().cast(terms.dtype()).mask_fill(terms.ignored.clone(), 0.0)) // [N, Tc]
}
