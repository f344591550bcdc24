//! The settings of a run, in one place and in one file.

use std::path::{Path, PathBuf};

use grpo_core::{
    AdaptiveEntropy, Coefficient, Estimator, GroupFilter, GroupId, GrpoConfig, KlPlace, Need, Refill, SamplingParams, Schedule,
};
use serde::{Deserialize, Serialize};

use crate::checkpoint::CheckpointConfig;
use crate::error::{Error, Result};
use crate::evaluate::{EvaluationConfig, HELD_OUT};
use crate::optimizer::OptimizerConfig;
use crate::stop::EarlyStop;

/// The settings of a run. TOML or JSON; what is not written keeps its default, and a key that does not exist is an error.
///
/// A *rollout* is one round of sampling, judging and training: `prompts` groups of `group_size` completions. It is trained on in
/// `grpo.updates_per_rollout` passes of `mini_batches` optimiser steps each. A *step* is an optimiser step; steps count from 0.
///
/// ```
/// use grpo_train::TrainConfig;
/// let config = TrainConfig::from_toml("steps = 100\ngroup_size = 4\n[learning_rate.constant]\npeak = 1e-4")?;
/// assert_eq!((config.steps, config.prompts), (100, 8));
/// let error = TrainConfig::from_toml("step = 100").unwrap_err();
/// assert!(error.to_string().contains("unknown field `step`"));
/// # Ok::<(), grpo_train::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// The seed of all draws.
    pub seed: u64,
    /// Optimiser steps of the whole run, at least 1.
    pub steps: u64,
    /// P: prompts a rollout, at least 1.
    pub prompts: usize,
    /// G: completions a prompt, at least 1; 2 where a group is to be compared with itself.
    pub group_size: usize,
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// The loss.
    pub grpo: GrpoConfig,
    /// Optimiser steps that a pass over the rollout is cut into, at least 1 and at most `prompts`.
    pub mini_batches: usize,
    /// An optimiser step is cut into micro-batches of at most this many padded completion tokens each, one group at least. Their
    /// gradients are added up; how a step is cut changes memory, not the result.
    pub micro_tokens: usize,
    /// The learning rate at each optimiser step.
    pub learning_rate: Schedule,
    /// The optimiser, where the trainer was not given another one.
    pub optimizer: OptimizerConfig,
    /// β at each step, in place of `grpo.kl.coefficient`, which says whether there is a KL term at all.
    pub kl_coefficient: Option<Coefficient>,
    /// The entropy bonus at each step, in place of `grpo.entropy.bonus`.
    pub adaptive_entropy: Option<AdaptiveEntropy>,
    /// Which groups are worth training on; `None`: all.
    pub selection: Option<SelectionConfig>,
    /// What happens to completions that were cut off.
    pub truncated: Truncated,
    /// Training on groups again.
    pub replay: Option<ReplayConfig>,
    /// What becomes of the reference.
    pub reference: ReferenceConfig,
    /// Limits of episodes of several turns. They matter only where there is an environment.
    pub episodes: EpisodeLimits,
    /// A rule that ends the run before its last step.
    pub early_stop: Option<EarlyStop>,
    /// The run ends with an error after more than this many steps in a row whose gradient is not finite.
    pub max_non_finite: u64,
    /// Where, when and how many checkpoints are written; `None`: never.
    pub checkpoints: Option<CheckpointConfig>,
    /// How held-out prompts are answered. They matter only where there are held-out prompts.
    pub evaluation: EvaluationConfig,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            steps: 100,
            prompts: 8,
            group_size: 8,
            sampling: SamplingParams::default(),
            grpo: GrpoConfig::default(),
            mini_batches: 1,
            micro_tokens: 8192,
            learning_rate: Schedule::Constant { peak: 1e-5, warmup_steps: 0 },
            optimizer: OptimizerConfig::default(),
            kl_coefficient: None,
            adaptive_entropy: None,
            selection: None,
            truncated: Truncated::default(),
            replay: None,
            reference: ReferenceConfig::default(),
            episodes: EpisodeLimits::default(),
            early_stop: None,
            max_non_finite: 10,
            checkpoints: None,
            evaluation: EvaluationConfig::default(),
        }
    }
}

