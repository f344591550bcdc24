//! A step that fails half way: a clear error, and a policy, a rollout and an optimiser that are as they were.
#![allow(clippy::unwrap_used, clippy::panic)]

use burn::module::Module as _;
use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::tensor::Device;
use grpo_core::{
    Batch, BoxError, Completion, Group, GrpoConfig, OnRewardError, Padded, Policy as _, Prompt, Reward, RewardFn, Rewards, RolloutPlan,
    SamplingParams, ScoreRequest, StepStats, TokenBatch, from_fn, gradients, rollout,
};
use grpo_lm::config::ModelConfig;
use grpo_lm::{Decoder, LmSampler, LoraConfig};

fn config() -> ModelConfig {
    ModelConfig { max_position_embeddings: 32, ..ModelConfig::default() }
}

fn policy() -> Decoder {
    let device = grpo_flex::device().unwrap().autodiff();
    Decoder::random(&config(), 3, &device).unwrap().with_lora(&LoraConfig { rank: 2, ..LoraConfig::default() }).unwrap()
}

fn sampled(policy: &Decoder) -> Vec<Group<u32>> {
    let prompts = (0..3).map(|i| Prompt::new(vec![1, 2 + i, 3], i)).collect();
    let params = SamplingParams { max_tokens: 4, ..SamplingParams::default() };
    let plan = RolloutPlan { group_size: 4, params, seed: 5, step: 0, policy_version: 0 };
    rollout(&policy.valid(), &mut LmSampler::new(), prompts, &plan).unwrap()
}

/// Some reward that differs within a group.
fn first_token(completion: &Completion) -> f64 {
    f64::from(completion.tokens[0])
}

/// One whole step with these rewards.
fn step(policy: Decoder, groups: &[Group<u32>], rewards: &Rewards<u32>, optimizer: &mut ModuleOptimizer) -> Result<Decoder, BoxError> {
    let config = GrpoConfig::default();
    let table = rewards.score(groups)?;
    let advantages = config.estimator.advantages(&table.totals(), &table.groups)?;
    let batches = Batch::split(groups, &advantages, 1000, 0, &policy.device())?;
    let update = gradients(&policy, &batches, &StepStats::of(&batches), &config)?;
    assert!(update.metrics.get("grad_norm").unwrap() > 0.0);
    Ok(update.apply(optimizer, 0.01, policy))
}

/// Returns one reward less than there are completions, whoever is asked.
struct OneShort;

impl RewardFn<u32> for OneShort {
    fn name(&self) -> &str {
        "one_short"
    }
    fn score(&self, _: &u32, completion: &Completion) -> Result<Reward, BoxError> {
        Ok(first_token(completion).into())
    }
    fn score_group(&self, _: &u32, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        Ok(group.iter().skip(1).map(|c| first_token(c).into()).collect())
    }
}

type Fault = fn(&Completion) -> Result<Reward, BoxError>;

/// A list whose second function misbehaves for the second group.
fn with_fault(fault: Fault) -> Rewards<u32> {
    let second = from_fn("faulty", move |task: &u32, c: &Completion| if *task == 1 { fault(c) } else { Ok(first_token(c).into()) });
    Rewards::new().with(1.0, from_fn("fine", |_: &u32, c: &Completion| Ok(first_token(c).into()))).with(1.0, second)
}

#[test]
fn a_broken_reward_is_named_and_the_step_can_be_taken_again() {
    let faults: [(Fault, &str); 5] = [
        (|_| Ok(f64::NAN.into()), "returned NaN, must be finite"),
        (|_| Ok(f64::INFINITY.into()), "returned inf, must be finite"),
        (|_| Err("the sandbox is down".into()), "the sandbox is down"),
        (|_| panic!("index out of bounds"), "panicked: index out of bounds"),
        (|c| Ok(Reward::Steps(vec![(c.tokens.len(), 1.0)])), "ends past the last"),
    ];
    let policy = policy();
    let groups = sampled(&policy);
    let (before, rollout_before) = (policy.to_host_tensors().unwrap(), groups.clone());
    let good = with_fault(|c| Ok(first_token(c).into()));
    let mut optimizer = AdamWConfig::new().init();
    for (fault, problem) in faults {
        let said = step(policy.clone(), &groups, &with_fault(fault), &mut optimizer).unwrap_err().to_string();
        for part in ["`faulty`", &format!("group {}", groups[1].id.0), "completion 0", problem] {
            assert!(said.contains(part), "{part}: {said}");
        }
        // Missing, if that is asked for: counted, never a 0.
        let table = with_fault(fault).on_error(OnRewardError::Missing).score(&groups).unwrap();
        assert_eq!(table.failures, 4);
        assert_eq!(table.column(1)[4..8], [None; 4]);
    }
    assert!(policy.to_host_tensors().unwrap() == before);
    assert_eq!(groups, rollout_before);
    // As if nothing had happened: the step after the failures is that of a fresh optimiser.
    let after = step(policy.clone(), &groups, &good, &mut optimizer).unwrap().to_host_tensors().unwrap();
    let fresh = step(policy, &groups, &good, &mut AdamWConfig::new().init()).unwrap().to_host_tensors().unwrap();
    assert!(after != before);
    assert!(after == fresh);
}

#[test]
fn a_wrong_number_of_rewards_is_never_padded() {
    let policy = policy();
    let groups = sampled(&policy);
    let said = Rewards::new().with(1.0, OneShort).score(&groups).unwrap_err().to_string();
    assert!(said.contains("`one_short`") && said.contains("returned 3 rewards for 4 completions"), "{said}");
    // Whose reward is which is not known: none of the group's counts.
    let table = Rewards::new().with(1.0, OneShort).on_error(OnRewardError::Missing).score(&groups).unwrap();
    assert_eq!(table.failures, 12);
    assert_eq!(table.totals(), vec![None; 12]);
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_in_sampling_and_in_scoring() {
    let policy = policy();
    let prompts = vec![Prompt::new(vec![1; 5], 0u32), Prompt::new(vec![1; 30], 1)];
    let params = SamplingParams { max_tokens: 4, ..SamplingParams::default() };
    let plan = RolloutPlan { group_size: 2, params, seed: 5, step: 0, policy_version: 0 };
    let said = rollout(&policy.valid(), &mut LmSampler::new(), prompts, &plan).unwrap_err().to_string();
    for part in ["request 1", "30 tokens", "max_tokens = 4", "context of 32"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let batch = TokenBatch::new(Padded::new(&[[1; 30]]).unwrap(), Padded::new(&[[2; 4]]).unwrap(), vec![0]).unwrap();
    let said = policy.score(&batch, &ScoreRequest::at(1.0)).unwrap_err().to_string();
    assert!(said.contains("context of 32"), "{said}");
}

#[test]
fn a_token_without_an_embedding_is_refused() {
    let policy = Decoder::random(&config(), 3, &Device::flex()).unwrap();
    let prompts = vec![Prompt::new(vec![1, 1_000_000], ())];
    let plan = RolloutPlan { group_size: 2, params: SamplingParams::default(), seed: 5, step: 0, policy_version: 0 };
    let said = rollout(&policy, &mut LmSampler::new(), prompts, &plan).unwrap_err().to_string();
    assert!(said.contains("1000000"), "{said}");
}
