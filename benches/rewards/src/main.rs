//! Times every verdict case: `cargo run --release -p grpo-bench-rewards -- testdata/reward-cases/verdict.jsonl [--json]`.
//!
//! `benches/rewards/compare.py` runs it and math-verify over the same cases, one after the other, and prints the ratio.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use grpo_rewards::math::{MathAnswer, Search};
use serde_json::{Value, json};

/// How often each case is timed.
const ROUNDS: usize = 51;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: grpo-bench-rewards CASES.jsonl [--json]");
        return ExitCode::from(2);
    };
    let as_json = arguments.any(|a| a == "--json");
    match timed(&path) {
        Ok(times) if times.is_empty() => ExitCode::FAILURE,
        Ok(times) => {
            show(&times, as_json);
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("grpo-bench-rewards: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Each case's id, the median of its times, and all of them.
fn timed(path: &str) -> Result<Vec<(String, Duration, Vec<Duration>)>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let case: Value = serde_json::from_str(line).map_err(|e| format!("{path}, line {}: {e}", index + 1))?;
        let field = |name: &str| case.get(name).and_then(Value::as_str);
        // Cases of other rules, and those whose texts are given in parts, are left out.
        let other_rule = ["choices", "extract", "compare", "tolerance"].iter().any(|p| case.pointer(&format!("/params/{p}")).is_some());
        let (Some(id), Some(gold), Some(output), false) = (field("id"), field("gold"), field("output"), other_rule) else { continue };
        let math = MathAnswer::new(if case.pointer("/params/bare").is_some() { Search::Whole } else { Search::Anywhere });
        let mut times: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                let verdict = std::hint::black_box(math.check(std::hint::black_box(gold), std::hint::black_box(output)));
                let taken = start.elapsed();
                drop(verdict);
                taken
            })
            .collect();
        times.sort_unstable();
        all.push((id.to_owned(), times[ROUNDS / 2], times));
    }
    Ok(all)
}

fn show(times: &[(String, Duration, Vec<Duration>)], as_json: bool) {
    let micros = |d: Duration| d.as_secs_f64() * 1e6;
    let mut every: Vec<Duration> = times.iter().flat_map(|(_, _, all)| all.iter().copied()).collect();
    every.sort_unstable();
    let at = |share: f64| micros(every[((every.len() - 1) as f64 * share) as usize]);
    if as_json {
        let cases: serde_json::Map<String, Value> = times.iter().map(|(id, median, _)| (id.clone(), json!(micros(*median)))).collect();
        println!("{}", json!({"cases": cases, "median_us": at(0.5), "p99_us": at(0.99), "slowest_us": at(1.0)}));
        return;
    }
    println!(
        "{} cases, {ROUNDS} checks each: median {:.1} µs, 99th percentile {:.1} µs, slowest {:.1} µs",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let mut slowest: Vec<_> = times.iter().map(|(id, median, _)| (*median, id)).collect();
    slowest.sort_unstable_by(|a, b| b.cmp(a));
    for (median, id) in slowest.iter().take(5) {
        println!("  {:>9.1} µs  {id}", micros(*median));
    }
}
