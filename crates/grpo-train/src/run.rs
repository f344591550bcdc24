//! A run: the second half of the straight line (scores → loss → step → metrics), and what happens between steps.

use burn::module::Module;
use burn::tensor::Device;
use grpo_core::{GrpoConfig, Metrics, Normaliser, Policy, Update, gradients, step_stats};

use crate::batches::Batches;
use crate::checkpoint::Store;
use crate::clock::Clock;
use crate::collect::{Collected, Undo};
use crate::error::{Error, Result};
use crate::observe::{RunEnd, RunInfo, StepRecord};
use crate::reference::renewed;
use crate::state::State;
use crate::trainer::{Task, Trainer};

/// A run that goes on.
pub(crate) struct Run<'a, T, P> {
    pub(crate) trainer: &'a mut Trainer<T, P>,
    pub(crate) state: State<T>,
    pub(crate) reference: Option<P>,
    pub(crate) device: Device,
    pub(crate) clock: Clock,
    /// Metrics of a rollout, until the first step that trains on it takes them.
    pub(crate) metrics: Metrics,
    /// The batches of `state.pending`.
    pub(crate) batches: Option<Batches>,
    pub(crate) store: Option<Store>,
    /// Where the run stood before a rollout that no step was taken on yet.
    pub(crate) undo: Option<Undo<T>>,
    /// The step of the last checkpoint.
    pub(crate) saved: Option<u64>,
    /// The step that was just taken.
    last: Option<Last>,
    /// Metrics that rules name, each with its rule, as long as no step could have had them.
    pub(crate) unseen: Vec<(&'static str, String)>,
}

/// What a step came to, before it is taken.
pub(crate) struct Planned {
    update: Option<Update>,
    tokens: u64,
}

impl<'a, T: Task, P: Policy + Module> Run<'a, T, P> {
    /// Begins, or goes on from a checkpoint: then with the policy as it was.
    pub(crate) fn start(trainer: &'a mut Trainer<T, P>, policy: &P) -> Result<(Self, Option<P>)> {
        trainer.config.validate()?;
        trainer.check_watched()?;
        let Some(device) = policy.devices().into_iter().next() else {
            return Err(Error::invalid("policy", "has no parameter, must have at least one"));
        };
        let store = trainer.config.checkpoints.as_ref().map(|c| Store::open(&c.folder)).transpose()?;
        let prompts = trainer.prompts.state().map_err(Error::Prompts)?;
        let state = State::new(&trainer.config, trainer.settings()?, prompts)?;
        let unseen = trainer.config.watched();
        let reference = trainer.config.grpo.needs_reference().then(|| policy.valid());
        let mut run = Self {
            trainer,
            state,
            reference,
            device: device.inner(),
            clock: Clock::default(),
            metrics: Metrics::default(),
            batches: None,
            store,
            undo: None,
            saved: None,
            last: None,
            unseen,
        };
        let loaded = run.restore(policy)?;
        if run.nothing_left().is_none() {
            run.begin(loaded.as_ref().unwrap_or(policy), loaded.is_some())?;
        }
        Ok((run, loaded))
    }

    /// Tells observers, and measures what is there before anything is learnt.
    fn begin(&mut self, policy: &P, resumed: bool) -> Result<()> {
        let step = self.state.step;
        let info = RunInfo { first_step: step, steps: self.trainer.config.steps, config: self.state.config.clone() };
        self.trainer.observed(|observer| observer.on_start(&info))?;
        if resumed {
            self.trainer.observed(|observer| observer.on_resume(step))?;
        } else {
            self.evaluate(policy)?;
        }
        Ok(())
    }

    /// The loss of the next step, with the coefficients as they are now.
    pub(crate) fn grpo(&self) -> GrpoConfig {
        let mut config = self.trainer.config.loss();
        if let (Some(kl), Some(state)) = (&mut config.kl, &self.state.kl) {
            kl.coefficient = state.value();
        }
        if let Some(state) = &self.state.entropy {
            config.entropy.bonus = state.value();
        }
        config
    }

    /// Everything of a step that can fail. `None`: there is no prompt left.
    pub(crate) fn update(&mut self, policy: &P) -> Result<Option<Planned>> {
        // prompts → rollout → rewards → advantages → batches: once for all steps on a rollout.
        if self.batches.is_none() {
            match self.collect(policy)? {
                Collected::Rollout(pending, batches) => (self.state.pending, self.batches) = (Some(*pending), Some(batches)),
                Collected::Nothing => return Ok(Some(Planned { update: None, tokens: 0 })),
                Collected::UsedUp => return Ok(None),
            }
        }
        let (config, done) = (self.grpo(), self.state.pending.as_ref().map_or(0, |p| p.done));
        let batches = self.batches.as_ref().map_or(&[][..], |batches| batches.of_step(done));
        // scores → loss → gradients.
        self.clock.time("gradients", || {
            let stats = step_stats(&policy.valid(), batches, &config)?;
            let update = gradients(policy, batches, &stats, &config)?;
            Ok(Some(Planned { update: Some(update), tokens: stats.tokens as u64 }))
        })
    }

