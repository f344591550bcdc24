//! A small transformer may ask a calculator instead of guessing, and is trained with nothing but GRPO.
//!
//! ```text
//! cargo run --release -p calculator
//! ```
//!
//! Prompts are `47+85=`, answers `132.`. The policy starts from random weights. If it writes `?`, its turn is over, the calculator answers
//! with the sum, and the policy goes on: an episode is `?` `132` `132.`, of which the middle is the calculator's. Those tokens are read and
//! never trained on, nor counted in the loss's normaliser. To carry in its head is hard for so small a model; to ask and to copy is easier.
//!
//! Nobody tells it what `?` does, but to ask earns 0.2. Without that it learns to guess the first digit and where to end, forgets `?` within 30
//! steps, and gets no sum right; with it, it asks by then, and has learnt to copy by step 300.
//!
//! What to look at: `rewards/asked/mean` goes up first; `rewards/exact/mean`, a metric of weight 0, follows.

use std::process::ExitCode;

use burn::optim::AdamWConfig;
use clap::Parser;
use grpo_core::{BoxError, Completion, GrpoConfig, KlPenalty, Prompt, Rewards, Role, SamplingParams, Schedule, TokenId, from_fn, stream};
use grpo_lm::{Decoder, LmSampler, ModelConfig};
use grpo_train::observe::{Observer, StepRecord};
use grpo_train::{Drawn, Environment, EpisodeLimits, Optimizer, Outcome, TrainConfig, Trainer, Turn};
use rand::RngExt;
use serde::{Deserialize, Serialize};

/// A transformer learns to use a tool.
#[derive(Parser, Debug)]
struct Args {
    /// Seed of the weights and all draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Optimiser steps.
    #[arg(long, default_value_t = 300)]
    steps: u64,
    /// What computes: flex, ndarray, tch, tch:cuda:0, wgpu …; each but flex needs the Cargo feature of its name.
    #[arg(long, value_name = "DEVICE", default_value = "flex")]
    device: String,
    /// Print one JSON object as the last line.
    #[arg(long)]
    json: bool,
}

/// A token's id is the place of its character. `?` asks, `.` ends.
const ALPHABET: &str = "0123456789+=?.";
const ASK: TokenId = 12;
const END: TokenId = 13;

fn encode(text: &str) -> Vec<TokenId> {
    text.chars().filter_map(|c| ALPHABET.find(c)).map(|id| id as TokenId).collect()
}

fn decode(tokens: &[TokenId]) -> String {
    tokens.iter().filter_map(|&id| ALPHABET.chars().nth(id as usize)).collect()
}

/// What an answer is judged by.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Sum {
    /// `132`
    answer: String,
}

/// Two numbers of two digits.
fn draw(seed: u64, draw: u64, count: usize) -> Vec<Prompt<Sum>> {
    let mut rng = stream(seed, draw as usize);
    let one = |_| {
        let (a, b) = (rng.random_range(0..100), rng.random_range(0..100));
        Prompt::new(encode(&format!("{a:02}+{b:02}=")), Sum { answer: format!("{:03}", a + b) })
    };
    (0..count).map(one).collect()
}

/// Answers a turn that ends in `?` with the sum, once.
struct Calculator;

impl Environment<Sum> for Calculator {
    fn reply(&mut self, sum: &Sum, completion: &Completion) -> Result<Turn, BoxError> {
        let asked = completion.tokens.last() == Some(&ASK) && !has_asked(completion);
        Ok(if asked { Turn::Reply { tokens: encode(&sum.answer), text: sum.answer.clone() } } else { Turn::End })
    }
}

fn has_asked(completion: &Completion) -> bool {
    completion.spans.iter().any(|span| span.role == Role::Environment)
}

/// The last turn: what the policy answers in the end.
fn answer(completion: &Completion) -> &[TokenId] {
    let last = completion.spans.last().map_or(0, |span| span.len);
    &completion.tokens[completion.tokens.len() - last..]
}

/// The share of places of the answer that are right, the end counted as one.
fn places(sum: &Sum, completion: &Completion) -> f64 {
    let wanted = encode(&format!("{}.", sum.answer));
    wanted.iter().zip(answer(completion)).filter(|(want, got)| want == got).count() as f64 / wanted.len() as f64
}

/// A line now and then.
struct Lines;

impl Observer for Lines {
    fn name(&self) -> &str {
        "lines"
    }
    fn on_step(&mut self, record: &StepRecord) -> grpo_train::Result<()> {
        if record.step.is_multiple_of(10) {
            let shown = ["reward", "rewards/asked/mean", "rewards/exact/mean", "kl", "entropy"];
            let shown: String = shown.iter().filter_map(|name| Some(format!("  {name} {:.3}", record.metrics.get(name)?))).collect();
            println!("step {:3}{shown}", record.step);
        }
        Ok(())
    }
}

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
    let model = ModelConfig {
        vocab_size: ALPHABET.len(),
        max_position_embeddings: 24,
        rope_theta: 100.0,
        tie_word_embeddings: false,
        ..ModelConfig::default()
    };
    let policy = Decoder::random(&model, args.seed, &grpo_device::open(&args.device)?.autodiff())?;
    let config = TrainConfig {
        seed: args.seed,
        steps: args.steps,
        prompts: 96,
        group_size: 8,
        // A turn of at most four tokens, ended by `?` or `.`.
        sampling: SamplingParams { max_tokens: 4, end_tokens: vec![ASK, END], ..SamplingParams::default() },
        episodes: EpisodeLimits { max_turns: 2, max_tokens: 16 },
        grpo: GrpoConfig { kl: Some(KlPenalty::plain_k3(0.1)), ..GrpoConfig::default() },
        learning_rate: Schedule::Linear { peak: 3e-3, end: 3e-4, warmup_steps: 20, total_steps: args.steps.max(21) },
        ..TrainConfig::default()
    };
    let rewards = Rewards::new()
        .with(1.0, from_fn("places", |sum: &Sum, completion: &Completion| Ok(places(sum, completion).into())))
        .with(0.0, from_fn("exact", |sum: &Sum, completion: &Completion| Ok(f64::from(u8::from(places(sum, completion) == 1.0)).into())))
        .with(0.2, from_fn("asked", |_: &Sum, completion: &Completion| Ok(f64::from(u8::from(has_asked(completion))).into())));
    let seed = args.seed;
    let mut trainer = Trainer::new(config, LmSampler::new(), rewards, Drawn::new(move |round, count| draw(seed, round, count)))
        .with_optimizer(Optimizer::new(AdamWConfig::new().with_beta_2(0.95).with_epsilon(1e-8).with_weight_decay(0.0).build()))
        .with_environment(Calculator)
        .with_held_out(draw(seed, u64::MAX, 200))
        .with_decoder(decode)
        .with_observer(Lines);
    let Outcome { policy, end } = trainer.run(policy);
    end?;
    let after = trainer.evaluate(&policy)?;
    let value = |name: &str| after.get(name).unwrap_or(f64::NAN);
    let (right, asked) = (value("eval/greedy/right"), value("eval/greedy/rewards/asked/mean"));
    if args.json {
        println!("{}", serde_json::json!({ "accuracy": right, "asked": asked, "steps": args.steps, "seed": args.seed }));
    } else {
        println!("held out: {right:.3} right, {asked:.3} asked the calculator");
    }
    Ok(())
}