/// Dynamic sampling: groups that teach nothing are left out, and others drawn in their place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SelectionConfig {
    /// Which groups stay.
    pub filter: GroupFilter,
    /// How often new groups are drawn, at least 1. 1: nothing is drawn in place of what was left out.
    pub max_rounds: usize,
}

impl Default for SelectionConfig {
    /// Groups with any spread, up to ten rounds (DAPO).
    fn default() -> Self {
        Self { filter: GroupFilter::default(), max_rounds: 10 }
    }
}

/// What happens to completions that were cut off by the length limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncated {
    /// They are trained on as any other.
    #[default]
    Train,
    /// They count in their group's statistics; their tokens leave the loss (DAPO's overlong filtering).
    Mask,
}

/// Training again on groups of earlier rollouts. Their sampling log-probabilities are the denominator of the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayConfig {
    /// How many groups are kept, at least 1. The oldest makes room.
    pub capacity: usize,
    /// How many are added to each rollout.
    pub groups: usize,
    /// Groups older than this many optimiser steps are dropped. `None`: never.
    #[serde(default)]
    pub max_age: Option<u64>,
}

/// What becomes of the reference. It is asked only where the loss has a KL term.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReferenceConfig {
    /// The reference is renewed after every so many optimiser steps, at the end of a rollout. `None`: never.
    pub every: Option<u64>,
    /// The policy's share in a renewed reference, in (0, 1]. `None` is 1: the reference becomes the policy.
    pub share: Option<f64>,
}

/// Limits of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EpisodeLimits {
    /// How often the policy writes, at least 1.
    pub max_turns: usize,
    /// Tokens of a whole episode, the environment's included. `sampling.max_tokens` is the limit of a turn; a turn that might not fit is not begun.
    pub max_tokens: usize,
}

impl Default for EpisodeLimits {
    fn default() -> Self {
        Self { max_turns: 8, max_tokens: 4096 }
    }
}

