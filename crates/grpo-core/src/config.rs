//! The settings of GRPO, in one place.

use serde::{Deserialize, Serialize};

use crate::advantage::Estimator;
use crate::error::{Error, Result};

/// The clip range of the importance ratio: ρ is clipped to [1 − low, 1 + high]. Both are widths, not bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClipRange {
    /// How far below 1, at least 0 and below 1.
    pub low: f64,
    /// How far above 1, at least 0.
    pub high: f64,
}

impl ClipRange {
    /// The same width on both sides.
    pub fn symmetric(width: f64) -> Self {
        Self { low: width, high: width }
    }

    fn validate(self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.low) {
            return Err(Error::config("clip range low", self.low, "at least 0 and at most 1"));
        }
        if !self.high.is_finite() || self.high < 0.0 {
            return Err(Error::config("clip range high", self.high, "finite and at least 0"));
        }
        Ok(())
    }
}

/// The policy term of one token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Objective {
    /// −min(ρ Â, clip(ρ, 1 − low, 1 + high) Â)
    ///
    /// # Source
    /// PPO (arXiv 1707.06347) eq. 7; DeepSeekMath (arXiv 2402.03300) eq. 3. For Â < 0 it is not bounded above 1 + high.
    Clipped(ClipRange),
}

/// How tokens of unequal completions become one number. Σ runs over tokens of the loss, L_i is their number in completion i.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reduction {
    /// (1/N) Σ_i (1/L_i) Σ_t ℓ: every completion weighs the same (GRPO as published).
    SequenceMean,
    /// Σ ℓ / Σ_i L_i over the whole optimiser step: every token weighs the same (DAPO as trained, arXiv 2503.14476).
    TokenMean,
    /// Σ ℓ / Σ_i L_i of this micro-batch. It depends on how the step is split: for parity with trainers that do so.
    MicroBatchTokenMean,
    /// Σ ℓ / (N · L): no length enters (Dr. GRPO, arXiv 2503.20783).
    ConstantLength(usize),
}

/// Which function of d = log π_ref − log π estimates the KL to the reference at a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KlEstimator {
    /// −d. Unbiased in value; as a loss its expected gradient is 0, so it pulls nowhere: for measurement.
    K1,
    /// d² / 2. Biased in value; its gradient is that of the reverse KL, on-policy.
    K2,
    /// e^d − d − 1 ≥ 0. Unbiased in value, on-policy; its plain gradient is that of the forward KL.
    K3,
    /// Σ_v π_v (log π_v − log π_ref,v): no estimate, the KL itself, over the whole vocabulary.
    Exact,
}

/// How the KL term is differentiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KlGradient {
    /// The estimator as it is written.
    #[default]
    Plain,
    /// The estimator times the importance ratio, the ratio differentiated, too: the gradient of the reverse KL without bias, also off-policy
    /// (DeepSeek-V3.2, arXiv 2512.02556).
    RatioWeighted,
}

/// β · KL(π ‖ π_ref), added to each token's loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KlPenalty {
    /// β ≥ 0. 0 means that no reference is asked for anything.
    pub coefficient: f64,
    /// The estimator.
    pub estimator: KlEstimator,
    /// Its gradient.
    #[serde(default)]
    pub gradient: KlGradient,
}

/// The settings of one optimiser step.
///
/// [`Default`] follows the field: ratio clipped to 1 ± 0.2, no KL, token mean over the step, gradient norm 1.
/// [`deepseek_math`](Self::deepseek_math) is the formula of the sources.
///
/// ```
/// use grpo_core::{GrpoConfig, Reduction};
/// let config = GrpoConfig { reduction: Reduction::SequenceMean, ..GrpoConfig::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpoConfig {
    /// How rewards become advantages.
    pub estimator: Estimator,
    /// The policy term.
    pub objective: Objective,
    /// The leash to the reference.
    pub kl: Option<KlPenalty>,
    /// How tokens become one number.
    pub reduction: Reduction,
    /// Log-ratios are bounded to ± this before `exp`; beyond it a token has no gradient, and is counted. `None`: unbounded.
    pub log_ratio_bound: Option<f64>,
    /// Optimiser steps on one rollout (μ), at least 1. Above 1 the batch must hold old log-probabilities.
    pub updates_per_rollout: usize,
    /// The global gradient norm is scaled down to this. `None`: never.
    pub max_grad_norm: Option<f64>,
}

impl Default for GrpoConfig {
    fn default() -> Self {
        Self {
            estimator: Estimator::default(),
            objective: Objective::Clipped(ClipRange::symmetric(0.2)),
            kl: None,
            reduction: Reduction::TokenMean,
            log_ratio_bound: Some(20.0),
            updates_per_rollout: 1,
            max_grad_norm: Some(1.0),
        }
    }
}

impl GrpoConfig {
    /// The formula of DeepSeekMath (arXiv 2402.03300): sequence mean, β = 0.04 with k3, population std.
    pub fn deepseek_math() -> Self {
        use crate::advantage::{Ddof, Standardise};
        Self {
            estimator: Estimator::Standardise(Standardise { ddof: Ddof::Population, ..Standardise::default() }),
            kl: Some(KlPenalty { coefficient: 0.04, estimator: KlEstimator::K3, gradient: KlGradient::Plain }),
            reduction: Reduction::SequenceMean,
            ..Self::default()
        }
    }

    /// The penalty, where it is not 0. β = 0 asks no reference for anything.
    pub fn active_kl(&self) -> Option<KlPenalty> {
        self.kl.filter(|kl| kl.coefficient != 0.0)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, or two that contradict each other, by name.
    pub fn validate(&self) -> Result<()> {
        self.estimator.validate()?;
        match self.objective {
            Objective::Clipped(clip) => clip.validate()?,
        }
        if let Some(kl) = self.kl
            && (!kl.coefficient.is_finite() || kl.coefficient < 0.0)
        {
            return Err(Error::config("KL coefficient", kl.coefficient, "finite and at least 0"));
        }
        if let Some(kl) = self.kl
            && kl.estimator == KlEstimator::Exact
            && kl.gradient == KlGradient::RatioWeighted
        {
            return Err(Error::config("KL gradient", "ratio_weighted with estimator exact", "plain: the exact KL needs no correction"));
        }
        if self.reduction == Reduction::ConstantLength(0) {
            return Err(Error::config("reduction constant length", 0, "at least 1"));
        }
        if let Some(bound) = self.log_ratio_bound
            && !(bound.is_finite() && bound > 0.0)
        {
            return Err(Error::config("log_ratio_bound", bound, "above 0, or none"));
        }
        if self.updates_per_rollout == 0 {
            return Err(Error::config("updates_per_rollout", 0, "at least 1"));
        }
        if let Some(norm) = self.max_grad_norm
            && !(norm.is_finite() && norm > 0.0)
        {
            return Err(Error::config("max_grad_norm", norm, "above 0, or none"));
        }
        Ok(())
    }
}
