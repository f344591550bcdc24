//! Looking at a run without training: its policy, and how good it is.

use std::path::Path;

use burn::module::Module;
use grpo_core::{Metrics, Policy};

use crate::checkpoint::{Store, list};
use crate::error::{Error, Result};
use crate::evaluate::Evaluation;
use crate::save::{policy_of, state_of};
use crate::state::State;
use crate::trainer::{Task, Trainer};
use crate::weights::Weights;

impl<T: Task, P: Policy + Module> Trainer<T, P> {
    /// Answers the held-out prompts with this policy, as a run does before, during and after training. No observer is told.
    ///
    /// # Errors
    /// No held-out prompt; a sampler, an environment or a reward that fails.
    pub fn evaluate(&mut self, policy: &P) -> Result<Metrics> {
        if self.held_out.is_empty() {
            return Err(Error::invalid("held-out prompts", "none, must be at least one: `with_held_out`"));
        }
        let evaluation = Evaluation {
            prompts: &self.held_out,
            rewards: &self.rewards,
            sampling: &self.config.sampling,
            config: &self.config.evaluation,
            limits: &self.config.episodes,
            answer: self.answer.as_ref(),
            seed: self.config.seed,
        };
        evaluation.run(&policy.valid(), self.sampler.as_mut(), self.environment.as_deref_mut())
    }

    /// The policy of the newest checkpoint that is whole, and how many steps it has learnt. `policy` is any policy of the same shape, such
    /// as a new one. The folder is only read, also while a run writes to it.
    ///
    /// # Errors
    /// No checkpoint; one of another policy.
    pub fn load(&self, policy: P) -> Result<(P, u64)> {
        let Some(config) = &self.config.checkpoints else {
            return Err(Error::invalid("checkpoint", "none without checkpoints in the configuration: set `checkpoints.folder`"));
        };
        loop {
            let there = list(&config.folder)?;
            match self.load_newest(&config.folder, policy.clone()) {
                // The newest one is removed only once there is a newer one: then that one is the newest.
                Err(Error::Io { .. } | Error::Checkpoint { .. }) if list(&config.folder)? != there => {}
                loaded => return loaded,
            }
        }
    }

    fn load_newest(&self, folder: &Path, policy: P) -> Result<(P, u64)> {
        let (loaded, refused) = Store::reader(folder).newest()?;
        for refused in &refused {
            tracing::warn!("checkpoint {} is refused: {}", refused.path.display(), refused.problem);
        }
        let Some(loaded) = loaded else {
            return Err(Error::Checkpoint { path: folder.to_owned(), problem: "has no checkpoint that is whole".to_owned() });
        };
        let state: State<T> = state_of(&loaded)?;
        if let Err(problem) = state.check_config(&self.settings()?) {
            tracing::warn!("{}: {problem}", loaded.path.display());
        }
        let frozen = Weights::frozen_hash(&policy)?;
        Ok((policy_of(&loaded, &state, policy, &frozen)?, state.step))
    }
}
