//! Rules that look at a metric by its name: when to stop early, and which checkpoint is the best.

use burn::module::Module;
use grpo_core::{Metrics, Policy};

use crate::config::TrainConfig;
use crate::error::{Error, Result};
use crate::evaluate::HELD_OUT;
use crate::run::Run;
use crate::trainer::{Task, Trainer};

impl TrainConfig {
    /// The metrics that rules name, each with its rule.
    pub(crate) fn watched(&self) -> Vec<(&'static str, String)> {
        let stop = self.early_stop.as_ref().map(|stop| ("early_stop", stop.metric.clone()));
        let best = self.checkpoints.as_ref().and_then(|checkpoints| checkpoints.best.as_ref());
        stop.into_iter().chain(best.map(|best| ("checkpoints best", best.metric.clone()))).collect()
    }

    /// That a run without held-out prompts measures what rules look at.
    ///
    /// # Errors
    /// A rule that looks at a metric of held-out prompts, by name.
    pub fn validate_without_held_out(&self) -> Result<()> {
        let unmeasured = self.watched().into_iter().find(|(_, metric)| metric.starts_with(HELD_OUT));
        unmeasured.map_or(Ok(()), |(rule, metric)| {
            Err(Error::invalid(rule, format!("looks at `{metric}`, which needs held-out prompts: there are none")))
        })
    }
}

impl<T: Task, P: Policy + Module> Trainer<T, P> {
    /// That what rules look at can be measured.
    pub(crate) fn check_watched(&self) -> Result<()> {
        if self.held_out.is_empty() { self.config.validate_without_held_out() } else { Ok(()) }
    }
}

impl<T: Task, P: Policy + Module> Run<'_, T, P> {
    /// Whether the rule of when to stop early has held for long enough.
    pub(crate) fn is_good_enough(&self) -> bool {
        self.trainer.config.early_stop.as_ref().is_some_and(|stop| self.state.good >= stop.patience)
    }

    /// Looks at the metrics of a step, those of its evaluation included.
    pub(crate) fn judge(&mut self, metrics: &Metrics) {
        if let Some((stop, value)) = self.trainer.config.early_stop.as_ref().and_then(|stop| Some((stop, metrics.get(&stop.metric)?))) {
            self.state.good = if stop.holds(value) { self.state.good + 1 } else { 0 };
        }
        let evaluated = metrics.iter().any(|(name, _)| name.starts_with(HELD_OUT));
        // Those of a rollout stand in the first step on it.
        let whole = metrics.get("grad_norm").is_some() && metrics.get("reward").is_some();
        self.unseen.retain(|(rule, metric)| {
            if !(if metric.starts_with(HELD_OUT) { evaluated } else { whole }) {
                return true;
            }
            if metrics.get(metric).is_none() {
                let names: Vec<&str> = metrics.iter().map(|(name, _)| name).collect();
                tracing::warn!("{rule} looks at `{metric}`, which this step does not have; it has {}", names.join(", "));
            }
            false
        });
    }
}
