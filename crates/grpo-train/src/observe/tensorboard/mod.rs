//! Metrics as TensorBoard event files.

mod event;
mod record;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use grpo_core::Metrics;

use super::lines::Appended;
use super::values::{EVALUATION, evaluation_values, values};
use super::{Observer, RunInfo, StepRecord};
use crate::error::{Error, Result};
use event::{What, event, first_tag, step};

/// Writes `events.out.tfevents.*` files, which `tensorboard --logdir FOLDER` shows: every metric as a scalar of its name, those of
/// evaluations as well.
///
/// A run that goes on begins another file. Events of steps that come again are cut from the earlier ones, and the new file
/// says where it starts, so that a TensorBoard that is looking on forgets them, too. Values are 32-bit there; `metrics.jsonl` has all of them.
#[derive(Debug)]
pub struct TensorBoard {
    folder: PathBuf,
    file: Option<Appended>,
}

impl TensorBoard {
    /// Writes to that folder, which is made if it is not there; it should hold nothing but one run's events.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
        Ok(Self { folder, file: None })
    }

    /// The event files, in the order they were begun.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(&self.folder).map_err(Error::io(&self.folder))?;
        let is_ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("events.out.tfevents."));
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|e| e.path())).filter(is_ours).collect();
        files.sort();
        Ok(files)
    }

    /// Begins a file that comes after all others. TensorBoard reads them in the order of their names.
    fn begin(&mut self, first_step: u64) -> Result<()> {
        let earlier = self.files()?;
        // Never before the last one, whatever the clock says.
        let last = earlier.last().and_then(|path| path.file_name()?.to_str()?.split('.').nth(3)?.parse().ok());
        let name = format!("events.out.tfevents.{:010}.grpo.{:05}", (now() as u64).max(last.unwrap_or(0)), earlier.len());
        let mut file = Appended::open(self.folder.join(name), 0)?;
        file.append(&record::framed(&event(now(), 0, &What::FileVersion)))?;
        if first_step > 0 {
            file.append(&record::framed(&event(now(), first_step, &What::Start)))?;
        }
        self.file = Some(file);
        Ok(())
    }

    fn scalars(&mut self, step: u64, values: &[(String, f64)]) -> Result<()> {
        if self.file.is_none() {
            // A new run: events of an earlier one would be shown as this one's.
            for old in self.files()? {
                std::fs::remove_file(&old).map_err(Error::io(&old))?;
            }
            self.begin(0)?;
        }
        let scalars: Vec<(&str, f32)> = values.iter().map(|(name, value)| (name.as_str(), *value as f32)).collect();
        let file = self.file.as_mut().ok_or_else(|| Error::invalid("TensorBoard log", "the run has not started"))?;
        file.append(&record::framed(&event(now(), step, &What::Scalars(&scalars))))
    }
}

impl Observer for TensorBoard {
    fn name(&self) -> &str {
        "tensorboard"
    }

    fn on_start(&mut self, _run: &RunInfo) -> Result<()> {
        self.file = None; // begun by what comes next: a value, or `on_resume`
        Ok(())
    }

    fn on_resume(&mut self, step: u64) -> Result<()> {
        let mut evaluated = Vec::new();
        for file in self.files()? {
            evaluated.extend(cut(&file, step)?);
        }
        self.begin(step)?;
        // The evaluation before this step stood before the checkpoint; a reader has just forgotten it with all else of the step.
        self.file.as_mut().map_or(Ok(()), |file| file.append(&evaluated))
    }

    fn on_step(&mut self, record: &StepRecord) -> Result<()> {
        self.scalars(record.step, &values(record))
    }

    fn on_evaluation(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        self.scalars(step, &evaluation_values(metrics))
    }

    fn on_checkpoint(&mut self, _step: u64, _folder: &Path) -> Result<()> {
        self.file.as_mut().map_or(Ok(()), Appended::sync)
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Cuts a file before its first event of step `next` or later, or that is not whole. Returns the evaluation of step `next`, if it was cut.
fn cut(path: &Path, next: u64) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    let mut rest = bytes.as_slice();
    while let Some((data, more)) = record::split(rest) {
        if step(data).is_none_or(|at| at >= next) {
            break;
        }
        rest = more;
    }
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    let file = std::fs::OpenOptions::new().write(true).open(path).map_err(Error::io(path))?;
    file.set_len((bytes.len() - rest.len()) as u64).map_err(Error::io(path))?;
    let mut evaluated = Vec::new();
    while let Some((data, more)) = record::split(rest) {
        if step(data) == Some(next) && first_tag(data).is_some_and(|tag| tag.starts_with(EVALUATION.as_bytes())) {
            evaluated = record::framed(data);
        }
        rest = more;
    }
    Ok(evaluated)
}

#[cfg(test)]
mod tests {
    use grpo_core::Normaliser;

    use super::*;

    fn record(step: u64) -> StepRecord {
        let mut metrics = Metrics::default();
        metrics.extreme("reward", step as f64, Normaliser::Max);
        StepRecord { step, metrics, stages: Vec::new(), tokens: 1 }
    }

    fn run(first_step: u64) -> RunInfo {
        RunInfo { first_step, steps: 9, config: serde_json::Value::Null }
    }

    /// The step and first tag of all whole events with scalars, over all files, and how many bytes are left over.
    fn events(log: &TensorBoard) -> (Vec<(u64, String)>, usize) {
        let (mut steps, mut left) = (Vec::new(), 0);
        for file in log.files().unwrap() {
            let bytes = std::fs::read(file).unwrap();
            let mut rest = bytes.as_slice();
            while let Some((data, more)) = record::split(rest) {
                if let Some(tag) = first_tag(data) {
                    steps.push((step(data).unwrap(), String::from_utf8(tag.to_vec()).unwrap()));
                }
                rest = more;
            }
            left += rest.len();
        }
        (steps, left)
    }

    #[test]
    fn after_a_crash_no_step_and_no_evaluation_is_there_twice_and_none_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = TensorBoard::new(folder.path()).unwrap();
        log.on_start(&run(0)).unwrap();
        for step in 0..5 {
            log.on_evaluation(step, &record(step).metrics).unwrap();
            log.on_step(&record(step)).unwrap();
        }
        // Killed while it wrote: the last event is torn.
        let path = log.files().unwrap().pop().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();

        let mut log = TensorBoard::new(folder.path()).unwrap();
        log.on_start(&run(3)).unwrap();
        log.on_resume(3).unwrap();
        for step in 3..6 {
            log.on_step(&record(step)).unwrap();
        }
        let evaluated = |step| (step, "eval/reward".to_owned());
        let trained = |step| (step, "reward".to_owned());
        let expected = (0..4).flat_map(|step| [evaluated(step), trained(step)]).chain([trained(4), trained(5)]).collect();
        assert_eq!(events(&log), (expected, 0));
        assert_eq!(log.files().unwrap().len(), 2);
    }

    #[test]
    fn a_new_run_in_the_same_folder_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = TensorBoard::new(folder.path()).unwrap();
        for _ in 0..2 {
            log.on_start(&run(0)).unwrap();
            log.on_step(&record(0)).unwrap();
        }
        assert_eq!(events(&log), (vec![(0, "reward".to_owned())], 0));
    }
}