impl TrainConfig {
    /// From TOML.
    ///
    /// # Errors
    /// Text that is not TOML, a key that does not exist, a value out of range.
    pub fn from_toml(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|e| Error::Config { path: None, problem: e.to_string() })?;
        config.validate()?;
        Ok(config)
    }

    /// From JSON.
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml).
    pub fn from_json(text: &str) -> Result<Self> {
        let config: Self = serde_json::from_str(text).map_err(|e| Error::Config { path: None, problem: e.to_string() })?;
        config.validate()?;
        Ok(config)
    }

    /// From a file: JSON if its name ends in `.json`, else TOML.
    ///
    /// # Errors
    /// A file that cannot be read, or as [`from_toml`](Self::from_toml).
    pub fn load(file: impl AsRef<Path>) -> Result<Self> {
        let file = file.as_ref();
        let text = std::fs::read_to_string(file).map_err(Error::io(file))?;
        let read = if file.extension().is_some_and(|e| e == "json") { Self::from_json(&text) } else { Self::from_toml(&text) };
        read.map_err(|error| match error {
            Error::Config { problem, .. } => Error::Config { path: Some(file.to_owned()), problem },
            Error::Core(problem) => Error::Config { path: Some(file.to_owned()), problem: problem.to_string() },
            other => other,
        })
    }

    /// Checks every field, and fields against each other.
    ///
    /// # Errors
    /// A field out of range, or two that contradict each other, by name.
    pub fn validate(&self) -> Result<()> {
        let least = [
            ("steps", self.steps),
            ("prompts", self.prompts as u64),
            ("group_size", self.group_size as u64),
            ("mini_batches", self.mini_batches as u64),
            ("micro_tokens", self.micro_tokens as u64),
            ("episodes max_turns", self.episodes.max_turns as u64),
            ("episodes max_tokens", self.episodes.max_tokens as u64),
        ];
        if let Some((field, _)) = least.into_iter().find(|(_, value)| *value == 0) {
            return Err(core(field, 0, "at least 1"));
        }
        if self.prompts.checked_mul(self.group_size).is_none_or(|completions| completions > MOST_COMPLETIONS) {
            let given = format!("{} × {}", self.prompts, self.group_size);
            return Err(core("prompts × group_size", given, "at most 16777216 completions a rollout"));
        }
        if self.mini_batches > self.prompts {
            return Err(core("mini_batches", self.mini_batches, "at most prompts: a group is never cut"));
        }
        self.sampling.validate()?;
        if self.sampling.temperature == 0.0 {
            return Err(core("sampling temperature", 0, "above 0: greedy answers of a group are all the same"));
        }
        self.grpo.validate()?;
        self.learning_rate.validate()?;
        self.optimizer.validate()?;
        self.validate_control()?;
        self.validate_estimator()?;
        if let Some(selection) = &self.selection {
            selection.filter.validate()?;
            self.refill(selection).validate()?;
        }
        if let Some(stop) = &self.early_stop {
            stop.validate()?;
            if stop.metric.starts_with(HELD_OUT) && self.evaluation.every.is_none() {
                return Err(core("early_stop metric", &stop.metric, "a metric of steps, or evaluation every must be set"));
            }
        }
        self.checkpoints.as_ref().map_or(Ok(()), CheckpointConfig::validate)?;
        self.evaluation.validate()
    }

    fn validate_control(&self) -> Result<()> {
        if let Some(coefficient) = &self.kl_coefficient {
            coefficient.validate()?;
            if !self.grpo.needs_reference() {
                return Err(core("kl_coefficient", "set, without grpo.kl", "none, or grpo.kl with a coefficient above 0"));
            }
        }
        self.adaptive_entropy.map_or(Ok(()), |entropy| entropy.validate())?;
        if self.reference.every == Some(0) {
            return Err(core("reference every", 0, "at least 1, or none"));
        }
        if let Some(share) = self.reference.share
            && !(share > 0.0 && share <= 1.0)
        {
            return Err(core("reference share", share, "above 0 and at most 1"));
        }
        if self.reference.every.is_some() && !self.grpo.needs_reference() {
            return Err(core("reference every", "set, without grpo.kl", "none, or grpo.kl with a coefficient above 0"));
        }
        match self.replay {
            Some(replay) if replay.capacity == 0 => Err(core("replay capacity", 0, "at least 1")),
            Some(_) if self.grpo.kl.is_some_and(|kl| kl.place != KlPlace::Loss) => {
                Err(core("replay", "set, with a KL outside the loss", "none: replayed groups keep the advantages of their rewards"))
            }
            _ => Ok(()),
        }
    }

    fn validate_estimator(&self) -> Result<()> {
        let foreign = [(Need::Values, "values of a critic"), (Need::Probabilities, "squared probabilities")];
        if let Some((_, what)) = foreign.iter().find(|(need, _)| self.grpo.estimator.needs().contains(need)) {
            return Err(Error::invalid(
                "estimator",
                format!("needs {what}, which the trainer does not have: write the loop of grpo-core by hand"),
            ));
        }
        // Where rewards are all that it takes, what it says of a group of one can be asked.
        if self.group_size == 1 && self.grpo.estimator.needs() == [Need::Rewards] {
            let asked = self.grpo.estimator.advantages(&[Some(1.0)], &[GroupId(0)]);
            asked.map_err(|_| core("group_size", 1, "at least 2 for this estimator, or its singleton zero or raw"))?;
        }
        match self.grpo.estimator {
            Estimator::RoleEma(_) => Err(Error::invalid("estimator", "role_ema needs roles, which the trainer does not know")),
            Estimator::ReMax if self.replay.is_some() => {
                Err(core("replay", "set, with the estimator re_max", "none: greedy answers grow stale"))
            }
            _ => Ok(()),
        }
    }

    /// How groups are drawn on.
    pub(crate) fn refill(&self, selection: &SelectionConfig) -> Refill {
        Refill { groups: self.prompts, max_rounds: selection.max_rounds }
    }

    /// The loss, as the core counts its updates: every optimiser step on a rollout is one, whatever part of the rollout it takes.
    pub(crate) fn loss(&self) -> GrpoConfig {
        GrpoConfig { updates_per_rollout: self.mini_batches * self.grpo.updates_per_rollout, ..self.grpo.clone() }
    }

    /// The checkpoints' folder, if there is one.
    pub fn checkpoint_folder(&self) -> Option<PathBuf> {
        self.checkpoints.as_ref().map(|c| c.folder.clone())
    }
}

/// Completions of a rollout, 2²⁴: more is a slip of the pen, and would end in a failed allocation.
const MOST_COMPLETIONS: usize = 1 << 24;

/// A setting out of range.
pub(crate) fn core(field: &'static str, given: impl std::fmt::Display, allowed: &'static str) -> Error {
    grpo_core::Error::config(field, given, allowed).into()
}
