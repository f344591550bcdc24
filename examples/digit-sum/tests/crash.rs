//! The trainer's run of digit-sum is killed at random moments, and ends as if it never was.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../crates/grpo-train/tests/it/files.rs"]
mod files;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt;
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn spawn(out: &Path, steps: u64) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_digit-sum-trainer"));
    command.args(["--every", "1", "--resume", "--steps", &steps.to_string()]).arg("--out").arg(out);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Every line but its times.
fn metrics(out: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Map<_, _>>(line).unwrap());
    lines
        .map(|mut line| {
            line.retain(|name, _| name != "step_time" && !name.starts_with("time/"));
            Value::Object(line)
        })
        .collect()
}

fn survives(steps: u64, kills: u32) {
    let (whole, out) = (folder(&format!("whole-{kills}")), folder(&format!("killed-{kills}")));
    let start = Instant::now();
    assert!(spawn(&whole, steps).wait().unwrap().success());
    let seconds = start.elapsed().as_secs_f64();
    let mut rng = grpo_core::stream(u64::from(kills), 0);
    let mut killed = 0;
    for left in (1..=kills).rev() {
        let done = std::fs::read_to_string(out.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
        let seconds_left = seconds * (1.0 - done as f64 / steps as f64);
        let mut child = spawn(&out, steps);
        // A start, and then on average less than its share of what is left of the run, so that every kill can hit.
        let longest = (0.4 + 1.2 * seconds_left / f64::from(left)).min(0.7 * seconds);
        std::thread::sleep(Duration::from_secs_f64(rng.random::<f64>() * longest));
        killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
    }
    assert!(spawn(&out, steps).wait().unwrap().success());
    assert!(killed >= kills / 2, "{killed} of {kills} kills came before the end");
    println!("{killed} kills of a run of {steps} steps and {seconds:.0} s");
    assert_eq!(metrics(&out), metrics(&whole));
    let tensors = |out: &Path| files::tensors(&out.join("checkpoints"), steps);
    assert!(tensors(&out) == tensors(&whole), "weights or moments differ");
}

#[test]
fn a_short_run_survives_a_few_kills() {
    survives(6, 3);
}

#[test]
#[ignore = "takes minutes: scripts/crash-test.sh runs it"]
fn a_run_survives_fifty_kills() {
    survives(280, 50);
}

#[test]
fn the_trainer_gives_the_numbers_of_the_loop_by_hand() {
    let (by_hand, trained) = (folder("by-hand"), folder("by-trainer"));
    let loops = Command::new(env!("CARGO_BIN_EXE_digit-sum")).args(["--steps", "3"]).arg("--out").arg(&by_hand).output().unwrap();
    assert!(loops.status.success());
    assert!(spawn(&trained, 3).wait().unwrap().success());
    let (by_hand, trained) = (metrics(&by_hand), metrics(&trained));
    assert_eq!((by_hand.len(), trained.len()), (3, 3));
    for (bare, line) in by_hand.iter().zip(&trained) {
        bare.as_object().unwrap().iter().for_each(|(name, value)| assert_eq!(line.get(name), Some(value), "{name}"));
    }
}
