//! What the trainer costs beside the loop by hand: interleaved pairs of the same run, CPU time of a step; and resident memory over a long run.
//!
//! ```text
//! cargo run --release -p grpo-bench-train
//! ```
//!
//! The policy is a table of 64 logits, so that nothing but overhead is left to measure: what the trainer adds to a step does not depend on
//! the policy. It is measured with an observer that counts, so that groups are written out, and with the logs that a run has by default
//! (`metrics.jsonl` and every completion in `completions.jsonl`).

use burn::module::Module as _;
use burn::optim::AdamWConfig;
use grpo_core::testing::Table;
use grpo_core::{
    Batch, BoxError, Completion, FinishReason, GrpoConfig, LogProbKind, Metrics, Prompt, Rewards, RolloutPlan, Sample, SampleRequest,
    Sampler, SamplingParams, Schedule, from_fn, gradients, rollout, step_stats, stream,
};
use grpo_train::observe::{ObserveConfig, Observer, StepRecord};
use grpo_train::{Drawn, TrainConfig, Trainer};
use rand::RngExt as _;

const VOCABULARY: usize = 64;
const STEPS: u64 = 100;
const PAIRS: usize = 11;

/// Completions of eight tokens, drawn on the host.
struct Host;

impl Sampler<Table> for Host {
    fn sample(&mut self, policy: &Table, asked: &[SampleRequest<'_>], params: &SamplingParams) -> Result<Vec<Vec<Sample>>, BoxError> {
        let weights: Vec<f64> = policy.logits.val().into_data().iter::<f64>().map(f64::exp).collect();
        let total: f64 = weights.iter().sum();
        let one = |seed, k| {
            let mut rng = stream(seed, k);
            let tokens: Vec<u32> = (0..8)
                .map(|_| {
                    let mut u = rng.random::<f64>() * total;
                    let drawn = weights.iter().position(|w| {
                        u -= w;
                        u < 0.0
                    });
                    drawn.unwrap_or(VOCABULARY - 1) as u32
                })
                .collect();
            let log_probs = tokens.iter().map(|&t| (weights[t as usize] / total).ln() as f32).collect();
            let (log_prob_kind, finish) = (LogProbKind::Tempered, FinishReason::Length);
            Sample { tokens, log_probs, log_prob_kind, temperature: params.temperature, finish, text: String::new(), policy_version: None }
        };
        Ok(asked.iter().map(|r| (0..r.samples).map(|k| one(r.seed, k)).collect()).collect())
    }
}

struct Counting(u64);

impl Observer for Counting {
    fn name(&self) -> &str {
        "count"
    }
    fn on_step(&mut self, record: &StepRecord) -> grpo_train::Result<()> {
        self.0 += record.tokens;
        Ok(())
    }
}

fn prompts(count: usize) -> Vec<Prompt<()>> {
    vec![Prompt::new(vec![0], ()); count]
}

fn rewards() -> Rewards<()> {
    let low = |_: &(), c: &Completion| Ok((c.tokens.iter().filter(|t| **t < 8).count() as f64 / 8.0).into());
    Rewards::new().with(1.0, from_fn("low", low))
}

fn config(steps: u64) -> TrainConfig {
    TrainConfig { steps, learning_rate: Schedule::Constant { peak: 0.01, warmup_steps: 0 }, ..TrainConfig::default() }
}

fn by_hand(mut policy: Table) -> Result<Table, BoxError> {
    let (mut sampler, rewards, config, device) = (Host, rewards(), GrpoConfig::default(), grpo_flex::device()?);
    let mut optimizer = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.0).init();
    for step in 0..STEPS {
        let plan = RolloutPlan { group_size: 8, params: SamplingParams::default(), seed: 1, step, policy_version: step };
        let groups = rollout(&policy.valid(), &mut sampler, prompts(8), &plan)?;
        let table = rewards.score(&groups)?;
        let advantages = config.estimator.advantages(&table.totals(), &table.groups)?;
        let batches = Batch::split(&groups, &advantages, 8192, step, &device)?;
        let stats = step_stats(&policy.valid(), &batches, &config)?;
        let update = gradients(&policy, &batches, &stats, &config)?;
        let mut metrics = update.metrics.clone();
        metrics.merge(&Metrics::of_rollout(&groups, &table));
        policy = update.apply(&mut optimizer, 0.01, policy);
    }
    Ok(policy)
}

fn by_trainer(policy: Table, steps: u64, observers: Vec<Box<dyn Observer>>) -> Result<Table, BoxError> {
    let mut trainer = Trainer::new(config(steps), Host, rewards(), Drawn::new(|_, count| prompts(count))).with_observer(Counting(0));
    for observer in observers {
        trainer = trainer.with_observer(observer);
    }
    let outcome = trainer.run(policy);
    outcome.end?;
    Ok(outcome.policy)
}

/// CPU seconds of this thread, from the scheduler's nanoseconds (Linux).
fn cpu() -> Result<f64, BoxError> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("no figure")?.parse::<f64>()? / 1e9)
}

fn resident_mb() -> Result<f64, BoxError> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? / 1024.0)
}

fn main() -> Result<(), BoxError> {
    let start = Table::new(VOCABULARY, &grpo_flex::device()?.autodiff());
    let logs = ObserveConfig { progress: false, report: false, ..ObserveConfig::default() };
    let folder = std::env::temp_dir().join(format!("grpo-bench-train-{}", std::process::id()));
    let (mut extra, mut bare, mut logged) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..=PAIRS {
        let before = cpu()?;
        let first = by_hand(start.clone())?;
        let between = cpu()?;
        let second = by_trainer(start.clone(), STEPS, Vec::new())?;
        let after = cpu()?;
        let third = by_trainer(start.clone(), STEPS, logs.observers(&folder)?)?;
        let end = cpu()?;
        std::fs::remove_dir_all(&folder)?;
        let weights = [first, second, third].map(|policy| policy.logits.val().into_data());
        if weights.iter().any(|other| *other != weights[0]) {
            return Err("the trainer's policy is another one".into());
        }
        if pair > 0 {
            let step = |seconds: f64| seconds / STEPS as f64 * 1e3;
            let by_hand = between - before;
            bare.push(step(by_hand));
            extra.push(step(after - between - by_hand));
            logged.push(step(end - after - by_hand));
        }
    }
    for list in [&mut bare, &mut extra, &mut logged] {
        list.sort_by(f64::total_cmp);
    }
    println!(
        "by hand {:.3} ms of CPU a step, the trainer {:+.3} ms, with logs {:+.3} ms (medians of {PAIRS} interleaved rounds)",
        bare[PAIRS / 2],
        extra[PAIRS / 2],
        logged[PAIRS / 2]
    );
    by_trainer(start.clone(), 500, Vec::new())?;
    let early = resident_mb()?;
    by_trainer(start, 2000, Vec::new())?;
    println!("resident memory: {early:.1} MB after 500 steps, {:.1} MB after 2000 more", resident_mb()?);
    Ok(())
}
