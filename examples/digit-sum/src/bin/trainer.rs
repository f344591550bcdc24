//! The run of `digit-sum`, through the trainer: the same numbers, and it may be killed at any moment.
//!
//! ```text
//! cargo run --release -p digit-sum --bin digit-sum-trainer                # Ctrl-C finishes the step, saves, and ends
//! cargo run --release -p digit-sum --bin digit-sum-trainer -- --resume    # goes on as if nothing had happened
//! ```

#[path = "../task.rs"]
#[allow(dead_code, reason = "the loop by hand uses all of it")]
mod task;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use grpo_core::{BoxError, GrpoConfig, KlPenalty, Rewards, SamplingParams, Schedule};
use grpo_lm::{Decoder, LmSampler};
use grpo_train::observe::{MetricsLog, Progress};
use grpo_train::{CheckpointConfig, Drawn, EvaluationConfig, Optimizer, Outcome, Resume, StopFlag, TrainConfig, Trainer};

/// A transformer learns to add, by GRPO alone, and loses nothing on the way.
#[derive(Parser, Debug)]
struct Args {
    /// Seed of the weights, the split, and all draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Optimiser steps.
    #[arg(long, default_value_t = 280)]
    steps: u64,
    /// A checkpoint after every so many steps.
    #[arg(long, default_value_t = 20)]
    every: u64,
    /// Go on from the newest checkpoint, if there is one.
    #[arg(long)]
    resume: bool,
    /// What computes: flex, ndarray, tch, tch:cuda:0, wgpu …; each but flex needs the Cargo feature of its name.
    #[arg(long, value_name = "DEVICE", default_value = "flex")]
    device: String,
    /// Where metrics.jsonl and checkpoints go.
    #[arg(long, default_value = "runs/digit-sum-trainer")]
    out: PathBuf,
}

const HELD_OUT: usize = 2000;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), BoxError> {
    let problems = task::problems(args.seed);
    let (held_out, train) = problems.split_at(HELD_OUT);
    let train = train.to_vec();
    let policy = Decoder::random(&task::model(), args.seed, &grpo_device::open(&args.device)?.autodiff())?;
    let config = TrainConfig {
        seed: args.seed,
        steps: args.steps,
        prompts: 96,
        group_size: 8,
        micro_tokens: 8192,
        sampling: SamplingParams { max_tokens: task::ANSWER, end_tokens: vec![task::END], ..SamplingParams::default() },
        grpo: GrpoConfig { kl: Some(KlPenalty::plain_k3(0.1)), ..GrpoConfig::default() },
        learning_rate: Schedule::Linear { peak: 3e-3, end: 3e-4, warmup_steps: 20, total_steps: args.steps.max(21) },
        checkpoints: Some(CheckpointConfig { every: args.every, ..CheckpointConfig::new(args.out.join("checkpoints")) }),
        evaluation: EvaluationConfig { right_from: 1.0, ..EvaluationConfig::default() },
        ..TrainConfig::default()
    };
    let optimizer = Optimizer::new(burn::optim::AdamWConfig::new().with_beta_2(0.95).with_epsilon(1e-8).with_weight_decay(0.0).build());
    let seed = args.seed;
    let prompts = Drawn::new(move |draw, count| task::draw(&train, count, seed, draw));
    let rewards = Rewards::new().with(1.0, task::Digits).with(0.0, task::Exact);

    // The first Ctrl-C asks; the second one does not wait.
    let (stop, asked) = (StopFlag::new(), StopFlag::new());
    let (flag, first) = (stop.clone(), asked.clone());
    ctrlc::set_handler(move || {
        if first.is_stopped() {
            std::process::exit(130);
        }
        first.stop();
        flag.stop();
    })?;
    let mut trainer = Trainer::new(config, LmSampler::new(), rewards, prompts)
        .with_optimizer(optimizer)
        .with_held_out(held_out.to_vec())
        .with_decoder(task::decode)
        .with_observer(MetricsLog::new(&args.out)?)
        .with_observer(Progress::new())
        .with_resume(if args.resume { Resume::NewestIfAny } else { Resume::Fresh })
        .with_stop(stop);
    let Outcome { end, .. } = trainer.run(policy);
    println!("{:?}; metrics and checkpoints are in {}", end?, args.out.display());
    Ok(())
}
