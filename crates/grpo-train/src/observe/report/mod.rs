//! The report of a run: one HTML file that needs nothing else.

mod chart;
mod charts;
mod columns;
mod groups;
mod html;
mod page;
mod scale;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::lines::replace;
use super::run::RunFiles;
use super::{Observer, RunEnd};
use crate::error::Result;

pub(crate) use scale::number;

/// Draws the report of what [`RunFiles::read`] found, as the text of one HTML file.
///
/// Charts are inline SVG, light and dark follow the reader's setting, and there is no script: a browser is told to run none and to fetch
/// nothing, so that completions, which anyone may have written, are only ever shown.
pub fn render(run: &RunFiles) -> String {
    page::page(run)
}

/// Reads a run's folder and writes its report, whole or not at all. Works while the run goes on, and on old folders.
///
/// # Errors
/// No `metrics.jsonl` in the folder; a file that cannot be read or written.
pub fn write_report(run: impl Into<PathBuf>, to: impl AsRef<Path>) -> Result<()> {
    replace(to.as_ref(), render(&RunFiles::read(run)?).as_bytes())
}

/// The least time between two reports while a run goes on.
const PAUSE: Duration = Duration::from_secs(60);

/// Writes `report.html` into the run's folder: at checkpoints, at most once a minute, and at the end. Add it after the observers that write
/// the files it reads. A report that fails is told by `tracing::warn!` and never stops a run.
#[derive(Debug)]
pub struct ReportWriter {
    folder: PathBuf,
    last: Option<Instant>,
}

impl ReportWriter {
    /// For the run in that folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), last: None }
    }

    fn write(&mut self) {
        self.last = Some(Instant::now());
        if let Err(error) = write_report(&self.folder, self.folder.join("report.html")) {
            tracing::warn!("no report: {error}");
        }
    }
}

impl Observer for ReportWriter {
    fn name(&self) -> &str {
        "report"
    }

    fn on_checkpoint(&mut self, _step: u64, _folder: &Path) -> Result<()> {
        if self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.write();
        }
        Ok(())
    }

    fn on_end(&mut self, _step: u64, _end: RunEnd) -> Result<()> {
        self.write();
        Ok(())
    }
}
