//! The nouns: prompts, samples, completions, groups.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::token::{FinishReason, LogProbKind, Role, TokenId};

/// The policy's version: how many optimiser steps its weights have seen.
pub type PolicyVersion = u64;

/// What the policy is asked, and what its answer is judged by.
///
/// `T` is the task: whatever the reward needs (the gold answer, a board, a test suite). The loss never sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompt<T> {
    /// The tokens the policy reads. At least one.
    pub tokens: Vec<TokenId>,
    /// What rewards judge by.
    pub task: T,
}

impl<T> Prompt<T> {
    /// A prompt from its tokens and its task.
    pub fn new(tokens: Vec<TokenId>, task: T) -> Self {
        Self { tokens, task }
    }
}

/// The sampling half of a completion: exactly what a sampler drew.
///
/// Token ids go from here to the loss unchanged; nothing is ever decoded and tokenised again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The sampled tokens, with the end token if one was sampled. At least one.
    pub tokens: Vec<TokenId>,
    /// One log-probability a token, natural logarithm, each ≤ 0 up to rounding.
    pub log_probs: Vec<f32>,
    /// What these log-probabilities mean.
    pub log_prob_kind: LogProbKind,
    /// The temperature the tokens were drawn at.
    pub temperature: f64,
    /// Why sampling ended.
    pub finish: FinishReason,
    /// The text that the tokens stand for, without the end token. Empty where there is no text.
    pub text: String,
    /// The version of the weights that drew it, if the sampler has weights of its own. A sampler that borrows the policy says `None`.
    pub policy_version: Option<PolicyVersion>,
}

/// A stretch of a completion by one author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Who wrote it.
    pub role: Role,
    /// How many tokens it has.
    pub len: usize,
}

/// One answer of a group: what rewards judge and the loss trains on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Completion {
    /// All tokens, whoever wrote them.
    pub tokens: Vec<TokenId>,
    /// Who wrote which stretch; the lengths add up to `tokens.len()`. The loss mask is derived from this.
    pub spans: Vec<Span>,
    /// The sampler's log-probabilities, one a token (0 tokens of the environment are never read).
    pub sampler_log_probs: Vec<f32>,
    /// What they mean.
    pub log_prob_kind: LogProbKind,
    /// The sampling temperature.
    pub temperature: f64,
    /// Why it ended.
    pub finish: FinishReason,
    /// The text, without the end token.
    pub text: String,
    /// The version of the policy that wrote it.
    pub policy_version: PolicyVersion,
}

impl Completion {
    /// A completion that is one span of sampled tokens.
    ///
    /// # Errors
    /// A sample without tokens, with another number of log-probabilities than tokens, or with a log-probability that is not finite or above 0.
    pub fn from_sample(sample: Sample, current: PolicyVersion) -> Result<Self> {
        if sample.tokens.is_empty() {
            return Err(Error::invalid("sample", "has no token, must have at least one"));
        }
        // 3 ids and 2 log-probs is a broken sampler, not a reason to pad: 0.0 would mean probability 1.
        Error::check_shape("sample log-probs", &[sample.log_probs.len()], &[sample.tokens.len()])?;
        if let Some(bad) = sample.log_probs.iter().find(|lp| !lp.is_finite() || **lp > 1e-3) {
            return Err(Error::invalid("sample log-prob", format!("{bad}, must be finite and at most 0")));
        }
        Ok(Self {
            spans: vec![Span { role: Role::Policy, len: sample.tokens.len() }],
            tokens: sample.tokens,
            sampler_log_probs: sample.log_probs,
            log_prob_kind: sample.log_prob_kind,
            temperature: sample.temperature,
            finish: sample.finish,
            text: sample.text,
            policy_version: sample.policy_version.unwrap_or(current),
        })
    }

    /// Which tokens the policy wrote, in order. These are the tokens of the loss.
    ///
    /// ```
    /// # use grpo_core::{Completion, FinishReason, LogProbKind, Sample};
    /// let sample = Sample { tokens: vec![5, 7], log_probs: vec![-0.1, -0.2], log_prob_kind: LogProbKind::Tempered,
    ///     temperature: 1.0, finish: FinishReason::EndToken, text: "hi".into(), policy_version: None };
    /// let completion = Completion::from_sample(sample, 0)?;
    /// assert_eq!(completion.policy_mask(), [true, true]); // the end token is trained, too
    /// # Ok::<(), grpo_core::Error>(())
    /// ```
    pub fn policy_mask(&self) -> Vec<bool> {
        self.spans.iter().flat_map(|s| std::iter::repeat_n(s.role == Role::Policy, s.len)).collect()
    }
}

/// A group's identity. It travels with the group: never inferred from a position or from the prompt's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupId(pub u64);

/// Several completions of one prompt: what GRPO compares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Group<T> {
    /// Its identity; two draws of the same prompt are two groups.
    pub id: GroupId,
    /// What was asked.
    pub prompt: Prompt<T>,
    /// The answers. Groups may be uneven.
    pub completions: Vec<Completion>,
}

impl<T> Group<T> {
    /// A group.
    ///
    /// # Errors
    /// A prompt without tokens, or no completion.
    pub fn new(id: GroupId, prompt: Prompt<T>, completions: Vec<Completion>) -> Result<Self> {
        if prompt.tokens.is_empty() {
            return Err(Error::invalid("prompt", "has no token, must have at least one"));
        }
        if completions.is_empty() {
            return Err(Error::invalid("group", "has no completion, must have at least one"));
        }
        Ok(Self { id, prompt, completions })
    }
}

/// Two groups of one id would be compared with each other.
pub(crate) fn distinct<T>(groups: &[Group<T>]) -> Result<()> {
    let mut seen = std::collections::HashSet::with_capacity(groups.len());
    match groups.iter().find(|group| !seen.insert(group.id)) {
        Some(twice) => {
            Err(Error::invalid("group id", format!("{} stands twice, must be unique: give each rollout a step of its own", twice.id.0)))
        }
        None => Ok(()),
    }
}
