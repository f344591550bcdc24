//! A run's folder, read: while the run goes on, or long after.

mod samples;
mod series;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};

pub use samples::{SampleCompletion, SampleGroup, Samples};
pub use series::{Point, Series};

/// What a run's folder holds.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RunFiles {
    /// The folder.
    pub folder: PathBuf,
    /// How many steps the run is to have, if `run.json` is there.
    pub steps: Option<u64>,
    /// The configuration, if `run.json` is there.
    pub config: Option<Value>,
    /// The metrics of each step.
    pub metrics: Series,
    /// Those of each evaluation.
    pub evaluations: Series,
    /// What was said.
    pub samples: Samples,
    /// Lines that could not be read, by file. A torn last line is none of them: a run that goes on is writing it.
    pub unreadable: Vec<(String, usize)>,
}

impl RunFiles {
    /// Reads `metrics.jsonl` and, where they are there, `run.json`, `evaluations.jsonl` and `completions.jsonl`.
    ///
    /// # Errors
    /// No `metrics.jsonl`, or a file that cannot be read.
    pub fn read(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let metrics = folder.join("metrics.jsonl");
        if !metrics.is_file() {
            return Err(Error::invalid("run folder", format!("{} has no metrics.jsonl, must be the folder of a run", folder.display())));
        }
        let mut run = Self { folder, ..Self::default() };
        run.about()?;
        let mut read = |name: &str| -> Result<Series> {
            let (series, unreadable) = Series::read(&run.folder.join(name))?;
            if unreadable > 0 {
                run.unreadable.push((name.to_owned(), unreadable));
            }
            Ok(series)
        };
        run.metrics = read("metrics.jsonl")?;
        run.evaluations = read("evaluations.jsonl")?;
        let (samples, unreadable) = Samples::read(&run.folder.join("completions.jsonl"))?;
        run.samples = samples;
        if unreadable > 0 {
            run.unreadable.push(("completions.jsonl".to_owned(), unreadable));
        }
        Ok(run)
    }

    /// `run.json`: an older folder may lack it.
    fn about(&mut self) -> Result<()> {
        let path = self.folder.join("run.json");
        match std::fs::read(&path) {
            Ok(bytes) => {
                let about: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                self.steps = about.get("steps").and_then(Value::as_u64);
                self.config = about.get("config").cloned().filter(|config| !config.is_null());
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io(&path)(error)),
        }
    }

    /// Whether every step is there.
    pub fn is_complete(&self) -> bool {
        self.steps.zip(self.metrics.last_step()).is_some_and(|(steps, last)| last + 1 >= steps)
    }
}

/// The whole lines of a file, one after the other; a file that is not there has none. Returns how many `take` could not read.
pub(super) fn lines(path: &Path, mut take: impl FnMut(&[u8]) -> Option<()>) -> Result<usize> {
    use std::io::BufRead as _;
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        file => file.map_err(Error::io(path))?,
    };
    let (mut reader, mut line, mut unreadable) = (std::io::BufReader::new(file), Vec::new(), 0);
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(Error::io(path))?;
        // Without a line break it is being written, or was torn.
        if line.last() != Some(&b'\n') {
            return Ok(unreadable);
        }
        if !line.trim_ascii().is_empty() && take(&line).is_none() {
            unreadable += 1;
        }
    }
}
