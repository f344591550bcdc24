//! Everything of a run that is neither weights nor moments: what a checkpoint must hold for the run to go on as if never stopped.

use grpo_core::{Advantages, CoefficientState, EntropyState, Group, ReplayBuffer, RewardTable};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::TrainConfig;
use crate::error::Result;

/// A group that may be trained on again, with what it was worth.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept<T> {
    pub(crate) group: Group<T>,
    pub(crate) rewards: RewardTable,
}

/// A rollout that was judged, and is being trained on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pending<T> {
    /// The groups: new ones first, then those of the replay buffer.
    pub(crate) groups: Vec<Group<T>>,
    /// How many of them are new.
    pub(crate) fresh: usize,
    /// One entry a completion.
    pub(crate) advantages: Advantages,
    /// Optimiser steps that were taken on it.
    pub(crate) done: usize,
    /// The policy's version that sampled the new ones.
    pub(crate) version: u64,
}

/// The state of a run between two optimiser steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State<T> {
    /// The settings it was trained with: the configuration, the rewards, and what the trainer was told besides.
    pub(crate) config: Value,
    /// SHA-256 of the parameters that are not trained.
    pub(crate) frozen: String,
    /// Optimiser steps that are done: the number of the next one.
    pub(crate) step: u64,
    /// Rounds of sampling: each has a seed and ids of its own.
    pub(crate) draws: u64,
    /// Where the prompts stand.
    pub(crate) prompts: Value,
    /// When the reference was renewed last.
    pub(crate) renewed: u64,
    /// Steps in a row with a gradient that is not finite.
    pub(crate) non_finite: u64,
    /// Steps in a row that were good enough to stop.
    pub(crate) good: u64,
    /// Whether held-out prompts are to be answered before the next step.
    pub(crate) owed: bool,
    /// Whether there is no prompt left.
    pub(crate) used_up: bool,
    /// The best checkpoint: its step, and its metric.
    pub(crate) best: Option<(u64, f64)>,
    pub(crate) kl: Option<CoefficientState>,
    pub(crate) entropy: Option<EntropyState>,
    pub(crate) replay: Option<ReplayBuffer<Kept<T>>>,
    pub(crate) pending: Option<Pending<T>>,
}

impl<T> State<T> {
    /// Of a run that begins.
    pub(crate) fn new(config: &TrainConfig, settings: Value, prompts: Value) -> Result<Self> {
        Ok(Self {
            config: settings,
            frozen: String::new(),
            step: 0,
            draws: 0,
            prompts,
            renewed: 0,
            non_finite: 0,
            good: 0,
            owed: false,
            used_up: false,
            best: None,
            kl: config.kl_coefficient.map(grpo_core::Coefficient::state).transpose()?,
            entropy: config.adaptive_entropy.map(grpo_core::AdaptiveEntropy::state).transpose()?,
            replay: config.replay.map(|r| ReplayBuffer::new(r.capacity, config.seed)).transpose()?,
            pending: None,
        })
    }

    /// What may differ between a run and its resumption: how long it goes on, what is written, what is measured.
    const FREE: [&str; 5] = ["steps", "checkpoints", "evaluation", "early_stop", "max_non_finite"];

    /// That the run goes on with the settings it was begun with.
    ///
    /// # Errors
    /// The first setting that differs, by name, with both values.
    pub(crate) fn check_config(&self, now: &Value) -> std::result::Result<(), String> {
        let empty = serde_json::Map::new();
        let (then, now) = (self.config.as_object().unwrap_or(&empty), now.as_object().unwrap_or(&empty));
        let mut keys = now.keys().chain(then.keys()).filter(|key| !Self::FREE.contains(&key.as_str()));
        keys.find(|key| then.get(*key) != now.get(*key)).map_or(Ok(()), |key| {
            let said = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
            let (then, now) = (said(then.get(key)), said(now.get(key)));
            Err(format!("`{key}` was {then}, and is {now} now: a run goes on with the settings it was begun with"))
        })
    }

    /// Takes the settings of now. Another rule of when to stop, or of what is best, begins anew.
    pub(crate) fn settle(self, now: Value) -> Self {
        let same = |rule: &str| self.config.pointer(rule) == now.pointer(rule);
        let (good, best) = (if same("/early_stop") { self.good } else { 0 }, self.best.filter(|_| same("/checkpoints/best")));
        Self { good, best, config: now, ..self }
    }
}
