//! Between steps: measuring, saving, and whether the run is over.

use burn::module::Module;
use grpo_core::{Metrics, Policy};

use crate::error::Result;
use crate::observe::RunEnd;
use crate::run::Run;
use crate::trainer::Task;

impl<T: Task, P: Policy + Module> Run<'_, T, P> {
    /// Whether there is nothing left to learn, and how that came.
    fn over(&self) -> Option<RunEnd> {
        if self.state.used_up || self.state.step >= self.trainer.config.steps {
            return Some(RunEnd::Finished);
        }
        self.is_good_enough().then_some(RunEnd::EarlyStop)
    }

    /// Whether the run was over before it began.
    pub(crate) fn nothing_left(&self) -> Option<RunEnd> {
        (self.over().is_some() && !self.state.owed).then(|| {
            tracing::info!("nothing left to do: {} of {} steps are done", self.state.step, self.trainer.config.steps);
            RunEnd::AlreadyFinished
        })
    }

    /// Whether held-out prompts are to be answered at this step.
    pub(crate) fn measures(&self) -> bool {
        !self.trainer.held_out.is_empty() && (self.is_regular() || self.over().is_some())
    }

    /// Whether an evaluation at this step is one of the series.
    fn is_regular(&self) -> bool {
        self.trainer.config.evaluation.every.is_some_and(|every| self.state.step.is_multiple_of(every))
    }

    /// Measures the policy and saves it, if it is time to. `Some`: the run is over. What is not measured, because the run is to stop or
    /// because it fails, is owed by the run that goes on from here.
    pub(crate) fn conclude(&mut self, policy: &P, mut metrics: Metrics, save: bool) -> Result<Option<RunEnd>> {
        let step = self.state.step;
        let save = save || self.trainer.config.checkpoints.as_ref().is_some_and(|c| step.is_multiple_of(c.every));
        if self.state.owed && !self.trainer.stop.is_stopped() {
            let measured = self.evaluate(policy)?;
            self.state.owed = false;
            // The closing one is no part of the series: a run that is given more steps would count it, an unbroken one would not.
            if self.is_regular() {
                self.judge(&measured);
            }
            metrics.merge(&measured);
        }
        let stopped = self.trainer.stop.is_stopped().then_some(RunEnd::Interrupted);
        let ended = if self.state.owed { stopped } else { self.over().or(stopped) };
        if save || ended.is_some() {
            self.save(policy, &metrics)?;
        }
        if let Some(end) = ended {
            self.trainer.observed(|observer| observer.on_end(step, end))?;
        }
        Ok(ended)
    }

    /// An evaluation that the run owes, because it was stopped before it, comes first. `Some`: the run is over.
    pub(crate) fn settle(&mut self, policy: &P) -> Result<Option<RunEnd>> {
        if !self.state.owed {
            return Ok(None);
        }
        // The checkpoint of this step does not know it yet.
        self.saved = None;
        self.conclude(policy, Metrics::default(), true)
    }

    /// Ends a run whose prompts are used up.
    pub(crate) fn finish(&mut self, policy: &P) -> Result<RunEnd> {
        self.state.used_up = true;
        self.state.owed = self.measures();
        Ok(self.conclude(policy, Metrics::default(), true)?.unwrap_or(RunEnd::Finished))
    }

    /// Held-out prompts, if there are any.
    pub(crate) fn evaluate(&mut self, policy: &P) -> Result<Metrics> {
        let step = self.state.step;
        let trainer = &mut *self.trainer;
        if trainer.held_out.is_empty() {
            return Ok(Metrics::default());
        }
        let metrics = self.clock.time("evaluate", || trainer.evaluate(policy))?;
        trainer.observed(|observer| observer.on_evaluation(step, &metrics))?;
        Ok(metrics)
    }
}
