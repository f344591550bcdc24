//! Against a little server that keeps what it is sent, and fails when it is told to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use grpo_core::Normaliser;
use serde_json::{Value, json};

use super::*;

/// What the server has: each request's path and body.
#[derive(Default)]
struct Kept {
    requests: Mutex<Vec<(String, Value)>>,
    /// How many requests are refused before one is taken.
    refuse: AtomicUsize,
}

impl Kept {
    /// All metrics, in the order they came: name, value, step.
    fn metrics(&self) -> Vec<(String, Value, u64)> {
        let requests = self.requests.lock().unwrap();
        let lists = requests.iter().filter_map(|(_, body)| body["metrics"].as_array());
        lists.flatten().map(|m| (m["key"].as_str().unwrap().to_owned(), m["value"].clone(), m["step"].as_u64().unwrap())).collect()
    }

    fn paths(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }
}

fn serve() -> (String, Arc<Kept>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let kept = Arc::new(Kept::default());
    let server = Arc::clone(&kept);
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, &server)));
    (address, kept)
}

fn answer(mut stream: TcpStream, kept: &Kept) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).unwrap();
    while reader.read_line(&mut line).unwrap_or(0) > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = first.split(' ').nth(1).unwrap().trim_start_matches("/api/2.0/mlflow/").to_owned();
    let refused = kept.refuse.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
    let (status, text) = match path.as_str() {
        _ if refused => (503, "busy".to_owned()),
        p if p.starts_with("experiments/get-by-name") => (404, json!({ "error_code": "RESOURCE_DOES_NOT_EXIST" }).to_string()),
        "experiments/create" => (200, json!({ "experiment_id": "7" }).to_string()),
        "runs/create" => (200, json!({ "run": { "info": { "run_id": "abc" } } }).to_string()),
        _ => (200, "{}".to_owned()),
    };
    if status != 503 {
        kept.requests.lock().unwrap().push((path, serde_json::from_slice(&body).unwrap_or_default()));
    }
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}", text.len()).unwrap();
}

fn started(folder: &std::path::Path, uri: &str, first_step: u64) -> Mlflow {
    let config = MlflowConfig { uri: uri.to_owned(), timeout: 2.0, ..MlflowConfig::default() };
    let mut mlflow = Mlflow::new(folder, config).unwrap();
    let config = json!({ "seed": 1, "loss": { "kl": { "coefficient": 0.04 } }, "none": null });
    mlflow.on_start(&RunInfo { first_step, steps: 9, config }).unwrap();
    mlflow
}

fn step(step: u64, value: f64) -> StepRecord {
    let mut metrics = Metrics::default();
    metrics.extreme("rewards/exact=1/mean", value, Normaliser::Max);
    StepRecord { step, metrics, stages: Vec::new(), tokens: 4 }
}

#[test]
fn a_run_is_made_and_gets_its_parameters_its_metrics_and_its_end() {
    let (uri, kept) = serve();
    let folder = tempfile::tempdir().unwrap();
    let mut mlflow = started(folder.path(), &uri, 0);
    mlflow.on_step(&step(0, 0.5)).unwrap();
    mlflow.on_step(&step(1, f64::NAN)).unwrap();
    mlflow.on_end(2, RunEnd::Finished).unwrap();
    assert_eq!(mlflow.failures(), MlflowFailures::default());
    let expected = [
        ("rewards/exact_1/mean".to_owned(), json!(0.5), 0),
        ("tokens".to_owned(), json!(4.0), 0),
        ("rewards/exact_1/mean".to_owned(), json!("NaN"), 1),
        ("tokens".to_owned(), json!(4.0), 1),
    ];
    assert_eq!(kept.metrics(), expected);
    let requests = kept.requests.lock().unwrap();
    let params = requests.iter().find_map(|(_, body)| body.get("params")).unwrap();
    let mut pairs: Vec<_> = params.as_array().unwrap().iter().map(|p| (p["key"].as_str().unwrap(), p["value"].as_str().unwrap())).collect();
    pairs.sort_unstable();
    assert_eq!(pairs, [("loss.kl.coefficient", "0.04"), ("seed", "1")]);
    let (path, end) = requests.last().unwrap();
    assert_eq!((path.as_str(), &end["status"], &end["run_id"]), ("runs/update", &json!("FINISHED"), &json!("abc")));
}

#[test]
fn what_a_busy_server_refuses_is_counted_and_sent_again() {
    let (uri, kept) = serve();
    kept.refuse.store(1, Ordering::SeqCst);
    let folder = tempfile::tempdir().unwrap();
    let mut mlflow = started(folder.path(), &uri, 0);
    mlflow.on_step(&step(0, 0.5)).unwrap();
    mlflow.on_end(1, RunEnd::Finished).unwrap();
    let failures = mlflow.failures();
    assert_eq!((failures.requests, failures.values_lost), (1, 0));
    assert!(failures.last.unwrap().contains("503"));
    assert_eq!(kept.metrics().len(), 2, "both values came with the second try");
}

#[test]
fn a_server_that_is_away_costs_nothing_but_a_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut mlflow = started(folder.path(), "http://127.0.0.1:9", 0);
    mlflow.on_step(&step(0, 0.5)).unwrap();
    mlflow.on_end(1, RunEnd::Finished).unwrap();
    let failures = mlflow.failures();
    assert!(failures.requests >= 1 && failures.values_lost == 2, "{failures:?}");
    let told: Value = serde_json::from_str(&std::fs::read_to_string(folder.path().join("mlflow.json")).unwrap()).unwrap();
    assert_eq!(told["failures"]["values_lost"], 2);
}

#[test]
fn a_resumed_run_goes_on_in_the_same_run_and_sends_no_step_twice() {
    let (uri, kept) = serve();
    let folder = tempfile::tempdir().unwrap();
    let mut mlflow = started(folder.path(), &uri, 0);
    (0..4).for_each(|at| mlflow.on_step(&step(at, 0.5)).unwrap());
    mlflow.on_end(4, RunEnd::Interrupted).unwrap();
    // The last checkpoint was before step 2.
    let mut mlflow = started(folder.path(), &uri, 2);
    mlflow.on_resume(2).unwrap();
    (2..6).for_each(|at| mlflow.on_step(&step(at, 0.5)).unwrap());
    mlflow.on_end(6, RunEnd::Finished).unwrap();
    let steps: Vec<u64> = kept.metrics().iter().filter(|(name, ..)| name == "tokens").map(|(.., step)| *step).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4, 5]);
    assert_eq!(kept.paths().iter().filter(|path| *path == "runs/create").count(), 1);
}

#[test]
fn an_address_that_is_not_http_is_refused() {
    let config = MlflowConfig { uri: "localhost:5000".to_owned(), ..MlflowConfig::default() };
    let folder = tempfile::tempdir().unwrap();
    assert!(Mlflow::new(folder.path(), config).unwrap_err().to_string().contains("localhost:5000"));
}
