//! Reward functions that change what another one says.

use serde::{Deserialize, Serialize};

use super::length::{CosineLength, ShorterWins, Verdict};
use crate::error::{BoxError, Error, Result};
use crate::group::Completion;
use crate::reward::{Reward, RewardFn};
use crate::token::FinishReason;

/// Maps every number of a reward.
fn map(reward: Reward, f: impl Fn(f64) -> f64) -> Reward {
    match reward {
        Reward::Outcome(r) => Reward::Outcome(f(r)),
        Reward::Steps(steps) => Reward::Steps(steps.into_iter().map(|(end, r)| (end, f(r))).collect()),
        Reward::NotApplicable => Reward::NotApplicable,
    }
}

/// As many answers as completions.
fn of_group(rewards: usize, group: usize) -> std::result::Result<(), BoxError> {
    if rewards == group { Ok(()) } else { Err(format!("returned {rewards} rewards for {group} completions").into()) }
}

/// Stop properly: the reward of a truncated completion is multiplied by a coefficient in [0, 1].
///
/// A negative reward shrinks, too: with wrong answers below 0, being cut off would be a way out. Use rewards of at least 0.
///
/// # Source
/// `stop_properly_penalty_coef` of NeMo RL.
#[derive(Debug, Clone)]
pub struct StopProperly<R> {
    inner: R,
    coefficient: f64,
}

impl<R> StopProperly<R> {
    /// Wraps a reward function.
    ///
    /// # Errors
    /// A coefficient outside [0, 1].
    pub fn new(inner: R, coefficient: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&coefficient) {
            return Err(Error::config("stop properly coefficient", coefficient, "between 0 and 1"));
        }
        Ok(Self { inner, coefficient })
    }
}

impl StopProperly<()> {
    /// The shaped reward.
    ///
    /// ```
    /// use grpo_core::{FinishReason, StopProperly};
    /// assert_eq!(StopProperly::of(0.8, FinishReason::Length, 0.5), 0.4);
    /// assert_eq!(StopProperly::of(0.8, FinishReason::EndToken, 0.5), 0.8);
    /// ```
    pub fn of(reward: f64, finish: FinishReason, coefficient: f64) -> f64 {
        if finish.is_truncated() { reward * coefficient } else { reward }
    }
}

impl<T: ?Sized, R: RewardFn<T>> RewardFn<T> for StopProperly<R> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn score(&self, task: &T, completion: &Completion) -> std::result::Result<Reward, BoxError> {
        Ok(map(self.inner.score(task, completion)?, |r| StopProperly::of(r, completion.finish, self.coefficient)))
    }

    fn score_group(&self, task: &T, group: &[Completion]) -> std::result::Result<Vec<Reward>, BoxError> {
        let rewards = self.inner.score_group(task, group)?;
        of_group(rewards.len(), group.len())?;
        let shaped = rewards.into_iter().zip(group).map(|(r, c)| map(r, |r| StopProperly::of(r, c.finish, self.coefficient)));
        Ok(shaped.collect())
    }
}

/// A linear map of [source.0, source.1] onto [target.0, target.1]; what lies outside the source is clipped to it.
///
/// ```
/// use grpo_core::Rescale;
/// let rescale = Rescale { source: (-2.0, 2.0), target: (-1.0, 1.0) };
/// assert_eq!([-2.8, -0.25, 1.5, 2.5].map(|r| rescale.of(r)), [-1.0, -0.125, 0.75, 1.0]);
/// ```
///
/// # Source
/// `scaling` of NeMo RL.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rescale {
    /// The rewards as they are, the first below the second.
    pub source: (f64, f64),
    /// The rewards as they are to be.
    pub target: (f64, f64),
}

impl Rescale {
    /// Checks every field.
    ///
    /// # Errors
    /// A bound that is not finite, a source without width.
    pub fn validate(&self) -> Result<()> {
        if [self.source.0, self.source.1, self.target.0, self.target.1].iter().any(|b| !b.is_finite()) || self.source.0 >= self.source.1 {
            let given = format!("{:?} to {:?}", self.source, self.target);
            return Err(Error::config("rescale", given, "finite bounds, the source's first below its second"));
        }
        Ok(())
    }

    /// The rescaled reward.
    pub fn of(&self, reward: f64) -> f64 {
        let share = (reward.max(self.source.0).min(self.source.1) - self.source.0) / (self.source.1 - self.source.0);
        self.target.0 + share * (self.target.1 - self.target.0)
    }

