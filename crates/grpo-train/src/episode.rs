//! Episodes: an environment (a tool, a game) answers what the policy writes, and the policy goes on.

use grpo_core::{
    BoxError, Completion, FinishReason, Group, Prompt, Role, RolloutPlan, SampleRequest, Sampler, Span, TokenId, group_seed, rollout,
};

use crate::config::EpisodeLimits;
use crate::error::{Error, Result};

/// What an environment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Nothing: the episode is over.
    End,
    /// These tokens, which the policy reads before it goes on. They are never trained on.
    Reply {
        /// The tokens, exactly as the policy will read them.
        tokens: Vec<TokenId>,
        /// The text they stand for. Empty where there is no text.
        text: String,
    },
}

/// Answers a completion with more tokens.
///
/// **If you implement it**: the answer depends on the task and the completion alone, so that a resumed run sees the same. State of an episode
/// is read from its tokens. **What becomes of the answer**: its tokens stand in the completion in a span of
/// [`Role::Environment`]; the loss mask leaves them out, and they count in no normaliser.
pub trait Environment<T>: Send {
    /// Answers the end of a turn. The completion is whole so far: all turns, and the environment's own answers.
    ///
    /// # Errors
    /// An environment that is broken. A mistake of the policy's is an answer, not an error.
    fn reply(&mut self, task: &T, completion: &Completion) -> std::result::Result<Turn, BoxError>;
}

/// A rollout whose completions are episodes: as [`rollout`], then turn by turn until the environment ends the episode, or a limit does.
///
/// `plan.params.max_tokens` is the limit of a turn. An episode that a limit ends has finished as [`FinishReason::Length`]. Turn k of sample i draws
/// from a seed of its own, whatever the other episodes do.
///
/// # Errors
/// As [`rollout`]; an environment that fails, or answers without a token.
pub fn rollout_episodes<T, P: ?Sized, S: Sampler<P> + ?Sized, E: Environment<T> + ?Sized>(
    policy: &P,
    sampler: &mut S,
    environment: &mut E,
    prompts: Vec<Prompt<T>>,
    plan: &RolloutPlan,
    limits: &EpisodeLimits,
) -> Result<Vec<Group<T>>> {
    let mut groups = rollout(policy, sampler, prompts, plan)?;
    let mut open: Vec<(usize, usize)> =
        groups.iter().enumerate().flat_map(|(g, group)| (0..group.completions.len()).map(move |c| (g, c))).collect();
    for turn in 1.. {
        let mut next = Vec::new();
        for (g, c) in open {
            let group = &mut groups[g];
            // A turn that was cut off by its own limit is no turn to answer.
            if group.completions[c].finish.is_truncated() {
                continue;
            }
            let reply = environment.reply(&group.prompt.task, &group.completions[c]).map_err(Error::Environment)?;
            if let Turn::Reply { tokens, text } = reply
                && append_reply(&mut group.completions[c], tokens, &text, turn, plan.params.max_tokens, limits)?
            {
                next.push((g, c));
            }
        }
        open = next;
        if open.is_empty() {
            break;
        }
        go_on(policy, sampler, &mut groups, &open, turn as u64, plan)?;
    }
    Ok(groups)
}

/// Adds the environment's answer, and says whether the policy may go on.
fn append_reply(
    completion: &mut Completion,
    tokens: Vec<TokenId>,
    text: &str,
    turn: usize,
    turn_tokens: usize,
    limits: &EpisodeLimits,
) -> Result<bool> {
    if tokens.is_empty() {
        return Err(Error::Environment("answered without a token, must be at least one (or Turn::End)".into()));
    }
    if turn >= limits.max_turns || completion.tokens.len() + tokens.len() + turn_tokens > limits.max_tokens {
        completion.finish = FinishReason::Length;
        return Ok(false);
    }
    completion.spans.push(Span { role: Role::Environment, len: tokens.len() });
    // Never read: the mask leaves these places out.
    completion.sampler_log_probs.extend(std::iter::repeat_n(0.0, tokens.len()));
    completion.tokens.extend(tokens);
    completion.text.push_str(text);
    Ok(true)
}

/// Another turn of the open episodes.
fn go_on<T, P: ?Sized, S: Sampler<P> + ?Sized>(
    policy: &P,
    sampler: &mut S,
    groups: &mut [Group<T>],
    open: &[(usize, usize)],
    turn: u64,
    plan: &RolloutPlan,
) -> Result<()> {
    let prefixes: Vec<Vec<TokenId>> =
        open.iter().map(|&(g, c)| [groups[g].prompt.tokens.as_slice(), &groups[g].completions[c].tokens].concat()).collect();
    let requests: Vec<SampleRequest<'_>> = open
        .iter()
        .zip(&prefixes)
        .map(|(&(g, c), prefix)| {
            let seed = group_seed(group_seed(plan.seed, plan.step, g as u64), turn, c as u64);
            SampleRequest { group: groups[g].id, prefix, samples: 1, seed }
        })
        .collect();
    let answers = sampler.sample(policy, &requests, &plan.params).map_err(grpo_core::Error::Sampler)?;
    grpo_core::Error::check_shape("sampler answers", &[answers.len()], &[open.len()])?;
    for (&(g, c), mut samples) in open.iter().zip(answers) {
        let (Some(sample), true) = (samples.pop(), samples.is_empty()) else {
            return Err(Error::invalid("sampler answers", "another number of samples than one, which was asked for"));
        };
        let more = Completion::from_sample(sample, plan.policy_version)?;
        let completion = &mut groups[g].completions[c];
        if more.log_prob_kind != completion.log_prob_kind {
            let problem = format!("{:?} in one turn, {:?} in another", more.log_prob_kind, completion.log_prob_kind);
            return Err(Error::invalid("sampler log-probs", problem));
        }
        completion.spans.extend(more.spans);
        completion.tokens.extend(more.tokens);
        completion.sampler_log_probs.extend(more.sampler_log_probs);
        completion.text.push_str(&more.text);
        completion.finish = more.finish;
    }
    Ok(())
}
