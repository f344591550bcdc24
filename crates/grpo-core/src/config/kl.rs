//! The settings of the KL leash and of entropy.

use serde::{Deserialize, Serialize};

use super::objective::{above_0, at_least_0, share};
use crate::error::{Error, Result};

/// Which function of d = log π_ref − log π estimates the KL to the reference at a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KlEstimator {
    /// −d. Unbiased in value; its plain gradient has expectation 0, so as a plain loss it is refused.
    K1,
    /// d² / 2. Biased in value; its plain gradient is that of the reverse KL(π ‖ π_ref), on-policy.
    K2,
    /// e^d − d − 1 ≥ 0. Unbiased in value, on-policy; its plain gradient is that of the *forward* KL(π_ref ‖ π).
    K3,
    /// |d|. A bound on the drift, no estimate of the KL; its plain gradient is that of twice the total variation, on-policy.
    Abs,
    /// Σ_v π_v (log π_v − log π_ref,v): the KL itself, over the whole vocabulary, with its own gradient.
    Exact,
}

/// How the KL term is differentiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KlGradient {
    /// The estimator as it is written.
    Plain,
    /// k1 or k3 × ρ, ρ differentiated, too: the gradient of the reverse KL without bias, also off-policy (DeepSeek-V3.2, arXiv 2512.02556).
    RatioWeighted,
    /// The value of the estimator, the gradient of k2 (straight-through; verl's `+` forms).
    StraightThrough,
}

/// Where the KL acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KlPlace {
    /// β × KL is added to each token's loss.
    #[default]
    Loss,
    /// −β × k1 is added to each token's reward, before advantages ([`kl_in_rewards`](crate::kl_in_rewards)). The loss has no KL term.
    Reward,
    /// β × (mean k1 − k1) is added to each token's advantage ([`kl_in_advantages`](crate::kl_in_advantages)). The loss has no KL term.
    Advantage,
}

/// β · KL(π ‖ π_ref).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct KlPenalty {
    /// β ≥ 0. 0 means that no reference is asked for anything.
    pub coefficient: f64,
    /// The estimator.
    pub estimator: KlEstimator,
    /// Its gradient. Left out in a file: ratio-weighted for k1 and k3, plain for the others.
    pub gradient: KlGradient,
    /// Where it acts.
    pub place: KlPlace,
    /// The value is bounded to ± this after it was taken, and has no gradient beyond (verl: 10). `None`: unbounded.
    pub value_bound: Option<f64>,
}

/// A [`KlPenalty`] as it is written in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    coefficient: f64,
    estimator: KlEstimator,
    gradient: Option<KlGradient>,
    #[serde(default)]
    place: KlPlace,
    value_bound: Option<f64>,
}

impl From<Written> for KlPenalty {
    fn from(Written { coefficient, estimator, gradient, place, value_bound }: Written) -> Self {
        let usual = match estimator {
            KlEstimator::K1 | KlEstimator::K3 => KlGradient::RatioWeighted,
            KlEstimator::K2 | KlEstimator::Abs | KlEstimator::Exact => KlGradient::Plain,
        };
        Self { coefficient, estimator, gradient: gradient.unwrap_or(usual), place, value_bound }
    }
}

impl KlPenalty {
    /// k3, weighted by the ratio, in the loss.
    pub fn new(coefficient: f64) -> Self {
        Self { coefficient, estimator: KlEstimator::K3, gradient: KlGradient::RatioWeighted, place: KlPlace::Loss, value_bound: None }
    }

    /// k3 as it is written, in the loss: the formula of DeepSeekMath. Its gradient is that of the forward KL.
    pub fn plain_k3(coefficient: f64) -> Self {
        Self { gradient: KlGradient::Plain, ..Self::new(coefficient) }
    }

    /// The exact KL over the vocabulary, in the loss.
    pub fn exact(coefficient: f64) -> Self {
        Self { estimator: KlEstimator::Exact, gradient: KlGradient::Plain, ..Self::new(coefficient) }
    }

    pub(super) fn validate(&self) -> Result<()> {
        at_least_0("KL coefficient", self.coefficient)?;
        if let Some(bound) = self.value_bound {
            above_0("KL value_bound", bound)?;
        }
        match (self.estimator, self.gradient, self.place) {
            (KlEstimator::K1, KlGradient::Plain, KlPlace::Loss) => Err(Error::config(
                "KL estimator",
                "k1 with gradient plain",
                "k1 with gradient ratio_weighted: the plain one has expectation 0 and pulls nowhere",
            )),
            (KlEstimator::Exact, KlGradient::RatioWeighted | KlGradient::StraightThrough, _) => {
                Err(Error::config("KL gradient", "not plain, with estimator exact", "plain: the exact KL needs no correction"))
            }
            (KlEstimator::K2 | KlEstimator::Abs, KlGradient::RatioWeighted, _) => Err(Error::config(
                "KL gradient",
                "ratio_weighted, with estimator k2 or abs",
                "plain or straight_through: weighted by the ratio these have no KL's gradient",
            )),
            (KlEstimator::Exact, _, _) if self.value_bound.is_some() => {
                Err(Error::config("KL value_bound", "set, with estimator exact", "none: it has no log-ratio that could run away"))
            }
            (_, _, KlPlace::Reward | KlPlace::Advantage) if self.value_bound.is_some() => {
                Err(Error::config("KL value_bound", "set, with KL place reward or advantage", "none: bound the rewards or advantages"))
            }
            (KlEstimator::K1, _, KlPlace::Reward | KlPlace::Advantage) => Ok(()),
            (_, _, KlPlace::Reward | KlPlace::Advantage) => Err(Error::config(
                "KL estimator",
                "not k1, with KL place reward or advantage",
                "k1: there its gradient is that of the reverse KL",
            )),
            _ => Ok(()),
        }
    }
}

/// What entropy does in the loss.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EntropySettings {
    /// c: the loss gets − c × mean entropy of the step's tokens. 0: no bonus. An adaptive one is set anew before each step.
    pub bonus: f64,
    /// Only this share of the step's tokens, those of highest entropy, keeps its policy term (arXiv 2506.01939: 0.2). `None`: all.
    pub top_fraction: Option<f64>,
}

impl EntropySettings {
    pub(super) fn validate(&self) -> Result<()> {
        if !self.bonus.is_finite() {
            return Err(Error::config("entropy bonus", self.bonus, "finite"));
        }
        self.top_fraction.map_or(Ok(()), |fraction| share("entropy top_fraction", fraction))
    }
}
