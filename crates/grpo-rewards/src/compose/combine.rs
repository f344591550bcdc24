//! Sums, products, gates, clipping.

use grpo_core::{BoxError, Completion, Error, Reward, RewardFn};

/// A reward function behind a pointer.
type Boxed<T> = Box<dyn RewardFn<T>>;

/// One number of a reward: the sum of its steps, if it has steps.
fn number(reward: &Reward) -> Option<f64> {
    match reward {
        Reward::Outcome(score) => Some(*score),
        Reward::Steps(steps) => Some(steps.iter().map(|(_, score)| score).sum()),
        _ => None,
    }
}

/// What several functions say of a group, by completion; each function sees the whole group at once.
fn columns<T: ?Sized>(functions: &[&Boxed<T>], task: &T, group: &[Completion]) -> Result<Vec<Vec<Reward>>, BoxError> {
    let mut all = Vec::with_capacity(functions.len());
    for function in functions {
        let column = function.score_group(task, group)?;
        Error::check_shape("rewards of a part", &[column.len()], &[group.len()])?;
        all.push(column);
    }
    Ok(all)
}

/// Σ w · r over the parts that apply; does not apply if none does.
///
/// ```
/// use grpo_core::{Completion, RewardFn};
/// use grpo_rewards::answer::LineAnswer;
/// use grpo_rewards::compose::Sum;
/// use grpo_rewards::format::Format;
/// let sum = Sum::<str>::new("answer_and_form").with(1.0, LineAnswer)?.with(0.1, Format::think_answer())?;
/// assert_eq!(RewardFn::<str>::name(&sum), "answer_and_form");
/// assert!(Sum::<str>::new("bad").with(f64::NAN, LineAnswer).is_err());
/// # Ok::<(), grpo_core::Error>(())
/// ```
pub struct Sum<T: ?Sized> {
    name: String,
    parts: Vec<(f64, Boxed<T>)>,
}

impl<T: ?Sized> Sum<T> {
    /// An empty sum, which never applies.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), parts: Vec::new() }
    }

    /// Adds a part.
    ///
    /// # Errors
    /// A weight that is not finite.
    pub fn with(mut self, weight: f64, part: impl RewardFn<T> + 'static) -> Result<Self, Error> {
        if !weight.is_finite() {
            return Err(Error::config("weight", weight, "finite"));
        }
        self.parts.push((weight, Box::new(part)));
        Ok(self)
    }

    fn total(&self, rewards: impl Iterator<Item = Reward>) -> Reward {
        let terms = rewards.zip(&self.parts).filter_map(|(reward, (weight, _))| number(&reward).map(|score| weight * score));
        terms.fold(None, |sum: Option<f64>, term| Some(sum.unwrap_or(0.0) + term)).map_or(Reward::NotApplicable, Reward::Outcome)
    }
}

impl<T: ?Sized> RewardFn<T> for Sum<T> {
    fn name(&self) -> &str {
        &self.name
    }
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        let rewards: Result<Vec<Reward>, BoxError> = self.parts.iter().map(|(_, part)| part.score(task, completion)).collect();
        Ok(self.total(rewards?.into_iter()))
    }
    fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        let all = columns(&self.parts.iter().map(|(_, part)| part).collect::<Vec<_>>(), task, group)?;
        Ok((0..group.len()).map(|i| self.total(all.iter().map(|column| column[i].clone()))).collect())
    }
}

/// Π r over the parts; does not apply where one of them does not.
pub struct Product<T: ?Sized> {
    name: String,
    parts: Vec<Boxed<T>>,
}

impl<T: ?Sized> Product<T> {
    /// An empty product, which never applies.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), parts: Vec::new() }
    }

    /// Adds a factor.
    pub fn with(mut self, part: impl RewardFn<T> + 'static) -> Self {
        self.parts.push(Box::new(part));
        self
    }

    fn product(&self, rewards: impl Iterator<Item = Reward>) -> Reward {
        let factors: Option<Vec<f64>> = rewards.map(|reward| number(&reward)).collect();
        match factors {
            Some(factors) if !factors.is_empty() => Reward::Outcome(factors.iter().product()),
            _ => Reward::NotApplicable,
        }
    }
}

