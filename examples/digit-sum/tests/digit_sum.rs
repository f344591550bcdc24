//! Runs the example as a program.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs it with `--json` and gives the last line.
fn digit_sum(out: &Path, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_digit-sum")).args(arguments).arg("--json").arg("--out").arg(out).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(String::from_utf8_lossy(&output.stdout).lines().last().unwrap()).unwrap()
}

fn metrics(out: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_short_run_leaves_a_line_a_step_and_the_curves() {
    let out = folder("short");
    let result = digit_sum(&out, &["--steps", "3"]);
    assert!(result["accuracy_before"].as_f64().unwrap() <= 0.1, "{result}");
    assert!(result["held_out"].as_u64().unwrap() >= 1000);
    assert!(result["copy_accuracy"].as_f64().unwrap() < 0.1 && result["constant_accuracy"].as_f64().unwrap() < 0.1, "{result}");
    let steps = metrics(&out);
    assert_eq!(steps.iter().map(|s| s["step"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    for name in ["loss", "reward", "reward_std", "kl", "entropy", "grad_norm", "rewards/exact/mean", "completions/mean_length"] {
        assert!(steps.iter().all(|step| step[name].is_f64()), "{name}: {steps:?}");
    }
    // The reference is the policy as it started, scored by the same code on the same batch.
    assert_eq!(steps[0]["kl"], 0.0);
    let curves = std::fs::read_to_string(out.join("curves.svg")).unwrap();
    assert!(curves.matches("<polyline").count() >= 3, "{curves}");
    assert!(["reward", "KL", "entropy"].iter().all(|title| curves.contains(title)));
}

#[test]
fn a_seed_gives_the_same_run_again_and_another_seed_another() {
    let run = |name: &str, seed| {
        let out = folder(name);
        digit_sum(&out, &["--steps", "2", "--seed", seed]);
        metrics(&out)
    };
    assert_eq!(run("seed-7", "7"), run("seed-7-again", "7"));
    assert_ne!(run("seed-7", "7"), run("seed-8", "8"));
}

/// What is compiled in besides flex.
fn others() -> impl Iterator<Item = &'static str> {
    [("ndarray", cfg!(feature = "ndarray")), ("tch", cfg!(feature = "tch")), ("wgpu", cfg!(feature = "wgpu"))]
        .into_iter()
        .filter_map(|(name, there)| there.then_some(name))
}

#[test]
fn twenty_steps_give_the_same_weights_again_in_every_bit() {
    // A graphics adapter may add up in another order each time.
    for device in ["flex"].into_iter().chain(others()).filter(|name| *name != "wgpu") {
        let run = |steps: &str, name: &str| {
            let result = digit_sum(&folder(&format!("bits-{device}-{name}")), &["--steps", steps, "--device", device]);
            result["weights"].as_str().unwrap().to_owned()
        };
        let first = run("20", "first");
        assert_eq!(first, run("20", "again"), "{device}");
        assert_ne!(first, run("19", "shorter"), "{device}");
    }
}

#[test]
fn the_first_steps_are_those_of_flex_on_every_backend() {
    let steps = |device: &str| {
        let out = folder(&format!("first-steps-{device}"));
        digit_sum(&out, &["--steps", "3", "--device", device]);
        metrics(&out)
    };
    let want = steps("flex");
    for device in others() {
        for (got, want) in steps(device).iter().zip(&want) {
            for name in ["loss", "kl", "entropy", "grad_norm", "reward"] {
                let (got, want) = (got[name].as_f64().unwrap(), want[name].as_f64().unwrap());
                assert!((got - want).abs() <= 2e-3 * want.abs().max(0.1), "{device}: {name} is {got}, on flex {want}");
            }
        }
    }
}

#[test]
fn the_same_weights_give_the_same_greedy_answers_on_every_backend() {
    let learnt = folder("learnt");
    digit_sum(&learnt, &["--steps", "60"]);
    let model = learnt.join("model");
    let answers = |device: &str| -> Vec<Value> {
        let out = folder(&format!("answers-{device}"));
        digit_sum(&out, &["--steps", "0", "--load", model.to_str().unwrap(), "--device", device]);
        let text = std::fs::read_to_string(out.join("answers.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let want = answers("flex");
    assert_eq!(want.len(), 2000);
    for device in others() {
        let (got, mut ties) = (answers(device), 0);
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(&want) {
            let text = |answer: &Value| answer["answer"].as_str().unwrap().to_owned();
            let Some(at) = text(got).chars().zip(text(want).chars()).position(|(g, w)| g != w) else {
                assert_eq!(text(got).len(), text(want).len(), "{device}");
                continue;
            };
            // Two tokens may be equally likely up to rounding. What follows another token is another answer.
            let log_prob = |answer: &Value| answer["log_probs"][at].as_f64().unwrap();
            let gap = (log_prob(got) - log_prob(want)).abs();
            println!("tie on {device}: {} {} in place of {}, {gap:.1e} apart", want["question"], text(got), text(want));
            assert!(gap < 1e-4, "{device}: {got}, on flex {want}");
            ties += 1;
        }
        println!("{device}: {} answers equal, {ties} ties", got.len() - ties);
    }
}

#[test]
fn without_a_leash_no_reference_is_asked() {
    let out = folder("no-leash");
    digit_sum(&out, &["--steps", "1", "--beta", "0"]);
    assert!(metrics(&out)[0].get("kl").is_none());
}

#[test]
#[ignore = "slow: a whole run, about a minute on two cores"]
fn without_a_leash_it_settles_for_the_best_guess() {
    let result = digit_sum(&folder("whole-no-leash"), &["--seed", "1", "--beta", "0"]);
    assert!(result["accuracy_after"].as_f64().unwrap() <= 0.1, "{result}");
}

#[test]
#[ignore = "slow: a whole run, about a minute on two cores"]
fn a_whole_run_learns_to_add() {
    let result = digit_sum(&folder("whole"), &["--seed", "1"]);
    assert!(result["accuracy_before"].as_f64().unwrap() <= 0.1, "{result}");
    assert!(result["accuracy_after"].as_f64().unwrap() >= 0.9, "{result}");
    assert!(result["seconds"].as_f64().unwrap() <= 180.0, "{result}");
}
