//! Metrics as JSON lines.

use std::path::{Path, PathBuf};

use grpo_core::Metrics;
use serde_json::json;

use super::lines::{Appended, is_before, replace};
use super::values::{json_line, pairs, values};
use super::{Observer, RunInfo, StepRecord};
use crate::error::{Error, Result};

/// Writes `run.json` (what the run is), `metrics.jsonl` (a line a step) and `evaluations.jsonl` (a line an evaluation).
///
/// A line is one object: `step`, and each metric under its name in [`Metrics`], which is TRL's; `tokens` trained on; `step_time` and
/// `time/STAGE` in seconds. What was not measured is absent; what was measured and is not finite is `null`.
///
/// ```
/// use grpo_core::Metrics;
/// use grpo_train::observe::{MetricsLog, Observer, RunInfo, StepRecord};
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let mut log = MetricsLog::new(folder)?;
/// log.on_start(&RunInfo { first_step: 0, steps: 1, config: serde_json::json!({ "seed": 1 }) })?;
/// log.on_step(&StepRecord { step: 0, metrics: Metrics::default(), stages: vec![("rollout", 0.5)], tokens: 64 })?;
/// let line: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(folder.join("metrics.jsonl"))?)?;
/// assert_eq!(line, serde_json::json!({ "step": 0, "tokens": 64.0, "step_time": 0.5, "time/rollout": 0.5 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MetricsLog {
    folder: PathBuf,
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
    steps: Appended,
    evaluations: Appended,
}

impl MetricsLog {
    /// Writes to that folder, which is made if it is not there. Files are opened when a run starts: a new run begins new ones.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
        Ok(Self { folder, files: None })
    }

    fn files(&mut self) -> Result<&mut Files> {
        self.files.as_mut().ok_or_else(|| Error::invalid("metrics log", "the run has not started"))
    }
}

impl Observer for MetricsLog {
    fn name(&self) -> &str {
        "metrics"
    }

    fn on_start(&mut self, run: &RunInfo) -> Result<()> {
        let about = json!({ "format": 1, "steps": run.steps, "config": run.config });
        replace(&self.folder.join("run.json"), format!("{about:#}\n").as_bytes())?;
        let open = |name| Appended::open(self.folder.join(name), run.first_step);
        self.files = Some(Files { steps: open("metrics.jsonl")?, evaluations: open("evaluations.jsonl")? });
        Ok(())
    }

    fn on_resume(&mut self, step: u64) -> Result<()> {
        let files = self.files()?;
        files.steps.cut(is_before(step))?;
        files.evaluations.cut(is_before(step))
    }

    fn on_step(&mut self, record: &StepRecord) -> Result<()> {
        self.files()?.steps.append(&json_line(record.step, &values(record)))
    }

    fn on_evaluation(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        self.files()?.evaluations.append(&json_line(step, &pairs(metrics)))
    }

    fn on_checkpoint(&mut self, _step: u64, _folder: &Path) -> Result<()> {
        let files = self.files()?;
        files.steps.sync()?;
        files.evaluations.sync()
    }
}
