//! Rollout: {o_1 .. o_G} ~ π_old(· | q) for each prompt q.

use crate::error::{Error, Result};
use crate::group::{Completion, Group, GroupId, PolicyVersion, Prompt};
use crate::sampler::{SampleRequest, Sampler, SamplingParams, group_seed};

/// What a rollout needs to know besides prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutPlan {
    /// G: completions a prompt. At least 1; 2 where a group is to be compared with itself.
    pub group_size: usize,
    /// How tokens are drawn.
    pub params: SamplingParams,
    /// The run's seed.
    pub seed: u64,
    /// The step of the run, so that each step draws anew.
    pub step: u64,
    /// The version of the policy that is sampled.
    pub policy_version: PolicyVersion,
}

/// Samples a group for each prompt. Two draws of the same prompt are two groups.
///
/// Hand it the policy without autodiff (`policy.valid()`): it stays frozen while the groups are used, and no graph is kept.
///
/// # Errors
/// Parameters out of range, a sampler that fails or answers with another number of samples than asked for, a broken sample.
pub fn rollout<T, P: ?Sized, S: Sampler<P> + ?Sized>(
    policy: &P,
    sampler: &mut S,
    prompts: Vec<Prompt<T>>,
    plan: &RolloutPlan,
) -> Result<Vec<Group<T>>> {
    plan.params.validate()?;
    if plan.group_size == 0 {
        return Err(Error::config("group_size", 0, "at least 1"));
    }
    if let Some(empty) = prompts.iter().position(|p| p.tokens.is_empty()) {
        return Err(Error::invalid("prompt", format!("prompt {empty} has no token, must have at least one")));
    }
    let id = |index: usize| GroupId((plan.step << 24) | index as u64);
    let requests: Vec<SampleRequest<'_>> = prompts
        .iter()
        .enumerate()
        .map(|(index, prompt)| SampleRequest {
            group: id(index),
            prefix: &prompt.tokens,
            samples: plan.group_size,
            seed: group_seed(plan.seed, plan.step, index as u64),
        })
        .collect();
    let answers = sampler.sample(policy, &requests, &plan.params).map_err(Error::Sampler)?;
    Error::check_shape("sampler answers", &[answers.len()], &[prompts.len()])?;
    prompts
        .into_iter()
        .zip(answers)
        .enumerate()
        .map(|(index, (prompt, samples))| {
            Error::check_shape("samples of a group", &[samples.len()], &[plan.group_size])?;
            let completions = samples.into_iter().map(|s| Completion::from_sample(s, plan.policy_version)).collect::<Result<_>>()?;
            Group::new(id(index), prompt, completions)
        })
        .collect()
}
