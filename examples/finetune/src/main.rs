//! Fine-tunes a real language model with GRPO.
//!
//! ```text
//! scripts/fetch-smollm2.sh
//! cargo run --release -p finetune -- --model models/SmolLM2-135M-Instruct.Q4_1.gguf --steps 60 --seed 1
//! cargo run --release -p finetune -- --model FOLDER --prompt chat --train TRAIN.jsonl --test TEST.jsonl --max-tokens 256 --lr 1e-5
//! ```
//!
//! The first run is SmolLM2-135M on two-digit additions: two solved lines and a third one to complete, 8 prompts × 8 completions of
//! at most 5 tokens a step, rank-16 factors beside all seven matrices of each block, reward 1 for the exact sum on a line of its own.
//! Greedy answers on held-out additions are counted before and after.
//!
//! What to see: `reward` rises within ten steps and `entropy` falls with it. `kl` is printed with `--beta` above 0, and is exactly 0 at
//! step 0: the reference is the policy as it started, scored by the same code. The loss is not printed, it is about 0 all the time.

mod args;
mod record;
mod task;

use std::process::ExitCode;

use burn::module::Module as _;
use burn::optim::AdamWConfig;
use burn::tensor::Device;
use clap::Parser as _;
use grpo_core::{
    Batch, BoxError, Group, GrpoConfig, Metrics, Prompt, RewardTable, Rewards, RolloutPlan, Update, gradients, rollout,
    score_old_and_reference, step_stats,
};
use grpo_lm::{Decoder, LmSampler};

use args::Args;
use record::{Clock, Record};
use task::{Shuffled, Task};

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
    let config = args.config();
    config.validate()?;
    let device = grpo_device::open(&args.device)?;
    let mut checkpoint = task::open(&args.model)?;
    let train = task::read(&args.train, args, &checkpoint)?;
    let test: Vec<_> = task::read(&args.test, args, &checkpoint)?.into_iter().take(args.eval).collect();
    let mut policy = args.policy(Decoder::from_checkpoint(&checkpoint, &device.clone().autodiff())?)?;
    checkpoint.tensors.clear(); // they are on the device now

    let mut learner = Learner {
        sampler: LmSampler::with_tokenizer(task::tokenizer(&checkpoint)?.clone()),
        rewards: args.rewards(),
        reference: config.needs_reference().then(|| policy.snapshot()),
        plan: args.plan(&checkpoint.generation.end_tokens),
        micro_tokens: args.micro_tokens,
        config,
        device,
    };
    let mut prompts = Shuffled::new(train, args.seed);
    let mut optimizer = AdamWConfig::new().with_beta_1(0.9).with_beta_2(0.999).with_epsilon(1e-8).with_weight_decay(0.0).init();
    let mut record = Record::new(args)?;

    record.before(learner.accuracy(&policy, &test)?);
    let mut learnt = Ok(());
    for step in 0..args.steps {
        let clock = Clock::start();
        let (update, rolled) = match learner.learn(&policy, prompts.take(args.prompts), step) {
            Ok(done) => done,
            Err(error) => {
                learnt = Err(error);
                break;
            }
        };
        let mut metrics = update.metrics.clone();
        metrics.merge(&Metrics::of_rollout(&rolled.groups, &rolled.rewards));
        policy = update.apply(&mut optimizer, args.lr, policy);
        learnt = record.step(step, &metrics, &rolled.groups, &rolled.rewards, &clock);
        if learnt.is_err() {
            break;
        }
    }
    // Whatever went wrong, a step only borrows the policy until it has succeeded: what was learnt so far is written before the error is told.
    learnt.and(record.save(&policy, checkpoint))?;
    record.after(learner.accuracy(&policy, &test)?);
    record.finish();
    Ok(())
}

/// What a step needs besides the policy.
struct Learner {
    sampler: LmSampler,
    rewards: Rewards<Task>,
    reference: Option<Decoder>,
    plan: RolloutPlan,
    micro_tokens: usize,
    config: GrpoConfig,
    device: Device,
}

/// What was said in a step, and what it was worth.
struct Rolled {
    groups: Vec<Group<Task>>,
    rewards: RewardTable,
}

impl Learner {
    /// The straight line of one step: everything in it may fail, and nothing in it changes the policy.
    fn learn(&mut self, policy: &Decoder, prompts: Vec<Prompt<Task>>, step: u64) -> Result<(Update, Rolled), BoxError> {
        // prompts → rollout: a group for each prompt, from the policy as it is, its factors multiplied into the matrices.
        let plan = RolloutPlan { step, policy_version: step, ..self.plan.clone() };
        let groups = rollout(&policy.merged(), &mut self.sampler, prompts, &plan)?;
        // rewards → advantages: how much better than its group.
        let rewards = self.rewards.score(&groups)?;
        let advantages = self.config.estimator.advantages(&rewards.totals(), &rewards.groups)?;
        // batch: tensors, with what the reference says of them.
        let mut batches = Batch::split(&groups, &advantages, self.micro_tokens, step, &self.device)?;
        score_old_and_reference(&mut batches, &policy.valid(), self.reference.as_ref(), &self.config)?;
        // scores → loss → gradients: one update a rollout, so the old log-probs are the new ones, detached.
        let stats = step_stats(&policy.valid(), &batches, &self.config)?;
        let update = gradients(policy, &batches, &stats, &self.config)?;
        Ok((update, Rolled { groups, rewards }))
    }

    /// The share of greedy answers that are right: the first reward function says which. `None` without a question.
    fn accuracy(&mut self, policy: &Decoder, questions: &[Prompt<Task>]) -> Result<Option<f64>, BoxError> {
        let plan = RolloutPlan { group_size: 1, params: self.plan.params.clone().greedy(), ..self.plan.clone() };
        let (policy, mut right) = (policy.merged(), 0);
        for some in questions.chunks(64) {
            let groups = rollout(&policy, &mut self.sampler, some.to_vec(), &plan)?;
            right += self.rewards.score(&groups)?.column(0).into_iter().filter(|r| *r == Some(1.0)).count();
        }
        Ok((!questions.is_empty()).then(|| right as f64 / questions.len() as f64))
    }
}
