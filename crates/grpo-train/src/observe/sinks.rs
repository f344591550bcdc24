//! The usual observers of a run's folder, by configuration.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{CompletionsLog, CsvLog, MetricsLog, Observer, Progress, ReportWriter, TensorBoard};
#[cfg(feature = "mlflow")]
use super::{Mlflow, MlflowConfig};
use crate::error::Result;

/// What is written of a run, and where to. `metrics.jsonl`, `evaluations.jsonl` and `run.json` are always written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObserveConfig {
    /// A bar on the terminal.
    pub progress: bool,
    /// Groups of each rollout in `completions.jsonl`: `"all"`, or a number; 0 writes no such file.
    pub completions: Completions,
    /// `metrics.csv` as well.
    pub csv: bool,
    /// Event files in the folder `tensorboard` as well.
    pub tensorboard: bool,
    /// `completions.parquet` as well, at the end of the run; there must be completions to write.
    #[cfg(feature = "parquet")]
    pub parquet: bool,
    /// An MLflow server as well.
    #[cfg(feature = "mlflow")]
    pub mlflow: Option<MlflowConfig>,
    /// `report.html`, at checkpoints and at the end.
    pub report: bool,
}

/// How many groups of a rollout are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Completions {
    /// So many, from the first on.
    First(usize),
    /// Every one.
    All(All),
}

/// The word `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum All {
    /// Every one.
    All,
}

impl Default for ObserveConfig {
    fn default() -> Self {
        Self {
            progress: true,
            completions: Completions::All(All::All),
            csv: false,
            tensorboard: false,
            #[cfg(feature = "parquet")]
            parquet: false,
            #[cfg(feature = "mlflow")]
            mlflow: None,
            report: true,
        }
    }
}

impl ObserveConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// Settings of MLflow that are out of range.
    pub fn validate(&self) -> Result<()> {
        #[cfg(feature = "mlflow")]
        self.mlflow.as_ref().map_or(Ok(()), MlflowConfig::validate)?;
        Ok(())
    }

    /// The observers that write to this run's folder, in the order in which they are to be told.
    ///
    /// # Errors
    /// A folder that cannot be made; settings of MLflow that are out of range.
    pub fn observers(&self, folder: impl AsRef<Path>) -> Result<Vec<Box<dyn Observer>>> {
        let folder = folder.as_ref();
        let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(MetricsLog::new(folder)?)];
        match self.completions {
            Completions::First(0) => {}
            Completions::First(groups) => observers.push(Box::new(CompletionsLog::new(folder)?.groups(groups))),
            Completions::All(All::All) => observers.push(Box::new(CompletionsLog::new(folder)?)),
        }
        if self.csv {
            observers.push(Box::new(CsvLog::new(folder)?));
        }
        if self.tensorboard {
            observers.push(Box::new(TensorBoard::new(folder.join("tensorboard"))?));
        }
        #[cfg(feature = "parquet")]
        if self.parquet {
            observers.push(Box::new(super::ParquetWriter::new(folder)));
        }
        #[cfg(feature = "mlflow")]
        if let Some(mlflow) = &self.mlflow {
            observers.push(Box::new(Mlflow::new(folder, mlflow.clone())?));
        }
        if self.progress {
            observers.push(Box::new(Progress::new()));
        }
        // Last: it reads what the others wrote.
        if self.report {
            observers.push(Box::new(ReportWriter::new(folder)));
        }
        Ok(observers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_who_listens_and_unknown_keys_are_refused() {
        let names = |text: &str| -> std::result::Result<Vec<String>, String> {
            let config: ObserveConfig = toml::from_str(text).map_err(|error| error.to_string())?;
            let folder = tempfile::tempdir().unwrap();
            let observers = config.observers(folder.path()).map_err(|error| error.to_string())?;
            Ok(observers.iter().map(|observer| observer.name().to_owned()).collect())
        };
        assert_eq!(names("").unwrap(), ["metrics", "completions", "progress", "report"]);
        let all = "completions = 4\ncsv = true\ntensorboard = true\nprogress = false\n[mlflow]\nuri = \"http://localhost:1\"";
        assert_eq!(names(all).unwrap(), ["metrics", "completions", "csv", "tensorboard", "mlflow", "report"]);
        #[cfg(feature = "parquet")]
        assert_eq!(names("parquet = true\nprogress = false").unwrap(), ["metrics", "completions", "parquet", "report"]);
        assert_eq!(names("completions = 0\nreport = false\nprogress = false").unwrap(), ["metrics"]);
        assert_eq!(names("completions = \"all\"\nreport = false\nprogress = false").unwrap(), ["metrics", "completions"]);
        assert!(names("tensorbord = true").unwrap_err().contains("tensorbord"));
    }
}
