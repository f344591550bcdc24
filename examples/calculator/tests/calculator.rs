//! Runs the example as a program.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

use serde_json::Value;

fn calculator(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_calculator")).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(String::from_utf8_lossy(&output.stdout).lines().last().unwrap()).unwrap()
}

#[test]
fn a_short_run_ends_with_a_figure() {
    let result = calculator(&["--steps", "2"]);
    assert!(result["accuracy"].as_f64().unwrap() <= 0.2, "{result}");
    assert!((0.0..=1.0).contains(&result["asked"].as_f64().unwrap()));
}

#[test]
#[ignore = "takes a minute or two"]
fn it_learns_to_ask_and_to_copy() {
    let result = calculator(&[]);
    assert!(result["asked"].as_f64().unwrap() > 0.9 && result["accuracy"].as_f64().unwrap() > 0.9, "{result}");
}
