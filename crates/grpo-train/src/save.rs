//! Writing a run down, and taking it up again.

use burn::module::Module;
use grpo_core::{Metrics, Policy};

use crate::checkpoint::{Loaded, Refused};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::state::State;
use crate::trainer::{Resume, Task};
use crate::weights::Weights;

const POLICY: &str = "policy.bpk";
const REFERENCE: &str = "reference.bpk";
const OPTIMIZER: &str = "optimizer.bpk";
const OLD: &str = "old-log-probs.bpk";
const STATE: &str = "state.cbor";

impl<T: Task, P: Policy + Module> Run<'_, T, P> {
    /// Writes a checkpoint, unless one of this step is there. `metrics` are those of the step, which may make it the best.
    pub(crate) fn save(&mut self, policy: &P, metrics: &Metrics) -> Result<()> {
        let step = self.state.step;
        if self.saved == Some(step) || self.store.is_none() {
            return Ok(());
        }
        let path = self.store.as_ref().map(|store| store.path(step)).unwrap_or_default();
        self.trainer.observed(|observer| observer.on_checkpoint(step, &path))?;
        self.keep(policy, metrics)
    }

    /// The same, and no observer is told.
    pub(crate) fn keep(&mut self, policy: &P, metrics: &Metrics) -> Result<()> {
        let step = self.state.step;
        let Some(config) = self.trainer.config.checkpoints.clone() else { return Ok(()) };
        if self.saved == Some(step) || self.store.is_none() {
            return Ok(());
        }
        if let Some((best, value)) = config.best.as_ref().and_then(|best| Some((best, metrics.get(&best.metric)?)))
            && self.state.best.is_none_or(|(_, old)| best.better.is(value, old))
        {
            self.state.best = Some((step, value));
        }
        self.state.prompts = self.trainer.prompts.state().map_err(Error::Prompts)?;
        self.write(policy)?;
        self.saved = Some(step);
        if let Some(store) = &self.store {
            store.prune(step, config.keep_last, self.state.best.map(|(step, _)| step));
        }
        Ok(())
    }

    fn write(&mut self, policy: &P) -> Result<()> {
        let Self { store, state, reference, trainer, batches, clock, .. } = self;
        let Some(store) = store else { return Ok(()) };
        clock.time("checkpoint", || {
            let weights = Weights::of(policy, None)?;
            if let Some(parameter) = weights.not_finite() {
                return Err(Error::invalid("checkpoint", format!("`{parameter}` is not finite: such a policy is not saved")));
            }
            let mut draft = store.begin(state.step)?;
            if let Some(reference) = reference {
                draft.add(REFERENCE, &Weights::of(reference, Some(&weights))?.into_bytes()?)?;
            }
            draft.add(POLICY, &weights.into_bytes()?)?;
            draft.add(OPTIMIZER, &trainer.optimizer.to_bytes()?)?;
            if let Some(batches) = batches {
                draft.add(OLD, &batches.old_bytes()?)?;
            }
            let mut bytes = Vec::new();
            ciborium::into_writer(state, &mut bytes).map_err(|e| Error::invalid("state", e.to_string()))?;
            draft.add(STATE, &bytes)?;
            draft.finish().map(|_| ())
        })
    }

    /// What was asked for: nothing, or the newest checkpoint that is whole. Then the policy as it was.
    pub(crate) fn restore(&mut self, policy: &P) -> Result<Option<P>> {
        let resume = self.trainer.resume;
        let frozen = Weights::frozen_hash(policy)?;
        self.state.frozen = frozen.clone();
        let Some(store) = &self.store else {
            return match resume {
                Resume::Fresh => Ok(None),
                _ => Err(Error::invalid("resume", "asked for, without checkpoints in the configuration: set `checkpoints.folder`")),
            };
        };
        let folder = store.path(0).parent().map(std::path::Path::to_owned).unwrap_or_default();
        let problem = |problem: String| Error::Checkpoint { path: folder.clone(), problem };
        if resume == Resume::Fresh {
            return match store.has_any()? {
                true => Err(problem("has checkpoints of an earlier run: resume it, or choose another folder".to_owned())),
                false => Ok(None),
            };
        }
        let (loaded, refused) = store.newest()?;
        for Refused { path, problem } in &refused {
            tracing::warn!("checkpoint {} is refused: {problem}", path.display());
        }
        let listed = || refused.iter().map(|r| format!("; {} {}", r.path.display(), r.problem)).collect::<String>();
        match loaded {
            Some(loaded) => {
                let policy = self.take_up(&loaded, policy, &frozen)?;
                tracing::info!("goes on from {}", loaded.path.display());
                Ok(Some(policy))
            }
            None if store.has_any()? => Err(problem(format!("all checkpoints are damaged{}", listed()))),
            None if resume == Resume::NewestIfAny => {
                tracing::warn!("{}: no checkpoint, so the run begins{}", folder.display(), listed());
                Ok(None)
            }
            None => Err(problem(format!("has no checkpoint to resume from{}", listed()))),
        }
    }

    fn take_up(&mut self, loaded: &Loaded, policy: &P, frozen: &str) -> Result<P> {
        let named = |error: Error| loaded.problem(error);
        let state: State<T> = state_of(loaded)?;
        state.check_config(&self.state.config).map_err(|problem| loaded.problem(problem))?;
        let policy = policy_of(loaded, &state, policy.clone(), frozen)?;
        if let (Some(reference), Some(bytes)) = (self.reference.take(), loaded.read(REFERENCE)?) {
            self.reference = Some(Weights::from_bytes(bytes).and_then(|weights| weights.load(reference)).map_err(named)?);
        }
        self.trainer.optimizer = self.trainer.optimizer.with_state(loaded.require(OPTIMIZER)?, &self.device).map_err(named)?;
        self.trainer.prompts.restore(state.prompts.clone()).map_err(|error| loaded.problem(Error::Prompts(error)))?;
        self.saved = Some(state.step);
        // What may differ is as it is now.
        self.state = state.settle(std::mem::take(&mut self.state.config));
        if self.state.pending.is_some() {
            self.rebuild(&policy, loaded.require(OLD)?).map_err(named)?;
        }
        Ok(policy)
    }
}

/// The state that a checkpoint holds.
pub(crate) fn state_of<T: Task>(loaded: &Loaded) -> Result<State<T>> {
    let state: State<T> =
        ciborium::from_reader(loaded.require(STATE)?.as_slice()).map_err(|e| loaded.problem(format!("`{STATE}`: {e}")))?;
    if state.step != loaded.step() {
        return Err(loaded.problem(format!("`{STATE}` is of step {}, must be of step {}", state.step, loaded.step())));
    }
    Ok(state)
}

/// The policy that a checkpoint holds, in the shape of `policy`, whose frozen parameters have the hash `frozen`.
pub(crate) fn policy_of<T, P: Module>(loaded: &Loaded, state: &State<T>, policy: P, frozen: &str) -> Result<P> {
    if state.frozen != frozen {
        return Err(loaded.problem("is of a policy whose parameters that are not trained are others"));
    }
    let weights = Weights::from_bytes(loaded.require(POLICY)?).map_err(|error| loaded.problem(error))?;
    if let Some(parameter) = weights.not_finite() {
        return Err(loaded.problem(format!("`{parameter}` is not finite")));
    }
    weights.load(policy).map_err(|error| loaded.problem(error))
}