    /// A reward function whose outcomes are rescaled.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn around<R>(self, inner: R) -> Result<Rescaled<R>> {
        self.validate().map(|()| Rescaled { inner, rescale: self })
    }
}

/// What [`Rescale::around`] makes.
#[derive(Debug, Clone)]
pub struct Rescaled<R> {
    inner: R,
    rescale: Rescale,
}

impl<T: ?Sized, R: RewardFn<T>> RewardFn<T> for Rescaled<R> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn score(&self, task: &T, completion: &Completion) -> std::result::Result<Reward, BoxError> {
        Ok(map(self.inner.score(task, completion)?, |r| self.rescale.of(r)))
    }

    fn score_group(&self, task: &T, group: &[Completion]) -> std::result::Result<Vec<Reward>, BoxError> {
        Ok(self.inner.score_group(task, group)?.into_iter().map(|r| map(r, |r| self.rescale.of(r))).collect())
    }
}

/// A length reward that needs to know which answers are right: it asks another reward function. Lengths are tokens of a completion.
///
/// An answer is right where the inner reward (steps: their sum) reaches `threshold`. Where the inner one does not apply, neither does this.
#[derive(Debug, Clone)]
pub struct Judged<R, L> {
    inner: R,
    length: L,
    threshold: f64,
}

impl<R, L> Judged<R, L> {
    /// `length` is [`CosineLength`] or [`ShorterWins`]; right is what `inner` gives 1 or more.
    pub fn new(inner: R, length: L) -> Self {
        Self { inner, length, threshold: 1.0 }
    }

    /// Right is what the inner function gives this or more.
    pub fn right_from(mut self, threshold: f64) -> Self {
        self.threshold = threshold;
        self
    }

    fn verdict(&self, reward: &Reward) -> Option<Verdict> {
        match reward {
            Reward::Outcome(r) => Some(Verdict::of(*r, self.threshold)),
            Reward::Steps(steps) => Some(Verdict::of(steps.iter().map(|(_, r)| r).sum(), self.threshold)),
            Reward::NotApplicable => None,
        }
    }
}

impl<T: ?Sized, R: RewardFn<T>> RewardFn<T> for Judged<R, CosineLength> {
    fn name(&self) -> &str {
        "cosine"
    }

    fn score(&self, task: &T, completion: &Completion) -> std::result::Result<Reward, BoxError> {
        self.length.validate()?;
        let verdict = self.verdict(&self.inner.score(task, completion)?);
        Ok(verdict.map_or(Reward::NotApplicable, |v| self.length.of(completion.tokens.len(), v).into()))
    }

    fn score_group(&self, task: &T, group: &[Completion]) -> std::result::Result<Vec<Reward>, BoxError> {
        self.length.validate()?;
        let inner = self.inner.score_group(task, group)?;
        of_group(inner.len(), group.len())?;
        let reward =
            |(r, c): (&Reward, &Completion)| self.verdict(r).map_or(Reward::NotApplicable, |v| self.length.of(c.tokens.len(), v).into());
        Ok(inner.iter().zip(group).map(reward).collect())
    }
}

impl<T: ?Sized, R: RewardFn<T>> RewardFn<T> for Judged<R, ShorterWins> {
    fn name(&self) -> &str {
        "shorter_wins"
    }

    /// A completion alone has nothing to be shorter than: 0.
    fn score(&self, task: &T, completion: &Completion) -> std::result::Result<Reward, BoxError> {
        Ok(self.verdict(&self.inner.score(task, completion)?).map_or(Reward::NotApplicable, |_| 0.0.into()))
    }

    fn score_group(&self, task: &T, group: &[Completion]) -> std::result::Result<Vec<Reward>, BoxError> {
        let inner = self.inner.score_group(task, group)?;
        of_group(inner.len(), group.len())?;
        let judged: Vec<(usize, usize, Verdict)> =
            inner.iter().zip(group).enumerate().filter_map(|(i, (r, c))| self.verdict(r).map(|v| (i, c.tokens.len(), v))).collect();
        let (lengths, verdicts): (Vec<usize>, Vec<Verdict>) = judged.iter().map(|&(_, len, v)| (len, v)).unzip();
        let mut rewards = vec![Reward::NotApplicable; group.len()];
        for (&(index, ..), reward) in judged.iter().zip(ShorterWins::of(&lengths, &verdicts)?) {
            rewards[index] = reward.into();
        }
        Ok(rewards)
    }
}
