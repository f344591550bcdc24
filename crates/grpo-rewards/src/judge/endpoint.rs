//! The endpoint: requests with timeouts, retries and a cap on how many run at once.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

/// Who says something to the judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Speaker {
    /// The instructions.
    System,
    /// What is to be judged.
    User,
    /// An earlier answer of the judge's.
    Assistant,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub speaker: Speaker,
    /// What is said.
    pub text: String,
}

impl Message {
    /// Instructions.
    pub fn system(text: impl Into<String>) -> Self {
        Self { speaker: Speaker::System, text: text.into() }
    }
    /// Something to judge.
    pub fn user(text: impl Into<String>) -> Self {
        Self { speaker: Speaker::User, text: text.into() }
    }
}

/// Why a judge gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgeError {
    /// No answer in time, or no connection, after all tries.
    #[error("no answer after {tries} tries: {last}")]
    Unreachable {
        /// How often it was tried.
        tries: u32,
        /// What the last try met.
        last: String,
    },
    /// The endpoint refused the request.
    #[error("status {status}: {text}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The beginning of what it said.
        text: String,
    },
    /// The answer does not have the expected form.
    #[error("an answer without {what}: {text}")]
    Malformed {
        /// What is missing.
        what: &'static str,
        /// The beginning of the answer.
        text: String,
    },
}

/// An endpoint that speaks `POST {base}/chat/completions`: vLLM, SGLang, llama.cpp's server, OpenAI.
///
/// Tried again after a growing pause: timeouts, broken connections, and the statuses 408, 409, 429 and 5xx; a `Retry-After` in seconds is kept
/// to. Other statuses are final. At most so many requests run at once; further ones wait.
///
/// ```
/// use std::time::Duration;
/// use grpo_rewards::judge::Endpoint;
/// let judge = Endpoint::new("http://localhost:8000/v1", "judge-7b")?.timeout(Duration::from_secs(30)).tries(4).at_once(8);
/// # Ok::<(), grpo_core::Error>(())
/// ```
pub struct Endpoint {
    url: String,
    model: String,
    key: Option<String>,
    timeout: Duration,
    tries: u32,
    pause: Duration,
    temperature: f64,
    max_tokens: u32,
    at_once: usize,
    running: Mutex<usize>,
    freed: Condvar,
    jitter: RandomState,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.url)
            .field("model", &self.model)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

/// The longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The most bytes of an answer that are read.
const MAX_ANSWER: u64 = 4 << 20;

impl Endpoint {
    /// An endpoint by its base address (up to and with `/v1`) and a model's name: 60 s for an answer, 3 tries, 16 requests at once, temperature 0, 1024 tokens.
    ///
    /// # Errors
    /// An address that does not begin with `http://` or `https://`.
    pub fn new(base: impl Into<String>, model: impl Into<String>) -> Result<Self, grpo_core::Error> {
        let base = base.into();
        if !(base.starts_with("http://") || base.starts_with("https://")) {
            return Err(grpo_core::Error::config("judge address", base, "http:// or https://"));
        }
        Ok(Self {
            url: format!("{}/chat/completions", base.trim_end_matches('/')),
            model: model.into(),
            key: None,
            timeout: Duration::from_secs(60),
            tries: 3,
            pause: Duration::from_millis(500),
            temperature: 0.0,
            max_tokens: 1024,
            at_once: 16,
            running: Mutex::new(0),
            freed: Condvar::new(),
            jitter: RandomState::new(),
        })
    }

    /// Sets the key that is sent as a bearer token. It is never shown.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
    /// Sets the time that one try may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
    /// Sets how often a request is tried, at least once.
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries.max(1);
        self
    }
    /// Sets the pause after the first try; it doubles with each further one.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }
    /// Sets how many requests run at once, at least one.
    pub fn at_once(mut self, requests: usize) -> Self {
        self.at_once = requests.max(1);
        self
    }
    /// Sets the judge's temperature.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = temperature;
        self
    }
    /// Sets how many tokens an answer may have.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Asks, and waits for the answer's text.
    ///
    /// # Errors
    /// No answer after all tries, a refusal, an answer in another form.
    pub fn ask(&self, messages: &[Message]) -> Result<String, JudgeError> {
        let messages: Vec<Value> = messages.iter().map(|m| json!({"role": role(m.speaker), "content": m.text})).collect();
        let body =
            json!({"model": self.model, "messages": messages, "temperature": self.temperature, "max_tokens": self.max_tokens}).to_string();
        let _turn = self.turn();
        let mut last = String::new();
        for attempt in 0..self.tries {
            match self.once(&body) {
                Ok(text) => return read(&text),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Again { why, wait }) => {
                    last = why;
                    if attempt + 1 < self.tries {
                        std::thread::sleep(wait.unwrap_or_else(|| self.backoff(attempt)).min(MAX_PAUSE));
                    }
                }
            }
        }
        Err(JudgeError::Unreachable { tries: self.tries, last })
    }

    /// pause · 2^attempt, and up to half as much again, so that many that failed together do not come back together.
    fn backoff(&self, attempt: u32) -> Duration {
        let base = self.pause.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(MAX_PAUSE);
        let share = (self.jitter.hash_one((attempt, std::thread::current().id())) % 1000) as f64 / 2000.0;
        base + base.mul_f64(share)
    }

    fn once(&self, body: &str) -> Result<String, Failure> {
        let config = Agent::config_builder().timeout_global(Some(self.timeout)).http_status_as_error(false).build();
        let agent: Agent = config.into();
        let mut request = agent.post(&self.url).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let again = |why: String| Failure::Again { why, wait: None };
        let mut response = request.send(body).map_err(|e| again(e.to_string()))?;
        let status = response.status().as_u16();
        let wait = response
            .headers()
            .get("retry-after")
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.trim().parse().ok())
            .map(Duration::from_secs);
        let text = response.body_mut().with_config().limit(MAX_ANSWER).read_to_string().map_err(|e| again(e.to_string()))?;
        match status {
            200..=299 => Ok(text),
            408 | 409 | 429 | 500..=599 => Err(Failure::Again { why: format!("status {status}: {}", beginning(&text)), wait }),
            _ => Err(Failure::Final(JudgeError::Refused { status, text: beginning(&text) })),
        }
    }

    /// Waits until fewer than the cap are running.
    fn turn(&self) -> Turn<'_> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while *running >= self.at_once {
            running = self.freed.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
        Turn { endpoint: self }
    }
}

/// One of the requests that run.
struct Turn<'a> {
    endpoint: &'a Endpoint,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.endpoint.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.endpoint.freed.notify_one();
    }
}

enum Failure {
    Again { why: String, wait: Option<Duration> },
    Final(JudgeError),
}

fn role(speaker: Speaker) -> &'static str {
    match speaker {
        Speaker::System => "system",
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(200).collect()
}

fn read(text: &str) -> Result<String, JudgeError> {
    let malformed = |what| JudgeError::Malformed { what, text: beginning(text) };
    let answer: Value = serde_json::from_str(text).map_err(|_| malformed("JSON"))?;
    let content = answer.pointer("/choices/0/message/content").and_then(Value::as_str);
    content.map(str::to_owned).ok_or_else(|| malformed("choices[0].message.content"))
}
