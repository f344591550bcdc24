//! Rewards: what a completion is worth.

use serde::{Deserialize, Serialize};

use crate::error::BoxError;
use crate::group::Completion;

/// What one reward function says of one completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reward {
    /// One score for the whole completion. A wrong answer is `Outcome(0.0)`, not an error.
    Outcome(f64),
    /// A score per reasoning step, each with the index of the step's last token.
    Steps(Vec<(usize, f64)>),
    /// This function has nothing to say of this completion. Neither 0 nor an error: it stays out of every statistic.
    NotApplicable,
}

impl From<f64> for Reward {
    fn from(score: f64) -> Self {
        Self::Outcome(score)
    }
}

/// Judges completions.
///
/// **If you implement it**: [`score`](Self::score) is the one required method; `Ok(0.0.into())` is a wrong answer,
/// `Err` a broken grader, [`Reward::NotApplicable`] neither. Override [`score_group`](Self::score_group) to compare the
/// completions of a group with each other. **If you call it**: go through [`Rewards`](crate::Rewards), which checks lengths and values and contains panics.
///
/// ```
/// use grpo_core::{BoxError, Completion, Reward, RewardFn};
/// struct Exact;
/// impl RewardFn<String> for Exact {
///     fn name(&self) -> &str { "exact" }
///     fn score(&self, answer: &String, completion: &Completion) -> Result<Reward, BoxError> {
///         Ok(f64::from(u8::from(completion.text.trim() == answer)).into())
///     }
/// }
/// ```
pub trait RewardFn<T: ?Sized>: Send + Sync {
    /// A short name for metrics and messages.
    fn name(&self) -> &str;

    /// The reward of one completion.
    ///
    /// # Errors
    /// When the grader itself is broken. What happens then is [`OnRewardError`](crate::OnRewardError)'s business.
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError>;

    /// The rewards of a whole group, in order, one a completion.
    ///
    /// # Errors
    /// As [`score`](Self::score).
    fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        group.iter().map(|completion| self.score(task, completion)).collect()
    }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        impl<T: ?Sized, R: RewardFn<T> + ?Sized> RewardFn<T> for $pointer {
            fn name(&self) -> &str { (**self).name() }
            fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> { (**self).score(task, completion) }
            fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> { (**self).score_group(task, group) }
        }
    )*};
}
forward!(&R, Box<R>, std::sync::Arc<R>);

/// A reward function from a name and a closure.
///
/// ```
/// use grpo_core::{RewardFn, from_fn};
/// let short = from_fn("short", |limit: &usize, completion| Ok(f64::from(u8::from(completion.tokens.len() <= *limit)).into()));
/// assert_eq!(short.name(), "short");
/// ```
pub fn from_fn<T: ?Sized, F>(name: impl Into<String>, score: F) -> FromFn<F>
where
    F: Fn(&T, &Completion) -> Result<Reward, BoxError> + Send + Sync,
{
    FromFn { name: name.into(), score }
}

/// What [`from_fn`] makes.
#[derive(Debug, Clone)]
pub struct FromFn<F> {
    name: String,
    score: F,
}

impl<T: ?Sized, F> RewardFn<T> for FromFn<F>
where
    F: Fn(&T, &Completion) -> Result<Reward, BoxError> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        (self.score)(task, completion)
    }
}
