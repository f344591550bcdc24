//! The demo of the sources: a policy that is one row of logits over eight tokens learns to say one of them.
//!
//! ```text
//! cargo run --release -p bandit                                             # many rounds, until the target wins
//! cargo run --release -p bandit -- --check testdata/vectors/bandit.json    # the same numbers as PyTorch, in f64
//! ```
//!
//! What to see: each round draws a fresh group of six from the policy as it is, and takes 20 steps on it. In the first of them
//! the ratio is 1; then it drifts, until the clip range takes the gradient of most tokens away: that bounds a round. The KL to
//! a fixed second policy bounds the run: with `--beta 0` the target's probability goes to 1, with the default it stops
//! where reward and leash balance. A group whose six rewards are equal has advantage 0: only the leash pulls then.

mod check;

use std::path::PathBuf;
use std::process::ExitCode;

use burn::optim::SgdConfig;
use burn::tensor::{DType, Device, Tensor, TensorData};
use clap::Parser;
use grpo_core::testing::Table;
use grpo_core::{
    Batch, BoxError, ClipRange, FinishReason, GrpoConfig, KlEstimator, KlPenalty, LogProbKind, Metrics, Objective, Prompt, Reduction,
    Rewards, RolloutPlan, Sample, SampleRequest, Sampler, SamplingParams, StepStats, from_fn, gradients, log_softmax_at, rollout, stream,
    to_host,
};
use rand::RngExt;

/// A soft policy over eight tokens, trained by GRPO.
#[derive(Parser, Debug)]
struct Args {
    /// Seed of the two policies and of all draws.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds: fresh groups.
    #[arg(long, default_value_t = 60)]
    rounds: u64,
    /// β: how much the KL to the second policy weighs.
    #[arg(long, default_value_t = 0.2)]
    beta: f64,
    /// What computes: flex, ndarray, tch, tch:cuda:0, wgpu …; each but flex needs the Cargo feature of its name.
    #[arg(long, value_name = "DEVICE", default_value = "flex")]
    device: String,
    /// Print one JSON object as the last line.
    #[arg(long)]
    json: bool,
    /// Replay this file of reference numbers instead.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
}

const VOCABULARY: usize = 8;
const TARGET: u32 = 5;
const GROUP_SIZE: usize = 6;
const LEARNING_RATE: f64 = 0.1;
const UPDATES_PER_ROLLOUT: usize = 20;

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
    let device = grpo_device::open(&args.device)?;
    if let Some(file) = &args.check {
        return check::run(file, &device);
    }

    let mut policy = Table::from_logits(random_logits(args.seed, 0, &device.clone().autodiff()));
    let reference = Table::from_logits(random_logits(args.seed, 1, &device));
    let config = config(ClipRange::symmetric(0.2), args.beta);
    config.validate()?;
    let rewards = Rewards::new().with(1.0, from_fn("target", |target: &u32, c| Ok(if c.tokens == [*target] { 1.2 } else { 0.2 }.into())));
    let mut optimizer = SgdConfig::new().init();
    let before = probabilities(&policy)?;

    for round in 0..args.rounds {
        // prompts: one, of one token that says nothing; its task is the token to say.
        let prompts = vec![Prompt::new(vec![0], TARGET)];
        // rollout: a group from the policy as it is. It stays as it was for the 20 updates.
        let params = SamplingParams { max_tokens: 1, ..SamplingParams::default() };
        let plan = RolloutPlan { group_size: GROUP_SIZE, params, seed: args.seed, step: round, policy_version: round };
        let groups = rollout(&policy, &mut OneToken, prompts, &plan)?;
        // rewards → advantages: how much better than its group.
        let table = rewards.score(&groups)?;
        let advantages = config.estimator.advantages(&table.totals(), &table.groups)?;
        // batch: tensors, with what the old policy and the reference say of it.
        let mut batches = Batch::split(&groups, &advantages, GROUP_SIZE, round, &device)?;
        for batch in &mut batches {
            batch.score_old(&frozen(&policy))?;
            batch.score_reference(&reference, KlEstimator::Exact)?;
        }
        let step = StepStats::of(&batches);
        let mut metrics = Metrics::default();
        for _ in 0..UPDATES_PER_ROLLOUT {
            // scores → loss → step.
            let update = gradients(&policy, &batches, &step, &config)?;
            metrics = update.metrics.clone();
            policy = update.apply(&mut optimizer, LEARNING_RATE, policy);
        }
        // metrics: of the last update of the round.
        metrics.merge(&Metrics::of_rollout(&groups, &table));
        let metric = |name| metrics.get(name).unwrap_or(f64::NAN);
        println!(
            "round {round:3}  reward {:.3}  p(target) {:.4}  kl {:.4}  clipped {:.2}",
            metric("reward"),
            probabilities(&policy)?[TARGET as usize],
            kl(&policy, &reference)?,
            metric("clip_ratio/low_mean") + metric("clip_ratio/high_mean"),
        );
    }

    let (p, after) = (before[TARGET as usize], probabilities(&policy)?);
    let best = after[TARGET as usize];
    let wins = after.iter().all(|other| *other <= best);
    if args.json {
        println!(
            "{}",
            serde_json::json!({ "probability_before": p, "probability_after": best, "target_wins": wins, "rounds": args.rounds, "seed": args.seed })
        );
    } else {
        println!("p(target) {p:.4} -> {best:.4}, {}", if wins { "the most likely token" } else { "not the most likely token" });
    }
    Ok(())
}