    /// Takes a step. It cannot fail.
    pub(crate) fn apply(&mut self, planned: Planned, policy: P) -> P {
        let Planned { update, tokens } = planned;
        let (step, config) = (self.state.step, &self.trainer.config);
        let learning_rate = config.learning_rate.at(step);
        let mut metrics = std::mem::take(&mut self.metrics);
        metrics.sum("learning_rate", learning_rate, Normaliser::Step);
        for (name, value) in
            [("kl_coefficient", self.state.kl.map(|kl| kl.value())), ("entropy_coefficient", self.state.entropy.map(|e| e.value()))]
        {
            value.into_iter().for_each(|value| metrics.sum(name, value, Normaliser::Step));
        }
        let Some(update) = update else {
            metrics.extreme("skipped", 1.0, Normaliser::Max);
            self.advance(metrics, tokens, None);
            return policy;
        };
        metrics.merge(&update.metrics);
        let non_finite = update.non_finite.clone();
        let optimizer = self.trainer.optimizer.inner();
        let policy = self.clock.time("apply", || update.apply(optimizer, learning_rate, policy));
        self.advance(metrics, tokens, Some(non_finite));
        policy
    }

    /// Everything that counts steps moves on. `non_finite`: of a step with an update, the parameter whose gradient is not finite.
    fn advance(&mut self, metrics: Metrics, tokens: u64, non_finite: Option<Option<String>>) {
        self.undo = None;
        let config = &self.trainer.config;
        let step = self.state.step;
        if let Some(non_finite) = &non_finite {
            self.state.non_finite = if non_finite.is_some() { self.state.non_finite + 1 } else { 0 };
        }
        let completions = self
            .batches
            .as_ref()
            .zip(self.state.pending.as_ref())
            .map_or(0, |(batches, pending)| batches.of_step(pending.done).iter().map(|batch| batch.shape()[0]).sum());
        if let Some(kl) = &mut self.state.kl {
            kl.advance(metrics.get("kl"), completions);
        }
        if let Some(entropy) = &mut self.state.entropy {
            entropy.advance(metrics.get("entropy"));
        }
        let passes = config.grpo.updates_per_rollout;
        if let (Some(pending), Some(batches)) = (&mut self.state.pending, &self.batches) {
            pending.done += 1;
            if pending.done >= batches.steps() * passes {
                (self.state.pending, self.batches) = (None, None);
            }
        }
        self.state.step += 1;
        self.last =
            Some(Last { record: StepRecord { step, metrics, stages: self.clock.take(), tokens }, non_finite: non_finite.flatten() });
    }

    /// What happens after a step: the reference follows, observers are told, the policy is measured and saved. `Some`: the run is over.
    pub(crate) fn after(&mut self, policy: &P) -> Result<Option<RunEnd>> {
        self.renew_reference(policy);
        let Some(Last { record, non_finite }) = self.last.take() else { return Ok(None) };
        self.judge(&record.metrics);
        self.state.owed = self.measures();
        self.trainer.observed(|observer| observer.on_step(&record))?;
        if let Some(parameter) = non_finite {
            tracing::warn!("step {} is skipped: the gradient of `{parameter}` is not finite", record.step);
            if self.state.non_finite > self.trainer.config.max_non_finite {
                self.save(policy, &record.metrics)?;
                let problem = format!(
                    "of `{parameter}` is not finite, in {} steps in a row, the last of them step {}",
                    self.state.non_finite, record.step
                );
                return Err(Error::invalid("gradient", problem));
            }
        }
        self.conclude(policy, record.metrics, false)
    }

    /// A step failed, and left everything as it was before it, or something failed after a step: what is there is saved, if it is not yet. If that
    /// fails, too, the first error is the one to tell.
    pub(crate) fn rescue(&mut self, policy: &P) {
        if let Err(error) = self.undo().and_then(|()| self.keep(policy, &Metrics::default())) {
            tracing::warn!("after an error, no checkpoint could be written: {error}");
        }
    }

    /// At the end of a rollout, and if it is time for it.
    fn renew_reference(&mut self, policy: &P) {
        let config = self.trainer.config.reference;
        let due = config.every.is_some_and(|every| self.state.step - self.state.renewed >= every);
        if due
            && self.state.pending.is_none()
            && let Some(reference) = self.reference.take()
        {
            self.reference = Some(renewed(reference, &policy.valid(), &config));
            self.state.renewed = self.state.step;
        }
    }

    /// The batches of a rollout that a checkpoint holds.
    pub(crate) fn rebuild(&mut self, policy: &P, old: Vec<u8>) -> Result<()> {
        if let Some(pending) = self.state.pending.take() {
            self.batches = Some(self.batches(&pending, &policy.valid(), Some(old))?);
            self.state.pending = Some(pending);
        }
        Ok(())
    }
}

/// A step that was taken, until observers were told.
pub(crate) struct Last {
    record: StepRecord,
    non_finite: Option<String>,
}
