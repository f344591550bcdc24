//! The settings of GRPO, in one place.

mod correction;
mod kl;
mod objective;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::advantage::Estimator;
use crate::error::{Error, Result};

pub use correction::{
    AcceptedKind, Divergence, OffPolicy, OldSource, OutOfBounds, Rejection, RejectionLevel, SamplerWeight, SequenceMask, WeightLevel,
    WeightNormalisation,
};
pub use kl::{EntropySettings, KlEstimator, KlGradient, KlPenalty, KlPlace};
pub use objective::{ClipRange, DualClip, Objective, VespoShape, WeightCap};

use objective::{above_0, at_least_0};

/// What the importance ratio is a ratio of. x_t = log π_θ(o_t) − log π_old(o_t), L tokens of the loss in the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RatioLevel {
    /// ρ_t = e^{x_t}.
    #[default]
    Token,
    /// s = exp(Σ x_t / L): the geometric mean, one for the completion (GSPO, arXiv 2507.18071).
    Sequence,
    /// s in value, the gradient of each token's own: sg(s) · e^{x_t − sg(x_t)} (GSPO-token). Equal to [`Sequence`](Self::Sequence) where Â is constant over the completion.
    SequenceToken,
    /// exp(Σ x_t): the product (RLOO). It grows with length.
    SequenceSum,
}

/// How tokens of unequal completions become one number. Σ runs over tokens of the loss, L_i is their number in completion i, N the number of completions of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reduction {
    /// (1/N) Σ_i (1/L_i) Σ_t ℓ: every completion weighs the same (GRPO as published). For terms that are one a completion, the plain mean over completions.
    SequenceMean,
    /// Σ ℓ / Σ_i L_i over the whole optimiser step: every token weighs the same (DAPO as trained, arXiv 2503.14476).
    TokenMean,
    /// Σ ℓ / Σ_i L_i of the micro-batch, averaged over micro-batches. It depends on how the step is cut: for parity with trainers that do so (TRL's `bnpo`).
    MicroBatchTokenMean,
    /// (1/P) Σ_groups Σ ℓ / Σ_{i in group} L_i: every prompt weighs the same (DAPO's formula as printed; ScaleRL, arXiv 2510.13786).
    PromptTokenMean,
    /// Σ ℓ / (N · L): no length enters (Dr. GRPO, arXiv 2503.20783).
    ConstantLength(usize),
    /// (1/N) Σ_i Σ_t ℓ. With a ratio of the sequence this is LUSPO (arXiv 2602.05261): ℓ is one a completion and counts L_i times.
    SequenceSum,
    /// Σ ℓ: no division.
    TokenSum,
}

/// Which completions a mean over completions counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedRows {
    /// All, also those without a token of the loss (TRL).
    #[default]
    All,
    /// Only those with a token of the loss (verl).
    NonEmpty,
}

/// What a step does whose gradient is exactly 0: every group is dead, or no token takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZeroGradient {
    /// It is skipped: nothing was taught, so nothing moves, neither weights nor moments.
    #[default]
    Skip,
    /// It is taken: the optimiser's momentum carries the weights on, moments and weights decay (TRL and whoever calls PyTorch's optimisers
    /// after every rollout).
    Step,
}

/// One term beside the policy term; sums over chosen tokens, see [`Batch::choose`](crate::Batch::choose).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Addition {
    /// μ × mean of −log π over the chosen tokens of the step: of rewarded completions (VAPO, arXiv 2504.05118), or of an environment's answers.
    CrossEntropy {
        /// μ ≥ 0.
        coefficient: f64,
    },
    /// κ × x², reduced as the loss: holds the policy to the old one (Kimi K2.5, prime-rl; arXiv 2602.02276).
    SquaredDrift {
        /// κ ≥ 0.
        coefficient: f64,
    },
}