impl<T: ?Sized> RewardFn<T> for Product<T> {
    fn name(&self) -> &str {
        &self.name
    }
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        let rewards: Result<Vec<Reward>, BoxError> = self.parts.iter().map(|part| part.score(task, completion)).collect();
        Ok(self.product(rewards?.into_iter()))
    }
    fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        let all = columns(&self.parts.iter().collect::<Vec<_>>(), task, group)?;
        Ok((0..group.len()).map(|i| self.product(all.iter().map(|column| column[i].clone()))).collect())
    }
}

/// `inner` where `condition` reaches a threshold, else a fixed reward: format only counts if the answer is right.
///
/// Where the condition does not apply, the gate does not. The inner function is asked only behind an open gate, one completion at a time.
///
/// ```
/// use grpo_rewards::answer::{Extract, NumericAnswer};
/// use grpo_rewards::compose::Gate;
/// use grpo_rewards::format::Format;
/// let gate = Gate::new(NumericAnswer::new(Extract::tag("answer")), 1.0, Format::think_answer()).otherwise(0.0)?;
/// # let _: &dyn grpo_core::RewardFn<str> = &gate;
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Gate<C, R> {
    condition: C,
    threshold: f64,
    inner: R,
    otherwise: f64,
}

impl<C, R> Gate<C, R> {
    /// Opens where the condition's reward is at least `threshold`; else the reward is 0.
    pub fn new(condition: C, threshold: f64, inner: R) -> Self {
        Self { condition, threshold, inner, otherwise: 0.0 }
    }

    /// Sets the reward behind a closed gate.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn otherwise(mut self, reward: f64) -> Result<Self, Error> {
        if !reward.is_finite() {
            return Err(Error::config("reward behind a closed gate", reward, "finite"));
        }
        self.otherwise = reward;
        Ok(self)
    }
}

impl<T: ?Sized, C: RewardFn<T>, R: RewardFn<T>> RewardFn<T> for Gate<C, R> {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        match number(&self.condition.score(task, completion)?) {
            None => Ok(Reward::NotApplicable),
            Some(score) if score >= self.threshold => self.inner.score(task, completion),
            Some(_) => Ok(Reward::Outcome(self.otherwise)),
        }
    }
}

/// A reward kept within bounds; step rewards one by one.
#[derive(Debug, Clone)]
pub struct Clipped<R> {
    inner: R,
    low: f64,
    high: f64,
}

impl<R> Clipped<R> {
    /// Keeps `inner` within \[low, high\]. A NaN stays one, for the caller to refuse.
    ///
    /// # Errors
    /// Bounds that are not finite, or low > high.
    pub fn new(inner: R, low: f64, high: f64) -> Result<Self, Error> {
        if !(low.is_finite() && high.is_finite() && low <= high) {
            return Err(Error::config("clip bounds", format!("[{low}, {high}]"), "finite, the low one first"));
        }
        Ok(Self { inner, low, high })
    }

    fn clip(&self, reward: Reward) -> Reward {
        match reward {
            Reward::Outcome(score) => Reward::Outcome(score.clamp(self.low, self.high)),
            Reward::Steps(steps) => Reward::Steps(steps.into_iter().map(|(end, score)| (end, score.clamp(self.low, self.high))).collect()),
            other => other,
        }
    }
}

impl<T: ?Sized, R: RewardFn<T>> RewardFn<T> for Clipped<R> {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        self.inner.score(task, completion).map(|reward| self.clip(reward))
    }
    fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        Ok(self.inner.score_group(task, group)?.into_iter().map(|reward| self.clip(reward)).collect())
    }
}
