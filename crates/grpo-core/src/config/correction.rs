//! The settings of what is done about samplers that differ from the policy, and about stale rollouts.

use serde::{Deserialize, Serialize};

use super::objective::{above_0, at_least_0, share_or_0};
use crate::error::{Error, Result};

/// What the weight w = π_old / π_sampler is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WeightLevel {
    /// Each token its own.
    Token,
    /// One a completion: the product over its tokens. It collapses with length.
    SequenceProduct,
    /// One a completion: the geometric mean over its tokens.
    SequenceGeometric,
}

/// What happens to a weight outside its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutOfBounds {
    /// It becomes the bound.
    Truncate,
    /// It becomes 0: the token or completion is left out of the policy term, but stays in the normaliser.
    Mask,
}

/// The importance weight w = exp(log π_old − log π_sampler), a constant that multiplies the policy term.
///
/// # Source
/// Truncated importance sampling (TIS), IcePop, TRL's and verl's modes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerWeight {
    /// What it is taken over.
    pub level: WeightLevel,
    /// What happens outside the bounds.
    pub outside: OutOfBounds,
    /// Lower bound, between 0 and 1: a token on which sampler and policy agree has weight 1.
    #[serde(default)]
    pub low: f64,
    /// Upper bound, at least 1 and above the lower one.
    pub high: f64,
    /// Divide by the mean weight over the step's tokens.
    #[serde(default)]
    pub normalise: WeightNormalisation,
}

/// Whether weights are divided by their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightNormalisation {
    /// As they are.
    #[default]
    None,
    /// Divided by their mean over the tokens of the whole step.
    StepMean,
}

/// Which divergence between old policy and sampler throws tokens or completions out. x = log π_old − log π_sampler; k1 = −x, k2 = x²/2, k3 = e^x − x − 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rejection {
    /// The divergence.
    pub divergence: Divergence,
    /// What it is taken over.
    pub over: RejectionLevel,
    /// Smallest divergence that is kept, at most 0: what did not diverge is kept. `None`: no lower bound.
    #[serde(default)]
    pub low: Option<f64>,
    /// Largest divergence that is kept, at least 0.
    pub high: f64,
}

/// A divergence at a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Divergence {
    /// −x
    K1,
    /// x² / 2
    K2,
    /// e^x − x − 1
    K3,
}

/// What a divergence is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RejectionLevel {
    /// Each token by itself.
    Token,
    /// The mean over a completion's tokens.
    SequenceMean,
    /// The sum over a completion's tokens.
    SequenceSum,
    /// The largest of a completion's tokens.
    SequenceMax,
}

/// Whose log-probabilities are π_old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OldSource {
    /// The trainer's: scored by the policy before the first update, or the policy's own where nothing was updated since.
    #[default]
    Trainer,
    /// The sampler's own (bypass): its mismatch then stands in the ratio, and is clipped like any other.
    Sampler,
}

/// Completions with Â < 0 whose mean of log π_from − log π over their tokens exceeds `limit` have no policy term; they stay in the normaliser.
///
/// # Source
/// DeepSeek-V3.2 (arXiv 2512.02556) and TRL measure from the sampler where it recorded log-probabilities: then mismatch counts as drift.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceMask {
    /// The largest mean drift that is kept, in nats a token, above 0.
    pub limit: f64,
    /// What the drift is measured from. Left out in a file: the sampler, as both have it. From the trainer's log-probabilities nothing
    /// has drifted before the first update.
    #[serde(default = "sampler")]
    pub from: OldSource,
}

fn sampler() -> OldSource {
    OldSource::Sampler
}

/// What the sampler's log-probabilities may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AcceptedKind {
    /// Over the full support at the sampling temperature; anything else is an error.
    #[default]
    Tempered,
    /// Anything: a renormalised (truncated) or raw log-probability then biases the weight, knowingly.
    Any,
}

/// Off-policy settings. All of them act on a token's own term: a token that is masked still stands in the ratio of its sequence, where the
/// ratio is one of the sequence, and in the mean of GMPO. The default corrects nothing and refuses stale rollouts that have no old log-probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OffPolicy {
    /// Whose log-probabilities are π_old.
    pub old: OldSource,
    /// The weight for sampler mismatch.
    pub weight: Option<SamplerWeight>,
    /// Rejection by divergence from the sampler.
    pub rejection: Option<Rejection>,
    /// Leaves out completions to be unlearnt that the policy has already moved away from.
    pub sequence_mask: Option<SequenceMask>,
    /// The largest number of optimiser steps between a rollout and its use. `None`: any, if old log-probabilities are there.
    pub max_staleness: Option<u64>,
    /// What kind of sampler log-probabilities is accepted.
    pub accept: AcceptedKind,
}

impl OffPolicy {
    /// Whether sampler log-probabilities are read at all.
    pub fn reads_sampler(&self) -> bool {
        self.weight.is_some()
            || self.rejection.is_some()
            || self.old == OldSource::Sampler
            || self.sequence_mask.is_some_and(|mask| mask.from == OldSource::Sampler)
    }

    pub(super) fn validate(&self) -> Result<()> {
        if let Some(weight) = self.weight {
            share_or_0("sampler weight low", weight.low)?;
            if !(weight.high.is_finite() && weight.high >= 1.0 && weight.high > weight.low) {
                return Err(Error::config("sampler weight high", weight.high, "finite, at least 1 and above sampler weight low"));
            }
            if self.old == OldSource::Sampler {
                return Err(Error::config("sampler weight", "set, with old = sampler", "none: the mismatch is in the ratio already"));
            }
        }
        if let Some(rejection) = self.rejection {
            at_least_0("rejection high", rejection.high)?;
            if let Some(low) = rejection.low.filter(|low| low.is_nan() || *low > 0.0) {
                return Err(Error::config("rejection low", low, "at most 0"));
            }
            if self.old == OldSource::Sampler {
                return Err(Error::config("rejection", "set, with old = sampler", "none: old and sampler are the same there"));
            }
        }
        self.sequence_mask.map_or(Ok(()), |mask| above_0("sequence_mask limit", mask.limit))
    }
}
