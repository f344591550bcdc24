//! Where the time goes.

use std::time::Instant;

/// Seconds of each stage of a step, in the order they were entered.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    stages: Vec<(&'static str, f64)>,
}

impl Clock {
    /// Runs a stage, under a `tracing` span of its name.
    pub(crate) fn time<R>(&mut self, stage: &'static str, run: impl FnOnce() -> R) -> R {
        let _span = tracing::info_span!("stage", name = stage).entered();
        let start = Instant::now();
        let result = run();
        let seconds = start.elapsed().as_secs_f64();
        tracing::debug!(stage, seconds);
        match self.stages.iter_mut().find(|(name, _)| *name == stage) {
            Some((_, sum)) => *sum += seconds,
            None => self.stages.push((stage, seconds)),
        }
        result
    }

    /// What was measured since the last call.
    pub(crate) fn take(&mut self) -> Vec<(&'static str, f64)> {
        std::mem::take(&mut self.stages)
    }
}
