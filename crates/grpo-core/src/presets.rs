//! Recipes by name: what papers and trainers use. A snapshot test pins every field.

use serde::{Deserialize, Serialize};

use crate::advantage::{Ddof, Estimator, Gae, Lambda, Singleton, Standardise};
use crate::config::{
    ClipRange, CountedRows, DualClip, EntropySettings, GrpoConfig, KlPenalty, Objective, RatioLevel, Reduction, WeightCap,
};

/// A loss and the frame it was trained in. What a source does not say is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Recipe {
    /// The recipe's name.
    pub name: String,
    /// Where its numbers come from.
    pub source: String,
    /// The loss.
    pub config: GrpoConfig,
    /// G.
    pub group_size: Option<usize>,
    /// Prompts an optimiser step.
    pub prompts_per_step: Option<usize>,
    /// Longest completion, in tokens.
    pub max_tokens: Option<usize>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The optimiser's learning rate.
    pub learning_rate: Option<f64>,
    /// The reference becomes the policy every so many steps.
    pub reference_refresh: Option<u64>,
}

impl Recipe {
    fn new(name: &str, source: &str, config: GrpoConfig) -> Self {
        Self {
            name: name.to_owned(),
            source: source.to_owned(),
            config,
            group_size: None,
            prompts_per_step: None,
            max_tokens: None,
            temperature: None,
            learning_rate: None,
            reference_refresh: None,
        }
    }

    /// Every recipe.
    ///
    /// ```
    /// for recipe in grpo_core::Recipe::all() {
    ///     recipe.config.validate()?;
    /// }
    /// # Ok::<(), grpo_core::Error>(())
    /// ```
    pub fn all() -> Vec<Self> {
        vec![
            Self::deepseek_math(),
            Self::deepseek_r1(),
            Self::dapo(),
            Self::dr_grpo(),
            Self::gspo(),
            Self::luspo(),
            Self::scale_rl(),
            Self::intellect_2(),
            Self::lite_ppo(),
            Self::eighty_twenty(),
            Self::ppo(),
            Self::trl(),
            Self::verl(),
        ]
    }

    /// DeepSeekMath (arXiv 2402.03300, §4.2): G 64, β 0.04 with k3, one update a rollout, length 1024.
    pub fn deepseek_math() -> Self {
        Self {
            group_size: Some(64),
            max_tokens: Some(1024),
            learning_rate: Some(1e-6),
            ..Self::new("deepseek_math", "arXiv 2402.03300", GrpoConfig::deepseek_math())
        }
    }

    /// DeepSeek-R1-Zero (arXiv 2501.12948, Nature version): β 0.001, ε 10, G 16, 32 prompts a step, 16 steps a rollout, reference replaced every 400 steps.
    ///
    /// ε = 10 clips at 11 above and nowhere below, since a ratio is never negative: the range is (1, 10).
    pub fn deepseek_r1() -> Self {
        let config = GrpoConfig {
            objective: Objective::clipped(ClipRange { low: 1.0, high: 10.0 }),
            kl: Some(KlPenalty::plain_k3(0.001)),
            updates_per_rollout: 16,
            ..GrpoConfig::deepseek_math()
        };
        Self {
            group_size: Some(16),
            prompts_per_step: Some(32),
            max_tokens: Some(32_768),
            temperature: Some(1.0),
            learning_rate: Some(3e-6),
            reference_refresh: Some(400),
            ..Self::new("deepseek_r1", "arXiv 2501.12948", config)
        }
    }

    /// DAPO (arXiv 2503.14476): clip higher (0.2, 0.28), token mean, no KL. Its soft overlong penalty and dynamic sampling are
    /// types of their own: [`Overlong`](crate::Overlong), [`GroupFilter`](crate::GroupFilter) with [`refill`](crate::refill).
    pub fn dapo() -> Self {
        let config = GrpoConfig {
            objective: Objective::clipped(ClipRange { low: 0.2, high: 0.28 }),
            reduction: Reduction::TokenMean,
            updates_per_rollout: 16,
            ..GrpoConfig::default()
        };
        Self {
            group_size: Some(16),
            prompts_per_step: Some(32),
            max_tokens: Some(20_480),
            temperature: Some(1.0),
            learning_rate: Some(1e-6),
            ..Self::new("dapo", "arXiv 2503.14476", config)
        }
    }

    /// Dr. GRPO (arXiv 2503.20783): no division by the std, none by the length; no KL.
    pub fn dr_grpo() -> Self {
        let config = GrpoConfig { estimator: Estimator::dr_grpo(), reduction: Reduction::ConstantLength(3000), ..GrpoConfig::default() };
        Self {
            group_size: Some(8),
            max_tokens: Some(3000),
            temperature: Some(1.0),
            learning_rate: Some(1e-6),
            ..Self::new("dr_grpo", "arXiv 2503.20783", config)
        }
    }

