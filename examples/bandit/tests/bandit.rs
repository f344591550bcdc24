//! Runs the example as a program.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Output};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/vectors/bandit.json");

fn bandit(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bandit")).args(arguments).output().unwrap()
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn the_reference_numbers_are_met() {
    let output = bandit(&["--check", VECTORS]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(last_line(&output), "3 passed, 0 failed, 60 updates");
}

#[test]
fn a_number_that_is_off_by_a_millionth_is_noticed() {
    let mut numbers: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(VECTORS).unwrap()).unwrap();
    let gradient = &mut numbers["cases"][1]["steps"][19]["grad"][3];
    *gradient = (gradient.as_f64().unwrap() + 1e-6).into();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bandit-off.json");
    std::fs::write(&file, numbers.to_string()).unwrap();
    let output = bandit(&["--check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(last_line(&output), "2 passed, 1 failed, 60 updates");
}

#[test]
fn the_target_wins_for_five_seeds() {
    for seed in ["1", "2", "3", "4", "5"] {
        let output = bandit(&["--seed", seed, "--json"]);
        assert!(output.status.success(), "{output:?}");
        let result: serde_json::Value = serde_json::from_str(&last_line(&output)).unwrap();
        assert_eq!(result["target_wins"], true, "{result}");
        assert!(result["probability_before"].as_f64().unwrap() < 0.3, "{result}");
        assert!(result["probability_after"].as_f64().unwrap() > 0.5, "{result}");
    }
}

#[test]
fn a_seed_gives_the_same_run_again_and_another_seed_another() {
    let run = |seed| last_line(&bandit(&["--rounds", "3", "--json", "--seed", seed]));
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}
