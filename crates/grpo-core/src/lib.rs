#![doc = include_str!("../README.md")]

mod advantage;
mod control;
mod error;
mod filter;
mod group;
mod reward;
mod rollout;
mod sampler;
mod score;
mod select;
mod shaping;
mod token;

#[cfg(feature = "tensor")]
mod batch;
#[cfg(feature = "tensor")]
mod causal;
mod config;
#[cfg(feature = "tensor")]
mod grad;
#[cfg(feature = "tensor")]
pub mod loss;
mod metrics;
#[cfg(feature = "tensor")]
mod policy;
mod presets;
#[cfg(feature = "tensor")]
mod read;
#[cfg(feature = "tensor")]
mod step;
#[cfg(feature = "tensor")]
pub mod testing;

pub use advantage::{
    AdvantageInput, Advantages, AfterSum, Ddof, Estimator, Gae, Gpg, GpgShare, Lambda, LeaveOneOut, MaxRl, Need, NormaliseThenSum, Opo,
    OptimalTokenBaseline, PassAtK, Process, ReinforcePlusPlus, ReinforcePlusPlusBaseline, Rloo, RoleBaselines, RoleEma, Scale, Singleton,
    Spread, Standardise, StepRewards, Uninformative, WhitenOver, Whitening, discounted_returns, kl_in_advantages, kl_in_rewards,
};
pub use config::{
    AcceptedKind, Addition, ClipRange, CountedRows, Divergence, DualClip, EntropySettings, GrpoConfig, KlEstimator, KlGradient, KlPenalty,
    KlPlace, Objective, OffPolicy, OldSource, OutOfBounds, RatioLevel, Reduction, Rejection, RejectionLevel, SamplerWeight, SequenceMask,
    VespoShape, WeightCap, WeightLevel, WeightNormalisation, ZeroGradient,
};
pub use control::{AdaptiveEntropy, AdaptiveKl, Coefficient, CoefficientState, EntropyState, Schedule};
pub use error::{BoxError, Error, Result};
pub use filter::{Filtered, filter};
pub use group::{Completion, Group, GroupId, PolicyVersion, Prompt, Sample, Span};
pub use metrics::{Metrics, Normaliser};
pub use presets::Recipe;
pub use reward::{FromFn, Reward, RewardFn, from_fn};
pub use rollout::{RolloutPlan, rollout};
pub use sampler::{SampleRequest, Sampler, SamplingParams, group_seed, stream};
pub use score::{OnRewardError, RewardTable, Rewards};
pub use select::{Accuracy, Dropped, GroupFilter, RawReward, Refill, ReplayBuffer, Selection, SelectionCounts, refill, truncated};
pub use shaping::{
    CosineLength, Judged, Overlong, OverlongPenalty, RepetitionPenalty, RepetitionUnit, Rescale, Rescaled, ShorterWins, StopProperly,
    Verdict,
};
pub use token::{FinishReason, LogProbKind, Role, TokenId};

#[cfg(feature = "tensor")]
pub use {
    batch::{Batch, OldLogProbs, Reference, ReferenceLogProbs, Row, SamplerLogProbs},
    causal::{CausalLogits, log_softmax_at, score_from_logits},
    grad::{GlobalNorm, clip_global_norm},
    loss::{LossOutput, StepStats, grpo_loss},
    policy::{Padded, Policy, ReferenceRows, ScoreRequest, Scores, TokenBatch, Want},
    read::to_host,
    step::{Update, gradients, score_old_and_reference, step_stats},
};
