//! Metrics as a table.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::lines::Appended;
use super::values::values;
use super::{Observer, RunInfo, StepRecord};
use crate::error::{Error, Result};

/// Writes `metrics.csv`: a row a step, a column a metric, `step` first. A field is empty where a step did not measure it.
///
/// A metric that appears late gets a new column at the end: the table is then written anew beside the old one, with empty fields in
/// the earlier rows, and renamed. Numbers that are not finite are `NaN`, `inf` and `-inf`, which pandas and polars read.
#[derive(Debug)]
pub struct CsvLog {
    path: PathBuf,
    columns: Vec<String>,
    file: Option<Appended>,
}

impl CsvLog {
    /// Writes to that folder, which is made if it is not there.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn new(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        Ok(Self { path: folder.join("metrics.csv"), columns: Vec::new(), file: None })
    }

    fn file(&mut self) -> Result<&mut Appended> {
        self.file.as_mut().ok_or_else(|| Error::invalid("CSV log", "the run has not started"))
    }

    /// The same table with a wider header and empty fields in the rows that are there.
    fn widen(&mut self, new: Vec<String>) -> Result<()> {
        self.file()?.begin()?;
        let more = ",".repeat(new.len());
        self.columns.extend(new);
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let mut out = BufWriter::new(File::create(&beside).map_err(Error::io(&beside))?);
        let rows = BufReader::new(File::open(&self.path).map_err(Error::io(&self.path))?);
        writeln!(out, "{}", header(&self.columns)).map_err(Error::io(&beside))?;
        for row in rows.lines().skip(1) {
            writeln!(out, "{}{more}", row.map_err(Error::io(&self.path))?).map_err(Error::io(&beside))?;
        }
        let out = out.into_inner().map_err(|error| error.into_error());
        out.and_then(|file| file.sync_data()).map_err(Error::io(&beside))?;
        std::fs::rename(&beside, &self.path).map_err(Error::io(&self.path))?;
        // Any step but 0: the file is not emptied.
        self.file = Some(Appended::open(&self.path, 1)?);
        Ok(())
    }
}

impl Observer for CsvLog {
    fn name(&self) -> &str {
        "csv"
    }

    fn on_start(&mut self, run: &RunInfo) -> Result<()> {
        self.file = Some(Appended::open(&self.path, run.first_step)?);
        self.columns.clear();
        Ok(())
    }

    fn on_resume(&mut self, step: u64) -> Result<()> {
        let mut columns: Option<Vec<String>> = None;
        self.file()?.cut(|line| {
            let Ok(line) = std::str::from_utf8(line) else { return false };
            let mut fields = fields(line.trim_end_matches('\n'));
            let Some(columns) = &columns else {
                let is_header = fields.first().is_some_and(|first| first == "step");
                fields.drain(..1);
                columns = Some(fields);
                return is_header;
            };
            // What cannot be read is no reason to drop what follows it.
            fields.len() != columns.len() + 1 || fields.first().and_then(|first| first.parse().ok()).is_none_or(|at: u64| at < step)
        })?;
        self.columns = columns.unwrap_or_default();
        Ok(())
    }

    fn on_step(&mut self, record: &StepRecord) -> Result<()> {
        let values = values(record);
        let new: Vec<String> = values.iter().map(|(name, _)| name).filter(|name| !self.columns.contains(name)).cloned().collect();
        if !new.is_empty() {
            self.widen(new)?;
        }
        let mut row = record.step.to_string();
        for column in &self.columns {
            row.push(',');
            if let Some((_, value)) = values.iter().find(|(name, _)| name == column) {
                row.push_str(&value.to_string());
            }
        }
        row.push('\n');
        self.file()?.append(row.as_bytes())
    }

    fn on_checkpoint(&mut self, _step: u64, _folder: &Path) -> Result<()> {
        self.file()?.sync()
    }
}

fn header(columns: &[String]) -> String {
    let mut header = "step".to_owned();
    for column in columns {
        header.push(',');
        if column.contains([',', '"', '\n', '\r']) {
            // A line break in a name would be one in the file.
            header.push_str(&format!("\"{}\"", column.replace(['\n', '\r'], " ").replace('"', "\"\"")));
        } else {
            header.push_str(column);
        }
    }
    header
}

/// The fields of a line, with their quotes taken off.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => field.extend(rest.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use grpo_core::{Metrics, Normaliser};

    use super::*;

    fn step(step: u64, metrics: &[(&str, f64)]) -> StepRecord {
        let mut record = StepRecord { step, metrics: Metrics::default(), stages: Vec::new(), tokens: 4 };
        metrics.iter().for_each(|(name, value)| record.metrics.extreme(*name, *value, Normaliser::Max));
        record
    }

    fn started(folder: &Path, first_step: u64) -> CsvLog {
        let mut log = CsvLog::new(folder).unwrap();
        log.on_start(&RunInfo { first_step, steps: 9, config: serde_json::Value::Null }).unwrap();
        if first_step > 0 {
            log.on_resume(first_step).unwrap();
        }
        log
    }

    #[test]
    fn a_late_metric_widens_the_table_and_an_absent_one_leaves_a_field_empty() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = started(folder.path(), 0);
        log.on_step(&step(0, &[("reward", 0.5)])).unwrap();
        log.on_step(&step(1, &[("kl", 0.25), ("reward", f64::NAN)])).unwrap();
        log.on_step(&step(2, &[("kl", 1.0)])).unwrap();
        let text = std::fs::read_to_string(folder.path().join("metrics.csv")).unwrap();
        assert_eq!(text, "step,reward,tokens,kl\n0,0.5,4,\n1,NaN,4,0.25\n2,,4,1\n");
    }

    #[test]
    fn a_resumed_table_is_that_of_the_unbroken_run() {
        let steps = [step(0, &[("a", 1.0)]), step(1, &[("a", 2.0), ("b, \"c\"", 3.0)]), step(2, &[("a", 4.0)])];
        let unbroken = tempfile::tempdir().unwrap();
        let mut log = started(unbroken.path(), 0);
        steps.iter().for_each(|step| log.on_step(step).unwrap());
        let expected = std::fs::read_to_string(unbroken.path().join("metrics.csv")).unwrap();

        for cut in 0..expected.len() {
            // Killed with so many bytes on disk, resumed at the last step that is whole there.
            let next = expected[..cut].lines().filter(|line| expected[..cut].contains(&format!("{line}\n"))).count().saturating_sub(1);
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("metrics.csv"), &expected[..cut]).unwrap();
            let mut log = started(folder.path(), next as u64);
            steps[next..].iter().for_each(|step| log.on_step(step).unwrap());
            let text = std::fs::read_to_string(folder.path().join("metrics.csv")).unwrap();
            assert_eq!(text, expected, "cut at {cut}, resumed at {next}");
        }
    }
}
