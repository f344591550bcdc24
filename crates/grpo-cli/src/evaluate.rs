//! `grpo eval`.

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::args::EvalArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::train::{Ready, of_run};

/// Answers held-out prompts, and says what the answers were worth.
pub fn run(args: &EvalArgs) -> Result<ExitCode, Failure> {
    let is_run = args.of.is_dir();
    let mut config = if is_run { of_run(&args.of)?.0 } else { Config::load(&args.of)?.0 };
    if config.data.test.is_none() {
        return Err(Failure::input("no held-out prompts: set `test` in [data]"));
    }
    config.data.test_limit = args.limit.map(|limit| limit as usize).or(config.data.test_limit);
    let evaluation = &mut config.train.evaluation;
    if let Some(samples) = args.samples {
        evaluation.samples = samples;
        evaluation.k.retain(|k| *k <= samples);
    }
    if let Some(most) = args.k.iter().max() {
        evaluation.k.clone_from(&args.k);
        evaluation.samples = args.samples.unwrap_or(evaluation.samples.max(*most));
    }
    config.train.validate().map_err(Failure::input)?;

    let Ready { mut trainer, policy, .. } = Ready::new(config)?;
    let (policy, step) = if is_run { trainer.load(policy).map_err(Failure::input)? } else { (policy, 0) };
    let metrics = trainer.evaluate(&policy).map_err(Failure::run)?;
    if args.json {
        let mut line: Map<String, Value> = metrics.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        line.insert("step".to_owned(), json!(step));
        say!("{}", Value::Object(line));
        return Ok(ExitCode::SUCCESS);
    }
    say!("{}, after {step} steps", args.of.display());
    for (name, value) in metrics.iter().filter(|(name, _)| !name.ends_with("/low") && !name.ends_with("/high")) {
        let bound = |end: &str| metrics.get(&format!("{name}/{end}"));
        let interval = bound("low").zip(bound("high")).map_or(String::new(), |(low, high)| format!("  ({low:.3} to {high:.3})"));
        say!("{name:<32} {value:.3}{interval}");
    }
    Ok(ExitCode::SUCCESS)
}