/// The settings of one optimiser step.
///
/// [`Default`] follows the field: ratio clipped to 1 ± 0.2, no KL, token mean over the step, gradient norm 1.
/// [`deepseek_math`](Self::deepseek_math) is the formula of the sources; the other presets stand beside it.
///
/// ```
/// use grpo_core::{GrpoConfig, Reduction};
/// let config = GrpoConfig { reduction: Reduction::SequenceMean, ..GrpoConfig::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, remote = "Self")]
pub struct GrpoConfig {
    /// How rewards become advantages.
    pub estimator: Estimator,
    /// What the importance ratio is a ratio of.
    pub ratio: RatioLevel,
    /// The policy term.
    pub objective: Objective,
    /// The leash to the reference.
    pub kl: Option<KlPenalty>,
    /// Entropy bonus and top-entropy mask.
    pub entropy: EntropySettings,
    /// Sampler mismatch and staleness.
    pub off_policy: OffPolicy,
    /// Terms beside the policy term.
    pub additions: Vec<Addition>,
    /// How tokens become one number.
    pub reduction: Reduction,
    /// Which completions a mean over completions counts.
    pub counted_rows: CountedRows,
    /// Added to L_i in [`Reduction::SequenceMean`]: 0, or 1e-8 as verl has it.
    pub length_epsilon: f64,
    /// Log-ratios are bounded to ± this, above 0 and at most 80, before `exp`; beyond it the ratio has no gradient, and is counted. `None`: unbounded.
    pub log_ratio_bound: Option<f64>,
    /// Optimiser steps on one rollout, at least 1. Above 1 the batch must hold old log-probabilities. Whether each step takes all of the
    /// rollout (μ of DeepSeekMath, `num_iterations` of TRL) or a mini-batch of its own (PPO, DAPO, GSPO) is the loop's to choose.
    pub updates_per_rollout: usize,
    /// The global gradient norm is scaled down to this. `None`: never.
    pub max_grad_norm: Option<f64>,
    /// What a step does whose gradient is exactly 0.
    pub zero_gradient: ZeroGradient,
}

impl Serialize for GrpoConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// What is read is [validated](GrpoConfig::validate): a file with settings that contradict each other is refused before anything is sampled.
impl<'de> Deserialize<'de> for GrpoConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let config = Self::deserialize(deserializer)?;
        config.validate().map_err(serde::de::Error::custom)?;
        Ok(config)
    }
}

impl Default for GrpoConfig {
    fn default() -> Self {
        Self {
            estimator: Estimator::default(),
            ratio: RatioLevel::Token,
            objective: Objective::clipped(ClipRange::symmetric(0.2)),
            kl: None,
            entropy: EntropySettings::default(),
            off_policy: OffPolicy::default(),
            additions: Vec::new(),
            reduction: Reduction::TokenMean,
            counted_rows: CountedRows::All,
            length_epsilon: 0.0,
            log_ratio_bound: Some(20.0),
            updates_per_rollout: 1,
            max_grad_norm: Some(1.0),
            zero_gradient: ZeroGradient::Skip,
        }
    }
}

impl GrpoConfig {
    /// The penalty that acts in the loss, where it is not 0. β = 0 asks no reference for anything.
    pub fn kl_in_loss(&self) -> Option<KlPenalty> {
        self.kl.filter(|kl| kl.coefficient != 0.0 && kl.place == KlPlace::Loss)
    }

    /// The penalty that acts in rewards or advantages, where it is not 0. The loss only measures it.
    pub fn kl_outside_loss(&self) -> Option<KlPenalty> {
        self.kl.filter(|kl| kl.coefficient != 0.0 && kl.place != KlPlace::Loss)
    }

    /// Whether a reference is asked for anything, wherever its answer goes.
    pub fn needs_reference(&self) -> bool {
        self.kl.is_some_and(|kl| kl.coefficient != 0.0)
    }

    /// Whether the whole step must be scored once before its first micro-batch: see [`StepStats::observe`](crate::StepStats::observe).
    pub fn needs_step(&self) -> bool {
        self.objective.needs_step()
            || self.entropy.top_fraction.is_some_and(|f| f < 1.0)
            || self.off_policy.weight.is_some_and(|w| w.normalise == WeightNormalisation::StepMean)
    }

