//! Metrics to an MLflow server.

mod server;
#[cfg(test)]
mod tests;
mod worker;

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use grpo_core::Metrics;
use serde::{Deserialize, Serialize};

use super::values::{evaluation_values, values};
use super::{Observer, RunEnd, RunInfo, StepRecord};
use crate::error::{Error, Result};
use server::{Server, now_ms};
use worker::{Kind, Message, Values, Worker};

/// Which server, and what the run is called there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MlflowConfig {
    /// The server's address, such as `http://localhost:5000`.
    pub uri: String,
    /// The experiment, which is made if the server does not have it.
    pub experiment: String,
    /// The run's name. `None`: the server finds one.
    pub run_name: Option<String>,
    /// Seconds that a request may take.
    pub timeout: f64,
}

impl Default for MlflowConfig {
    fn default() -> Self {
        Self { uri: "http://localhost:5000".to_owned(), experiment: "grpo".to_owned(), run_name: None, timeout: 5.0 }
    }
}

impl MlflowConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// An address that is not `http://HOST…` or `https://HOST…`; a time limit that is not above 0.
    pub fn validate(&self) -> Result<()> {
        let host = self.uri.strip_prefix("http://").or_else(|| self.uri.strip_prefix("https://"));
        if host.is_none_or(|host| host.starts_with(['/', ':']) || host.is_empty() || host.contains(char::is_whitespace)) {
            return Err(Error::invalid("MLflow uri", format!("`{}`, must be http:// or https:// and a host", self.uri)));
        }
        if !(self.timeout.is_finite() && self.timeout > 0.0) {
            return Err(Error::invalid("MLflow timeout", format!("{} s, must be above 0", self.timeout)));
        }
        Ok(())
    }
}

/// What did not reach the server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct MlflowFailures {
    /// Requests that failed.
    pub requests: u64,
    /// Values that were given up.
    pub values_lost: u64,
    /// What the last failing request met.
    pub last: Option<String>,
}

/// Sends every metric to an MLflow server by its REST interface (`runs/log-batch`), and the configuration as parameters.
///
/// A thread of its own does it: a server that is slow or away never slows or stops training. What it refuses or misses is told by
/// `tracing::warn!`, counted ([`failures`](Self::failures)), written to `mlflow.json`, and tried again with what comes later.
/// A run that goes on goes on there, too: `mlflow.json` knows its id and what was sent, so that no value is sent twice.
///
/// The environment variable `MLFLOW_TRACKING_TOKEN`, if set, is sent as a bearer token.
#[derive(Debug)]
pub struct Mlflow {
    config: MlflowConfig,
    state: PathBuf,
    failures: Arc<Mutex<MlflowFailures>>,
    thread: Option<(Sender<Message>, JoinHandle<()>)>,
}

impl Mlflow {
    /// `folder` is the run's; `mlflow.json` is kept there.
    ///
    /// # Errors
    /// An address that is not HTTP; a time limit that is not above 0; a folder that cannot be made.
    pub fn new(folder: impl Into<PathBuf>, config: MlflowConfig) -> Result<Self> {
        config.validate()?;
        let folder = folder.into();
        std::fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
        Ok(Self { config, state: folder.join("mlflow.json"), failures: Arc::default(), thread: None })
    }

    /// What did not reach the server so far.
    pub fn failures(&self) -> MlflowFailures {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn send(&self, kind: Kind, step: u64, values: Vec<(String, f64)>) {
        if let Some((thread, _)) = &self.thread {
            // It listens until the end of the run.
            let _ = thread.send(Message::Values(Values { kind, step, time: now_ms(), values }));
        }
    }
}

impl Observer for Mlflow {
    fn name(&self) -> &str {
        "mlflow"
    }

    fn on_start(&mut self, run: &RunInfo) -> Result<()> {
        let token = std::env::var("MLFLOW_TRACKING_TOKEN").ok();
        let server = Server::new(&self.config.uri, Duration::from_secs_f64(self.config.timeout), token);
        let worker = Worker::new(server, self.config.clone(), self.state.clone(), run, Arc::clone(&self.failures));
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("mlflow".to_owned()).spawn(move || worker.run(&receiver));
        self.thread = Some((sender, thread.map_err(Error::io(&self.state))?));
        Ok(())
    }

    fn on_step(&mut self, record: &StepRecord) -> Result<()> {
        self.send(Kind::Step, record.step, values(record));
        Ok(())
    }

    fn on_evaluation(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        self.send(Kind::Evaluation, step, evaluation_values(metrics));
        Ok(())
    }

    fn on_end(&mut self, _step: u64, end: RunEnd) -> Result<()> {
        if let Some((sender, thread)) = self.thread.take() {
            // An interrupted run goes on later, so it is not at its end there.
            let status = if end == RunEnd::Interrupted { "RUNNING" } else { "FINISHED" };
            let _ = sender.send(Message::End(status));
            let _ = thread.join(); // at most the time limit of a request or two
        }
        Ok(())
    }
}
