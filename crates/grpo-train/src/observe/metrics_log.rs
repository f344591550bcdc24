//! Metrics as JSON lines.

use std::path::{Path, PathBuf};

use grpo_core::Metrics;
use serde_json::json;

use super::lines::{Appended, is_before, replace};
use super::values::{evaluation_values, json_line, values};
use super::{Observer, RunInfo, StepRecord};
use crate::error::{Error, Result};

/// Writes `run.json` (what the run is), `metrics.jsonl` (a line a step) and `evaluations.jsonl` (a line an evaluation).
///
/// A line is one object: `step`, and each metric under its name in [`Metrics`], which is TRL's; `tokens` trained on; `step_time` and
/// `time/STAGE` in seconds (the only fields that differ between two runs of the same seed). Names of evaluations begin with `eval/`. What was not measured is absent; what was measured and is not finite is `null`.
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
        // The evaluation before this step stood before the checkpoint.
        files.evaluations.cut(is_before(step + 1))
    }

    fn on_step(&mut self, record: &StepRecord) -> Result<()> {
        self.files()?.steps.append(&json_line(record.step, &values(record)))
    }

    fn on_evaluation(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        let file = &mut self.files()?.evaluations;
        file.begin()?;
        // If it comes again, it takes the place of the one that is there.
        file.cut(is_before(step))?;
        file.append(&json_line(step, &evaluation_values(metrics)))
    }

    fn on_checkpoint(&mut self, _step: u64, _folder: &Path) -> Result<()> {
        let files = self.files()?;
        files.steps.sync()?;
        files.evaluations.sync()
    }
}

#[cfg(test)]
mod tests {
    use grpo_core::Normaliser;

    use super::*;

    fn metrics(value: f64) -> Metrics {
        let mut metrics = Metrics::default();
        metrics.extreme("reward", value, Normaliser::Max);
        metrics
    }

    /// Starts, or goes on at that step; then runs to `until`, with an evaluation before every second step and a checkpoint after it.
    fn run(folder: &Path, from: u64, until: u64) {
        let mut log = MetricsLog::new(folder).unwrap();
        log.on_start(&RunInfo { first_step: from, steps: 9, config: json!({ "seed": 1 }) }).unwrap();
        if from > 0 {
            log.on_resume(from).unwrap();
        }
        for step in from..until {
            log.on_step(&StepRecord { step, metrics: metrics(step as f64), stages: Vec::new(), tokens: 3 }).unwrap();
            if step % 2 == 1 {
                log.on_evaluation(step + 1, &metrics(0.5 + step as f64)).unwrap();
                log.on_checkpoint(step + 1, folder).unwrap();
            }
        }
    }

    #[test]
    fn a_run_killed_at_any_byte_and_resumed_leaves_the_lines_of_the_unbroken_run() {
        let unbroken = tempfile::tempdir().unwrap();
        run(unbroken.path(), 0, 7);
        let read = |folder: &Path, name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let (steps, evaluations) = (read(unbroken.path(), "metrics.jsonl"), read(unbroken.path(), "evaluations.jsonl"));
        assert_eq!((steps.lines().count(), evaluations.lines().count()), (7, 3));
        // The last checkpoint is at step 4; what came after it is on disk up to some byte.
        let kept = steps.lines().take(4).map(|line| line.len() + 1).sum::<usize>();
        for cut in kept..=steps.len() {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("metrics.jsonl"), &steps[..cut]).unwrap();
            std::fs::write(folder.path().join("evaluations.jsonl"), &evaluations).unwrap();
            run(folder.path(), 4, 7);
            assert_eq!(read(folder.path(), "metrics.jsonl"), steps, "cut at {cut}");
            assert_eq!(read(folder.path(), "evaluations.jsonl"), evaluations);
        }
    }

    #[test]
    fn an_evaluation_that_comes_again_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), 0, 4);
        let mut log = MetricsLog::new(folder.path()).unwrap();
        log.on_start(&RunInfo { first_step: 4, steps: 9, config: json!({}) }).unwrap();
        log.on_resume(4).unwrap();
        log.on_evaluation(4, &metrics(9.0)).unwrap();
        let text = std::fs::read_to_string(folder.path().join("evaluations.jsonl")).unwrap();
        assert_eq!(text, "{\"eval/reward\":1.5,\"step\":2}\n{\"eval/reward\":9.0,\"step\":4}\n");
    }

    #[test]
    fn run_json_says_what_the_run_is() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), 0, 0);
        let about: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.path().join("run.json")).unwrap()).unwrap();
        assert_eq!(about, json!({ "format": 1, "steps": 9, "config": { "seed": 1 } }));
    }
}
