//! A small transformer learns to add from nothing but GRPO: no solved example is ever shown to it, only answers of its own are judged.
//!
//! ```text
//! cargo run --release -p digit-sum
//! cargo run --release -p digit-sum -- --seed 2 --json
//! cargo run --release -p digit-sum --features tch -- --device tch      # another backend learns the same
//! ```
//!
//! Prompts are `123+421=`, answers `544.`: two numbers of three digits from 0 to 4, so that nothing carries; 15,625 problems, 2,000 of
//! them held out. The model is a decoder of two blocks that starts from random weights: it does not know what a digit is, nor that the
//! same digit means the same in another place. The reward is the share of the four characters that are right.
//!
//! What to see: first it learns to write three digits and a full stop (`reward` to about 0.35; `kl` and `entropy` move fast). Then
//! comes a plateau where it seems to learn nothing: it has found the digits that are good guesses whatever is asked. The KL to the starting policy,
//! which writes anything, keeps it exploring; with `--beta 0` it settles for the best guess, entropy goes to 0, and groups whose answers
//! are all alike teach nothing more. Then `rewards/exact/mean` rises, within some fifty steps. It ends below the accuracy, because greedy answers
//! do not explore and sampled ones do. The curves are in `runs/digit-sum/curves.svg`.
//!
//! Tokens are drawn on the host, so the same seed asks the same of every backend. On flex, ndarray and LibTorch the same seed gives the same weights in every
//! bit (`weights` in the JSON object is their fingerprint); between backends sums round differently, and sooner or later one draws another token.

mod record;
mod task;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use burn::module::Module;
use burn::optim::AdamWConfig;
use clap::Parser;
use grpo_core::{
    Batch, BoxError, Group, GrpoConfig, KlPenalty, Metrics, Prompt, Rewards, RolloutPlan, SamplingParams, Schedule, gradients, rollout,
    score_old_and_reference, step_stats,
};
use grpo_lm::{Checkpoint, Decoder, LmSampler};

use record::Record;
use task::{Baselines, Digits, Exact, Sum};

/// A transformer learns to add, by GRPO alone.
#[derive(Parser, Debug)]
struct Args {
    /// Seed of the weights, the split, and all draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Optimiser steps.
    #[arg(long, default_value_t = 280)]
    steps: u64,
    /// β: how much the KL to the starting policy weighs. 0 asks no reference for anything.
    #[arg(long, default_value_t = 0.1)]
    beta: f64,
    /// Where metrics.jsonl and curves.svg go.
    #[arg(long, default_value = "runs/digit-sum")]
    out: PathBuf,
    /// What computes: flex, ndarray, tch, tch:cuda:0, wgpu …; each but flex needs the Cargo feature of its name.
    #[arg(long, value_name = "DEVICE", default_value = "flex")]
    device: String,
    /// Start from the weights in this folder, which an earlier run left as `model`.
    #[arg(long, value_name = "DIR")]
    load: Option<PathBuf>,
    /// Print one JSON object as the last line.
    #[arg(long)]
    json: bool,
}

const HELD_OUT: usize = 2000;
const PROMPTS: usize = 96;
const GROUP_SIZE: usize = 8;
const MICRO_TOKENS: usize = 8192;

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
    let start = Instant::now();
    let device = grpo_device::open(&args.device)?;
    let problems = task::problems(args.seed);
    let (held_out, train) = problems.split_at(HELD_OUT);

    let mut policy = match &args.load {
        Some(folder) => Decoder::from_checkpoint(&Checkpoint::open(folder)?, &device.clone().autodiff())?,
        None => Decoder::random(&task::model(), args.seed, &device.clone().autodiff())?,
    };
    let reference = policy.valid();
    let mut sampler = LmSampler::new();
    let rewards = Rewards::new().with(1.0, Digits).with(0.0, Exact);
    let config = GrpoConfig { kl: Some(KlPenalty::plain_k3(args.beta)), ..GrpoConfig::default() };
    config.validate()?;
    let learning_rate = Schedule::Linear { peak: 3e-3, end: 3e-4, warmup_steps: 20, total_steps: args.steps.max(21) };
    let mut optimizer = AdamWConfig::new().with_beta_2(0.95).with_epsilon(1e-8).with_weight_decay(0.0).init();
    let params = SamplingParams { max_tokens: task::ANSWER, end_tokens: vec![task::END], ..SamplingParams::default() };
    let mut record = Record::new(&args.out, args.steps)?;

    let Baselines { copy, constant } = Baselines::of(held_out);
    let before = accuracy(&answers(&policy.valid(), held_out, &params)?);
    println!("{} parameters, {} problems, {HELD_OUT} held out", policy.num_params(), train.len());
    println!("held-out accuracy {before:.3}; copying the prompt would score {copy:.3}, one constant answer {constant:.3}");

    for step in 0..args.steps {
        // prompts → rollout: a group of answers for each prompt, from the policy as it is.
        let prompts = task::draw(train, PROMPTS, args.seed, step);
        let plan = RolloutPlan { group_size: GROUP_SIZE, params: params.clone(), seed: args.seed, step, policy_version: step };
        let groups = rollout(&policy.valid(), &mut sampler, prompts, &plan)?;
        // rewards → advantages: how much better than its group.
        let table = rewards.score(&groups)?;
        let advantages = config.estimator.advantages(&table.totals(), &table.groups)?;
        // batch: tensors, with what the reference says of them.
        let mut batches = Batch::split(&groups, &advantages, MICRO_TOKENS, step, &device)?;
        score_old_and_reference(&mut batches, &policy.valid(), Some(&reference), &config)?;
        // scores → loss: one update a rollout, so the old log-probs are the new ones, detached.
        let stats = step_stats(&policy.valid(), &batches, &config)?;
        let update = gradients(&policy, &batches, &stats, &config)?;
        let mut metrics = update.metrics.clone();
        // step.
        policy = update.apply(&mut optimizer, learning_rate.at(step), policy);
        // metrics.
        metrics.merge(&Metrics::of_rollout(&groups, &table));
        record.step(step, &metrics)?;
    }

    let greedy = answers(&policy.valid(), held_out, &params)?;
    let after = accuracy(&greedy);
    let weights = record.finish(&policy, &greedy)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("curves and metrics are in {}", args.out.display());
    if args.json {
        let result = serde_json::json!({
            "accuracy_before": before, "accuracy_after": after, "seconds": seconds, "steps": args.steps, "seed": args.seed,
            "held_out": HELD_OUT, "copy_accuracy": copy, "constant_accuracy": constant, "device": args.device, "weights": weights,
        });
        println!("{result}");
    } else {
        println!("held-out accuracy {before:.3} -> {after:.3} in {seconds:.0} s");
    }
    Ok(())
}

/// The greedy answers to these problems.
fn answers(policy: &Decoder, held_out: &[Prompt<Sum>], params: &SamplingParams) -> Result<Vec<Group<Sum>>, BoxError> {
    let plan = RolloutPlan { group_size: 1, params: params.clone().greedy(), seed: 0, step: 0, policy_version: 0 };
    Ok(rollout(policy, &mut LmSampler::new(), held_out.to_vec(), &plan)?)
}

/// The share of them that are right in every token.
fn accuracy(answers: &[Group<Sum>]) -> f64 {
    let right = answers.iter().filter(|group| task::decode(&group.completions[0].tokens) == group.prompt.task.answer).count();
    right as f64 / answers.len() as f64
}
