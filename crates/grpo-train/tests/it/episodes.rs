//! An environment's tokens are read, and nothing else: no loss, no normaliser.

use std::sync::Mutex;

use burn::module::Module;
use burn::tensor::Device;
use grpo_core::{
    Advantages, Batch, BoxError, Completion, FinishReason, GrpoConfig, Prompt, Reduction, Role, RolloutPlan, StepStats, gradients,
};
use grpo_train::{Environment, EpisodeLimits, Error, Outcome, Trainer, Turn, rollout_episodes};

use crate::support::{Bigram, Count, END, HostSampler, config, policy, prompts, rewards};

/// Answers each turn with the number of turns so far, up to a number of answers.
struct Echo(usize);

impl Environment<Count> for Echo {
    fn reply(&mut self, _task: &Count, completion: &Completion) -> Result<Turn, BoxError> {
        let turns = completion.spans.iter().filter(|s| s.role == Role::Policy).count();
        Ok(if turns > self.0 { Turn::End } else { Turn::Reply { tokens: vec![turns as u32, 0], text: format!("[{turns}]") } })
    }
}

fn plan(max_tokens: usize) -> RolloutPlan {
    let params = grpo_core::SamplingParams { max_tokens, end_tokens: vec![END], ..Default::default() };
    RolloutPlan { group_size: 3, params, seed: 5, step: 2, policy_version: 0 }
}

fn asked() -> Vec<Prompt<Count>> {
    (0..4).map(|first| Prompt::new(vec![first], Count { first })).collect()
}

fn episodes(limits: EpisodeLimits, turns: usize) -> Vec<Completion> {
    let policy = policy().valid();
    let groups = rollout_episodes(&policy, &mut HostSampler, &mut Echo(turns), asked(), &plan(40), &limits).unwrap();
    groups.into_iter().flat_map(|g| g.completions).collect()
}

#[test]
fn an_episode_is_turns_and_answers_and_only_turns_are_in_the_mask() {
    for completion in episodes(EpisodeLimits::default(), 2) {
        let roles: Vec<Role> = completion.spans.iter().map(|s| s.role).collect();
        assert_eq!(roles, [Role::Policy, Role::Environment, Role::Policy, Role::Environment, Role::Policy]);
        assert_eq!(completion.spans.iter().map(|s| s.len).sum::<usize>(), completion.tokens.len());
        assert_eq!(completion.sampler_log_probs.len(), completion.tokens.len());
        assert_eq!(completion.policy_mask().iter().filter(|m| !**m).count(), 4);
        assert_eq!(completion.finish, FinishReason::EndToken);
        assert_eq!(completion.text, "[1][2]");
    }
}

#[test]
fn an_episode_ends_at_its_limits_and_counts_as_cut_off() {
    let turns = episodes(EpisodeLimits { max_turns: 2, max_tokens: 4096 }, 9);
    assert!(turns.iter().all(|c| c.finish == FinishReason::Length && c.spans.len() == 3), "two turns and the answer between them");
    // A turn might take 40 tokens: with 60 there is room for one more after a short one, and never for a third of 40.
    let tokens = episodes(EpisodeLimits { max_turns: 99, max_tokens: 60 }, 99);
    assert!(tokens.iter().all(|c| c.tokens.len() <= 60 && c.finish == FinishReason::Length));
}

#[test]
fn what_one_episode_draws_does_not_depend_on_the_others() {
    let policy = policy().valid();
    let all = rollout_episodes(&policy, &mut HostSampler, &mut Echo(2), asked(), &plan(40), &EpisodeLimits::default()).unwrap();
    let first =
        rollout_episodes(&policy, &mut HostSampler, &mut Echo(2), asked()[..1].to_vec(), &plan(40), &EpisodeLimits::default()).unwrap();
    assert_eq!(all[0].completions, first[0].completions);
    assert_ne!(all[0].completions[0].tokens, all[0].completions[1].tokens);
}

#[test]
fn tokens_of_the_environment_weigh_nothing_in_the_normaliser() {
    // One completion with an answer of two tokens in its middle, against the same log-probabilities without it: a table of bigrams sees only
    // the last token, so cutting the answer out changes only the first token after it.
    let groups =
        rollout_episodes(&policy().valid(), &mut HostSampler, &mut Echo(1), asked(), &plan(40), &EpisodeLimits::default()).unwrap();
    let n: usize = groups.iter().map(|g| g.completions.len()).sum();
    let device = Device::flex();
    for reduction in [Reduction::TokenMean, Reduction::SequenceMean, Reduction::PromptTokenMean] {
        let settings = GrpoConfig { reduction, max_grad_norm: None, ..GrpoConfig::default() };
        let batch = Batch::new(&groups, &Advantages::PerCompletion(vec![1.0; n]), 0, &device).unwrap();
        let policy_tokens: Vec<usize> =
            groups.iter().flat_map(|g| &g.completions).map(|c| c.policy_mask().iter().filter(|m| **m).count()).collect();
        assert_eq!(batch.token_counts(), policy_tokens);
        let batches = [batch];
        let stats = StepStats::of(&batches);
        assert_eq!(stats.tokens, policy_tokens.iter().sum::<usize>());
        // All advantages 1 and a ratio of 1: the loss is −1 exactly if numerator and denominator count the same tokens.
        let update = gradients(&policy(), &batches, &stats, &settings).unwrap();
        assert!((update.metrics.get("loss").unwrap() + 1.0).abs() < 1e-6, "{reduction:?}: {:?}", update.metrics.get("loss"));
    }
}

#[test]
fn a_trainer_with_an_environment_trains_on_episodes() {
    let mut settings = config(None);
    settings.sampling.max_tokens = 8;
    let start = policy();
    let Outcome { policy, end } = Trainer::new(settings, HostSampler, rewards(), prompts()).with_environment(Echo(1)).run(start.clone());
    end.unwrap();
    assert_ne!(policy.values(), start.values());
}

#[test]
fn an_environment_that_fails_or_says_nothing_is_an_error() {
    struct Mute(Mutex<u32>);
    impl Environment<Count> for Mute {
        fn reply(&mut self, _task: &Count, _completion: &Completion) -> Result<Turn, BoxError> {
            let mut calls = self.0.lock().unwrap();
            *calls += 1;
            if *calls > 1 { Err("the tool is broken".into()) } else { Ok(Turn::Reply { tokens: vec![], text: String::new() }) }
        }
    }
    let policy: Bigram = policy().valid();
    let mut mute = Mute(Mutex::new(0));
    let limits = EpisodeLimits::default();
    let empty = rollout_episodes(&policy, &mut HostSampler, &mut mute, asked(), &plan(40), &limits).unwrap_err();
    assert!(empty.to_string().contains("at least one (or Turn::End)"), "{empty}");
    let broken = rollout_episodes(&policy, &mut HostSampler, &mut mute, asked(), &plan(40), &limits).unwrap_err();
    assert!(matches!(broken, Error::Environment(_)) && broken.to_string().ends_with("the tool is broken"));
}
