//! The requests.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use ureq::Agent;

/// The most bytes of an answer that are read.
const MAX_ANSWER: u64 = 1 << 20;

/// A server, and how it is spoken to.
pub struct Server {
    base: String,
    agent: Agent,
    token: Option<String>,
}

/// A request that brought nothing.
pub struct Failure {
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// What happened.
    pub problem: String,
}

impl Server {
    pub fn new(uri: &str, timeout: Duration, token: Option<String>) -> Self {
        let config = Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false).build();
        Self { base: format!("{}/api/2.0/mlflow", uri.trim_end_matches('/')), agent: config.into(), token }
    }

    /// The id of an experiment, which is made if there is none of that name.
    pub fn experiment(&self, name: &str) -> Result<String, Failure> {
        let url = format!("{}/experiments/get-by-name", self.base);
        let mut request = self.agent.get(&url).query("experiment_name", name);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        match answer(request.call()) {
            Ok(found) => text(&found, "/experiment/experiment_id"),
            Err(Failure { status: Some(404), .. }) => text(&self.post("experiments/create", &json!({ "name": name }))?, "/experiment_id"),
            Err(failure) => Err(failure),
        }
    }

    /// Makes a run, and returns its id.
    pub fn create_run(&self, experiment: &str, name: Option<&str>) -> Result<String, Failure> {
        let mut body = json!({ "experiment_id": experiment, "start_time": now_ms() });
        if let Some(name) = name {
            body["run_name"] = name.into();
        }
        text(&self.post("runs/create", &body)?, "/run/info/run_id")
    }

    /// Posts to an endpoint.
    pub fn post(&self, endpoint: &str, body: &Value) -> Result<Value, Failure> {
        let mut request = self.agent.post(format!("{}/{endpoint}", self.base)).header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        answer(request.send(body.to_string()))
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value, Failure> {
    let unreached = |error: ureq::Error| Failure { status: None, problem: error.to_string() };
    let mut response = response.map_err(unreached)?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_string().map_err(unreached)?;
    if !(200..=299).contains(&status) {
        let beginning: String = body.chars().take(200).collect();
        return Err(Failure { status: Some(status), problem: format!("status {status}: {beginning}") });
    }
    // Some endpoints answer with nothing at all.
    Ok(serde_json::from_str(&body).unwrap_or_default())
}

fn text(answer: &Value, at: &str) -> Result<String, Failure> {
    let found = answer.pointer(at).and_then(Value::as_str).map(str::to_owned);
    found.ok_or_else(|| Failure { status: None, problem: format!("an answer without {at}") })
}
