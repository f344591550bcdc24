//! Seeing a run: what the trainer tells, and who listens.

mod completions;
mod csv;
pub mod health;
mod lines;
mod metrics_log;
#[cfg(feature = "mlflow")]
mod mlflow;
#[cfg(feature = "parquet")]
mod parquet;
mod progress;
mod report;
pub mod run;
mod sinks;
mod tensorboard;
mod values;

use std::borrow::Cow;
use std::path::Path;

use grpo_core::{FinishReason, GroupId, Metrics};

use crate::error::Result;

pub use completions::CompletionsLog;
pub use csv::CsvLog;
pub use metrics_log::MetricsLog;
#[cfg(feature = "mlflow")]
pub use mlflow::{Mlflow, MlflowConfig, MlflowFailures};
#[cfg(feature = "parquet")]
pub use parquet::{ParquetWriter, write_parquet};
pub use progress::Progress;
pub use report::{ReportWriter, render, write_report};
pub use sinks::{All, Completions, ObserveConfig};
pub use tensorboard::TensorBoard;

/// What an observer learns when a run starts or goes on.
#[derive(Debug, Clone)]
pub struct RunInfo {
    /// The optimiser step that comes first: 0, or where a checkpoint left off.
    pub first_step: u64,
    /// How many optimiser steps the whole run has.
    pub steps: u64,
    /// The trainer's configuration, the rewards' weights, and the settings that the trainer was told besides.
    pub config: serde_json::Value,
}

/// One optimiser step. Steps count from 0.
#[derive(Debug, Clone)]
pub struct StepRecord {
    /// Which one.
    pub step: u64,
    /// Its metrics. Those of a rollout (rewards, lengths) stand in the first step that trains on it.
    pub metrics: Metrics,
    /// Seconds of each stage, in the order they were entered.
    pub stages: Vec<(&'static str, f64)>,
    /// Tokens that were trained on.
    pub tokens: u64,
}

/// One completion, as it was judged.
#[derive(Debug, Clone)]
pub struct CompletionRecord<'a> {
    /// Its text.
    pub text: Cow<'a, str>,
    /// How many tokens it has.
    pub tokens: usize,
    /// Why it ended.
    pub finish: FinishReason,
    /// What each reward function said; `None` where it does not apply.
    pub rewards: Vec<(&'a str, Option<f64>)>,
    /// The weighted sum; `None` if no function applies.
    pub total: Option<f64>,
    /// Its advantage, the mean over its tokens where they differ. `None` if the group was left out.
    pub advantage: Option<f64>,
}

/// One group, as it was judged.
#[derive(Debug, Clone)]
pub struct GroupRecord<'a> {
    /// Its identity.
    pub id: GroupId,
    /// What was asked.
    pub prompt: Cow<'a, str>,
    /// The answers.
    pub completions: Vec<CompletionRecord<'a>>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEnd {
    /// All steps are done.
    Finished,
    /// It was asked to stop, and can be resumed.
    Interrupted,
    /// A rule of the configuration ended it.
    EarlyStop,
    /// It was resumed, and there was nothing left to do. Observers never see this: none is started.
    AlreadyFinished,
}

/// Listens to a run. Every method but [`name`](Self::name) does nothing unless it is written.
///
/// **If you implement it**: what is slow slows the run. An error ends the run, after what was learnt is saved. Write whole lines at once, so that a
/// run that is killed leaves nothing half-written. **If you call it**: in the order of the methods here.
pub trait Observer: Send {
    /// A short name for messages.
    fn name(&self) -> &str;

    /// The run starts, or goes on.
    ///
    /// # Errors
    /// Whatever keeps the observer from writing.
    fn on_start(&mut self, _run: &RunInfo) -> Result<()> {
        Ok(())
    }

    /// The run goes on from a checkpoint after which `step` is the next: what was written of this and later steps is dropped, for it will
    /// come again. Called after [`on_start`](Self::on_start), only for runs that are resumed.
    ///
    /// # Errors
    /// As [`on_start`](Self::on_start).
    fn on_resume(&mut self, _step: u64) -> Result<()> {
        Ok(())
    }

    /// A rollout was judged; `step` is the first optimiser step that trains on it.
    ///
    /// # Errors
    /// As [`on_start`](Self::on_start).
    fn on_groups(&mut self, _step: u64, _groups: &[GroupRecord<'_>]) -> Result<()> {
        Ok(())
    }

    /// An optimiser step is done.
    ///
    /// # Errors
    /// As [`on_start`](Self::on_start).
    fn on_step(&mut self, _record: &StepRecord) -> Result<()> {
        Ok(())
    }

    /// Held-out prompts were answered, `step` optimiser steps into the run.
    ///
    /// # Errors
    /// As [`on_start`](Self::on_start).
    fn on_evaluation(&mut self, _step: u64, _metrics: &Metrics) -> Result<()> {
        Ok(())
    }

    /// A checkpoint is about to be written: what stands in buffers must reach the disk, so that nothing before `step` can be lost.
    ///
    /// # Errors
    /// As [`on_start`](Self::on_start).
    fn on_checkpoint(&mut self, _step: u64, _folder: &Path) -> Result<()> {
        Ok(())
    }

    /// The run is over, `step` optimiser steps after its start.
    ///
    /// # Errors
    /// As [`on_start`](Self::on_start).
    fn on_end(&mut self, _step: u64, _end: RunEnd) -> Result<()> {
        Ok(())
    }
}

impl Observer for Box<dyn Observer> {
    fn name(&self) -> &str {
        self.as_ref().name()
    }
    fn on_start(&mut self, run: &RunInfo) -> Result<()> {
        self.as_mut().on_start(run)
    }
    fn on_resume(&mut self, step: u64) -> Result<()> {
        self.as_mut().on_resume(step)
    }
    fn on_groups(&mut self, step: u64, groups: &[GroupRecord<'_>]) -> Result<()> {
        self.as_mut().on_groups(step, groups)
    }
    fn on_step(&mut self, record: &StepRecord) -> Result<()> {
        self.as_mut().on_step(record)
    }
    fn on_evaluation(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        self.as_mut().on_evaluation(step, metrics)
    }
    fn on_checkpoint(&mut self, step: u64, folder: &Path) -> Result<()> {
        self.as_mut().on_checkpoint(step, folder)
    }
    fn on_end(&mut self, step: u64, end: RunEnd) -> Result<()> {
        self.as_mut().on_end(step, end)
    }
}
