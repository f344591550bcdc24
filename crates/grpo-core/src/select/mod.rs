//! Which groups are trained on: filters, refilling (dynamic sampling), replay, truncated completions.

mod filter;
mod refill;
mod replay;
#[cfg(test)]
mod tests;

use crate::group::Group;

pub use filter::{Accuracy, Dropped, GroupFilter, RawReward, Selection, SelectionCounts};
pub use refill::{Refill, refill};
pub use replay::ReplayBuffer;

/// Which completions lose their loss mask because they were cut off, in the order of the groups' completions.
///
/// They stay in their group: their rewards enter its statistics. Only their tokens leave the loss, from its numerator and from every
/// count of tokens in its denominator (overlong filtering of DAPO, arXiv 2503.14476).
///
/// ```
/// # use grpo_core::{Completion, FinishReason, Group, GroupId, LogProbKind, Prompt, Sample, truncated};
/// # let completion = |finish| Completion::from_sample(Sample { tokens: vec![5], log_probs: vec![-0.1], log_prob_kind: LogProbKind::Tempered,
/// #     temperature: 1.0, finish, text: String::new(), policy_version: None }, 0);
/// let completions = vec![completion(FinishReason::EndToken)?, completion(FinishReason::Length)?];
/// let group = Group::new(GroupId(1), Prompt::new(vec![1], ()), completions)?;
/// assert_eq!(truncated(&[group]), [false, true]);
/// # Ok::<(), grpo_core::Error>(())
/// ```
pub fn truncated<T>(groups: &[Group<T>]) -> Vec<bool> {
    groups.iter().flat_map(|g| &g.completions).map(|c| c.finish.is_truncated()).collect()
}
