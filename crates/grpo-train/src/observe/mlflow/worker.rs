//! The thread that sends.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::server::{Failure, Server, now_ms};
use super::{MlflowConfig, MlflowFailures, RunInfo};
use crate::observe::lines::replace;

/// The most metrics in a request, and the most parameters: the server's limits.
const METRICS: usize = 1000;
const PARAMS: usize = 100;
/// The longest value of a parameter that every server takes, in characters.
const PARAM_LENGTH: usize = 500;
/// How many steps wait for a server that is away before the oldest are given up.
const WAITING: usize = 10_000;
/// The pause after a failed request.
const PAUSE: Duration = Duration::from_secs(2);

/// What the thread is told.
pub enum Message {
    /// Values of a step.
    Values(Values),
    /// The run is over, with this status.
    End(&'static str),
}

/// The values of a step or an evaluation.
pub struct Values {
    pub kind: Kind,
    pub step: u64,
    pub time: u64,
    pub values: Vec<(String, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Step,
    Evaluation,
}

/// What is remembered in `mlflow.json`.
#[derive(Serialize, Deserialize, Default)]
struct State {
    uri: String,
    run_id: String,
    /// The first step that was not sent, and the first step whose evaluation was not.
    next_step: u64,
    next_evaluation: u64,
    #[serde(skip_deserializing)]
    failures: MlflowFailures,
}

pub struct Worker {
    server: Server,
    config: MlflowConfig,
    path: PathBuf,
    params: Vec<(String, String)>,
    failures: Arc<Mutex<MlflowFailures>>,
    /// The run at the server, as soon as it is known.
    state: Option<State>,
    waiting: VecDeque<Values>,
    pause_until: Option<Instant>,
}

impl Worker {
    pub fn new(server: Server, config: MlflowConfig, path: PathBuf, run: &RunInfo, failures: Arc<Mutex<MlflowFailures>>) -> Self {
        // A run that goes on goes on at the server; a new one is a new one there.
        let known = (run.first_step > 0).then(|| std::fs::read(&path).ok()).flatten();
        let state = known.and_then(|bytes| serde_json::from_slice(&bytes).ok()).filter(|state: &State| state.uri == config.uri);
        let mut params = Vec::new();
        flatten("", &run.config, &mut params);
        Self { server, config, path, params, failures, state, waiting: VecDeque::new(), pause_until: None }
    }

    /// Until the end of the run.
    pub fn run(mut self, messages: &Receiver<Message>) {
        loop {
            match messages.recv_timeout(PAUSE) {
                Ok(Message::Values(values)) => self.wait(values),
                Ok(Message::End(status)) => return self.end(status),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.pause_until.is_none_or(|until| Instant::now() >= until) {
                self.send();
            }
        }
    }

    fn wait(&mut self, values: Values) {
        self.waiting.push_back(values);
        if self.waiting.len() > WAITING {
            let lost = self.waiting.pop_front().map_or(0, |oldest| oldest.values.len());
            self.lost(lost);
        }
    }

    /// Sends all that waits, or as much as the server takes.
    fn send(&mut self) {
        while !self.waiting.is_empty() {
            if let Err(failure) = self.send_some() {
                self.failed(&failure);
                return;
            }
        }
    }

    /// One request.
    fn send_some(&mut self) -> Result<(), Failure> {
        let state = match &mut self.state {
            Some(state) => state,
            none => {
                let experiment = self.server.experiment(&self.config.experiment)?;
                let run_id = self.server.create_run(&experiment, self.config.run_name.as_deref())?;
                none.insert(State { uri: self.config.uri.clone(), run_id, ..State::default() })
            }
        };
        while !self.params.is_empty() {
            let some = self.params.len().min(PARAMS);
            let params: Vec<Value> = self.params.iter().take(some).map(|(key, value)| json!({ "key": key, "value": value })).collect();
            self.server.post("runs/log-batch", &json!({ "run_id": state.run_id, "params": params }))?;
            self.params.drain(..some);
        }
        let (mut metrics, mut taken) = (Vec::new(), 0);
        for values in &self.waiting {
            if taken > 0 && metrics.len() + values.values.len() > METRICS {
                break;
            }
            taken += 1;
            let next = if values.kind == Kind::Step { &mut state.next_step } else { &mut state.next_evaluation };
            // Steps that come again after a crash are there already, with the same values.
            if values.step >= *next {
                metrics.extend(values.values.iter().take(METRICS).map(
                    |(name, value)| json!({ "key": key(name), "value": number(*value), "timestamp": values.time, "step": values.step }),
                ));
            }
        }
        if !metrics.is_empty() {
            self.server.post("runs/log-batch", &json!({ "run_id": state.run_id, "metrics": metrics }))?;
        }
        for values in self.waiting.drain(..taken) {
            let next = if values.kind == Kind::Step { &mut state.next_step } else { &mut state.next_evaluation };
            *next = (*next).max(values.step + 1);
        }
        self.remember();
        Ok(())
    }

    fn end(mut self, status: &str) {
        self.send();
        if let Some(state) = &self.state
            && self.waiting.is_empty()
        {
            let mut body = json!({ "run_id": state.run_id, "status": status });
            if status == "FINISHED" {
                body["end_time"] = now_ms().into();
            }
            if let Err(failure) = self.server.post("runs/update", &body) {
                self.failed(&failure);
            }
        }
        let lost = self.waiting.iter().map(|values| values.values.len()).sum();
        self.lost(lost);
        self.remember();
    }

    fn failed(&mut self, failure: &Failure) {
        self.pause_until = Some(Instant::now() + PAUSE);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.requests += 1;
        failures.last = Some(failure.problem.clone());
        // Each doubling: an hour without a server is told a dozen times, not a thousand.
        if failures.requests.is_power_of_two() {
            tracing::warn!("MLflow at {}: {} (failure {})", self.config.uri, failure.problem, failures.requests);
        }
    }

    fn lost(&mut self, values: usize) {
        if values > 0 {
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).values_lost += values as u64;
            tracing::warn!("MLflow at {}: {values} values were given up", self.config.uri);
        }
    }

    /// Best effort: without the file, a resumed run is a new one at the server.
    fn remember(&mut self) {
        let state = self.state.get_or_insert_with(State::default);
        if state.uri.is_empty() {
            state.uri = self.config.uri.clone();
        }
        state.failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Ok(text) = serde_json::to_string_pretty(state)
            && let Err(error) = replace(&self.path, text.as_bytes())
        {
            tracing::warn!("{error}");
        }
        if state.run_id.is_empty() {
            self.state = None;
        }
    }
}

/// Nested settings as parameters: `loss.kl.coefficient`.
fn flatten(prefix: &str, value: &Value, params: &mut Vec<(String, String)>) {
    let text = match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, field, params);
            }
            return;
        }
        Value::Null => return,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    params.push((key(prefix), text.chars().take(PARAM_LENGTH).collect()));
}

/// A name with the characters that the server takes.
fn key(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-. /".contains(c) { c } else { '_' }).take(250).collect()
}

/// JSON has no NaN; the server takes these words.
fn number(value: f64) -> Value {
    match value {
        v if v.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        v => v.into(),
    }
}