/// The objective of the demo: clipped, plus β times the exact KL, a plain mean over the group, gradients as they are.
fn config(clip: ClipRange, beta: f64) -> GrpoConfig {
    GrpoConfig {
        objective: Objective::clipped(clip),
        kl: Some(KlPenalty::exact(beta)),
        reduction: Reduction::SequenceMean,
        updates_per_rollout: UPDATES_PER_ROLLOUT,
        max_grad_norm: None,
        ..GrpoConfig::default()
    }
}

/// The policy as it is now, outside autodiff.
fn frozen(policy: &Table) -> Table {
    Table::from_logits(policy.logits.val().inner())
}

/// π: one number a token.
fn probabilities(policy: &Table) -> Result<Vec<f64>, BoxError> {
    Ok(to_host(log_softmax_at(policy.logits.val().inner(), 1.0).exp(), "probabilities")?)
}

/// KL(π ‖ reference) = Σ_v π_v (log π_v − log π_ref,v)
fn kl(policy: &Table, reference: &Table) -> Result<f64, BoxError> {
    let log_probs = log_softmax_at(policy.logits.val().inner(), 1.0); // [V]
    let difference = log_probs.clone() - log_softmax_at(reference.logits.val().inner(), 1.0); // [V]
    Ok(to_host((log_probs.exp() * difference).sum(), "KL")?[0])
}

/// Logits of one policy of the run: uniform in ±0.5, in the widest float type that the device computes.
fn random_logits(seed: u64, which: usize, device: &Device) -> Tensor<1> {
    let mut rng = stream(seed, which);
    let logits: Vec<f64> = (0..VOCABULARY).map(|_| rng.random_range(-0.5..0.5)).collect();
    let dtype = if grpo_device::computes(device, DType::F64) { DType::F64 } else { DType::F32 };
    Tensor::from_data(TensorData::new(logits, [VOCABULARY]), (device, dtype)) // [V]
}

/// Draws completions of one token.
struct OneToken;

impl Sampler<Table> for OneToken {
    fn sample(&mut self, policy: &Table, requests: &[SampleRequest<'_>], params: &SamplingParams) -> Result<Vec<Vec<Sample>>, BoxError> {
        let log_probs = to_host(log_softmax_at(policy.logits.val().inner(), params.temperature), "log-probs")?;
        let draw = |seed, index| {
            let mut left: f64 = stream(seed, index).random();
            let token = log_probs.iter().position(|lp| {
                left -= lp.exp();
                left < 0.0
            });
            // Rounding may leave a crumb of probability behind the last token: it is the last token's.
            let token = token.unwrap_or(VOCABULARY - 1);
            Sample {
                tokens: vec![token as u32],
                log_probs: vec![log_probs[token] as f32],
                log_prob_kind: LogProbKind::Tempered,
                temperature: params.temperature,
                finish: FinishReason::Length,
                text: token.to_string(),
                policy_version: None,
            }
        };
        Ok(requests.iter().map(|r| (0..r.samples).map(|k| draw(r.seed, k)).collect()).collect())
    }
}