    /// GSPO (arXiv 2507.18071): one ratio a completion, clip (3e-4, 4e-4), sequence mean, four mini-batches a rollout.
    pub fn gspo() -> Self {
        let config = GrpoConfig {
            ratio: RatioLevel::Sequence,
            objective: Objective::clipped(ClipRange { low: 3e-4, high: 4e-4 }),
            reduction: Reduction::SequenceMean,
            updates_per_rollout: 4,
            ..GrpoConfig::default()
        };
        Self::new("gspo", "arXiv 2507.18071", config)
    }

    /// LUSPO (arXiv 2602.05261): GSPO's ratio, each completion weighed by its length, clip (2e-3, 2.5e-3).
    pub fn luspo() -> Self {
        let config = GrpoConfig {
            ratio: RatioLevel::Sequence,
            objective: Objective::clipped(ClipRange { low: 2e-3, high: 2.5e-3 }),
            reduction: Reduction::SequenceSum,
            ..GrpoConfig::default()
        };
        Self::new("luspo", "arXiv 2602.05261", config)
    }

    /// ScaleRL (arXiv 2510.13786): CISPO with cap 5 (TRL's value), mean per prompt, std of the batch.
    pub fn scale_rl() -> Self {
        let config = GrpoConfig {
            estimator: Estimator::lite_ppo(),
            objective: Objective::Cispo { cap: WeightCap(5.0) },
            reduction: Reduction::PromptTokenMean,
            ..GrpoConfig::default()
        };
        Self { group_size: Some(16), ..Self::new("scale_rl", "arXiv 2510.13786", config) }
    }

    /// INTELLECT-2 (arXiv 2505.07291): two-sided clipping, δ = 4, β 0.001.
    pub fn intellect_2() -> Self {
        let config = GrpoConfig {
            objective: Objective::Clipped { clip: ClipRange::symmetric(0.2), dual: DualClip::RatioCap(4.0) },
            kl: Some(KlPenalty::plain_k3(0.001)),
            ..GrpoConfig::default()
        };
        Self::new("intellect_2", "arXiv 2505.07291", config)
    }

    /// Lite PPO (arXiv 2508.08221): mean of the group, std of the batch, token mean.
    pub fn lite_ppo() -> Self {
        let config = GrpoConfig { estimator: Estimator::lite_ppo(), ..GrpoConfig::default() };
        Self::new("lite_ppo", "arXiv 2508.08221", config)
    }

    /// 80/20 (arXiv 2506.01939): DAPO, with the fifth of the tokens that has the highest entropy.
    pub fn eighty_twenty() -> Self {
        let entropy = EntropySettings { top_fraction: Some(0.2), ..EntropySettings::default() };
        let dapo = Self::dapo();
        Self {
            name: "eighty_twenty".to_owned(),
            source: "arXiv 2506.01939".to_owned(),
            config: GrpoConfig { entropy, ..dapo.config.clone() },
            ..dapo
        }
    }

    /// PPO with a critic (arXiv 1707.06347, GAE: arXiv 1506.02438): the baseline that GRPO replaces. γ 1, λ 0.95, four updates a rollout.
    pub fn ppo() -> Self {
        let config = GrpoConfig {
            estimator: Estimator::Gae(Gae { lambda: Lambda::Fixed(0.95), ..Gae::default() }),
            updates_per_rollout: 4,
            ..GrpoConfig::default()
        };
        Self::new("ppo", "arXiv 1707.06347", config)
    }

    /// TRL's conventions (`GRPOConfig` of TRL 1.16): std with n − 1 and ε 1e-4, no bound on log-ratios, empty completions count, token mean over the step, no KL.
    pub fn trl() -> Self {
        let config = GrpoConfig { log_ratio_bound: None, ..GrpoConfig::default() };
        Self {
            group_size: Some(8),
            max_tokens: Some(512),
            temperature: Some(1.0),
            learning_rate: Some(1e-6),
            ..Self::new("trl", "TRL 1.16.0", config)
        }
    }

    /// verl's conventions: std with n − 1 and ε 1e-6, a lone completion keeps its reward, log-ratios within ± 20, dual clip at 3, empty completions do not count, L + 1e-8.
    pub fn verl() -> Self {
        let estimator =
            Estimator::Standardise(Standardise { ddof: Ddof::Sample, epsilon: 1e-6, singleton: Singleton::Raw, ..Standardise::default() });
        let config = GrpoConfig {
            estimator,
            objective: Objective::Clipped { clip: ClipRange::symmetric(0.2), dual: DualClip::LossCap(3.0) },
            counted_rows: CountedRows::NonEmpty,
            length_epsilon: 1e-8,
            log_ratio_bound: Some(20.0),
            ..GrpoConfig::default()
        };
        Self::new("verl", "verl, August 2026", config)
    }
}

impl GrpoConfig {
    /// The formula of DeepSeekMath (arXiv 2402.03300): population std, sequence mean, β = 0.04 with k3 as it is written.
    pub fn deepseek_math() -> Self {
        Self {
            estimator: Estimator::Standardise(Standardise { ddof: Ddof::Population, ..Standardise::default() }),
            kl: Some(KlPenalty::plain_k3(0.04)),
            reduction: Reduction::SequenceMean,
            ..Self::default()
        }
    }
}