    /// Checks every field, and fields against each other.
    ///
    /// # Errors
    /// A field out of range, or two that contradict each other, by name.
    pub fn validate(&self) -> Result<()> {
        self.estimator.validate()?;
        self.objective.validate()?;
        self.kl.map_or(Ok(()), |kl| kl.validate())?;
        self.entropy.validate()?;
        self.off_policy.validate()?;
        for addition in &self.additions {
            match *addition {
                Addition::CrossEntropy { coefficient } => at_least_0("cross-entropy coefficient", coefficient)?,
                Addition::SquaredDrift { coefficient } => at_least_0("squared drift coefficient", coefficient)?,
            }
        }
        if self.reduction == Reduction::ConstantLength(0) {
            return Err(Error::config("reduction constant_length", 0, "at least 1"));
        }
        at_least_0("length_epsilon", self.length_epsilon)?;
        if let Some(bound) = self.log_ratio_bound.filter(|bound| !(*bound > 0.0 && *bound <= 80.0)) {
            return Err(Error::config("log_ratio_bound", bound, "above 0 and at most 80: e^89 is infinite in 32 bits"));
        }
        if self.updates_per_rollout == 0 {
            return Err(Error::config("updates_per_rollout", 0, "at least 1"));
        }
        self.max_grad_norm.map_or(Ok(()), |norm| above_0("max_grad_norm", norm))?;
        self.validate_pairs()
    }

    /// Fields that contradict each other.
    fn validate_pairs(&self) -> Result<()> {
        let of_the_sequence = matches!(self.ratio, RatioLevel::Sequence | RatioLevel::SequenceToken | RatioLevel::SequenceSum);
        if of_the_sequence && self.reduction == Reduction::TokenSum {
            return Err(Error::config(
                "reduction",
                "token_sum, with a ratio of the sequence",
                "sequence_mean, sequence_sum or a token mean: each ratio would count once a token, undivided",
            ));
        }
        let token_only = matches!(
            self.objective,
            Objective::Gmpo { .. }
                | Objective::Vespo { .. }
                | Objective::Real { .. }
                | Objective::DppoTv { .. }
                | Objective::DppoKl { .. }
                | Objective::ThresholdMask { .. }
                | Objective::Dro { .. }
                | Objective::Fipo { .. }
                | Objective::KlCov { .. }
                | Objective::ClipCov { .. }
        );
        if token_only && self.ratio != RatioLevel::Token {
            return Err(Error::config("ratio", "of the sequence, with an objective that takes its own", "token"));
        }
        let no_ratio = matches!(self.objective, Objective::Reinforce);
        if no_ratio && self.ratio != RatioLevel::Token {
            return Err(Error::config("ratio", "of the sequence, with objective reinforce", "token: reinforce has no ratio"));
        }
        let per_completion = matches!(self.objective, Objective::Gmpo { .. });
        if per_completion && self.reduction != Reduction::SequenceMean {
            return Err(Error::config(
                "reduction",
                "not sequence_mean, with objective gmpo",
                "sequence_mean: its term is one a completion",
            ));
        }
        if self.ratio == RatioLevel::SequenceSum && self.reduction != Reduction::SequenceMean {
            return Err(Error::config(
                "reduction",
                "not sequence_mean, with ratio sequence_sum",
                "sequence_mean: the ratio is one a completion, and its gradient would count once a token",
            ));
        }
        let of_the_group = matches!(self.objective, Objective::Real { .. });
        let off = &self.off_policy;
        let by_token =
            off.weight.is_some() || off.rejection.is_some() || off.sequence_mask.is_some() || self.entropy.top_fraction.is_some();
        if of_the_group && by_token {
            return Err(Error::config(
                "off_policy weight, rejection, sequence_mask or entropy top_fraction",
                "set, with objective real",
                "none: its term is one a group, so that what is left out would still be ranked",
            ));
        }
        if matches!(self.objective, Objective::Vespo { .. }) && off.weight.is_some() {
            return Err(Error::config(
                "off_policy weight",
                "set, with objective vespo",
                "none: with off_policy old = sampler the mismatch stands inside vespo's own weight",
            ));
        }
        if self.additions.iter().filter(|a| matches!(a, Addition::CrossEntropy { .. })).count() > 1 {
            return Err(Error::config("additions", "cross_entropy twice", "once: there is one choice of tokens a batch"));
        }
        if of_the_group && self.reduction != Reduction::PromptTokenMean {
            return Err(Error::config(
                "reduction",
                "not prompt_token_mean, with objective real",
                "prompt_token_mean: its term is one a group",
            ));
        }
        Ok(())
    }
}
