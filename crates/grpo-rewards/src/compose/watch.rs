//! How a reward function fares: calls, failures, time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use grpo_core::{BoxError, Completion, Reward, RewardFn};

/// What a watched function has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WatchedCounts {
    /// Completions judged.
    pub judged: u64,
    /// Of these, the ones it did not apply to: gold answers that cannot be read, for example.
    pub not_applicable: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls that panicked.
    pub panics: u64,
    /// Time within the function, over all threads.
    pub time: Duration,
    /// The longest call.
    pub longest: Duration,
}

#[derive(Debug, Default)]
struct Counters {
    judged: AtomicU64,
    not_applicable: AtomicU64,
    errors: AtomicU64,
    panics: AtomicU64,
    nanos: AtomicU64,
    longest: AtomicU64,
}

/// Counts and times the calls of a function. A panic within becomes an error; what an error does is [`OnRewardError`](grpo_core::OnRewardError)'s business.
///
/// Clones share their counts, so that one can be kept beside a [`Rewards`](grpo_core::Rewards) that owns the other.
///
/// ```
/// use grpo_core::{Rewards, from_fn};
/// use grpo_rewards::compose::Watched;
/// let watched = Watched::new(from_fn("brittle", |_: &String, c| if c.text.is_empty() { panic!("empty") } else { Ok(1.0.into()) }));
/// let rewards = Rewards::new().with(1.0, watched.clone());
/// // … after a rollout:
/// let counts = watched.counts();
/// assert_eq!((counts.judged, counts.panics), (0, 0));
/// # let _: &Rewards<String> = &rewards;
/// ```
#[derive(Debug)]
pub struct Watched<R> {
    inner: Arc<R>,
    counters: Arc<Counters>,
}

impl<R> Clone for Watched<R> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), counters: Arc::clone(&self.counters) }
    }
}

impl<R> Watched<R> {
    /// Watches a function.
    pub fn new(inner: R) -> Self {
        Self { inner: Arc::new(inner), counters: Arc::default() }
    }

    /// What it has done so far.
    pub fn counts(&self) -> WatchedCounts {
        let c = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WatchedCounts {
            judged: read(&c.judged),
            not_applicable: read(&c.not_applicable),
            errors: read(&c.errors),
            panics: read(&c.panics),
            time: Duration::from_nanos(read(&c.nanos)),
            longest: Duration::from_nanos(read(&c.longest)),
        }
    }

    fn watch(&self, completions: usize, call: impl FnOnce() -> Result<Vec<Reward>, BoxError>) -> Result<Vec<Reward>, BoxError> {
        let c = &self.counters;
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(call));
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        c.nanos.fetch_add(nanos, Ordering::Relaxed);
        c.longest.fetch_max(nanos, Ordering::Relaxed);
        c.judged.fetch_add(completions as u64, Ordering::Relaxed);
        match result {
            Ok(Ok(rewards)) => {
                let none = rewards.iter().filter(|r| **r == Reward::NotApplicable).count();
                c.not_applicable.fetch_add(none as u64, Ordering::Relaxed);
                Ok(rewards)
            }
            Ok(Err(error)) => {
                c.errors.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
            Err(panic) => {
                c.panics.fetch_add(1, Ordering::Relaxed);
                let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
                Err(format!("panicked: {}", text.unwrap_or_else(|| "with a value that is not text".to_owned())).into())
            }
        }
    }
}

impl<T: ?Sized, R: RewardFn<T>> RewardFn<T> for Watched<R> {
    fn name(&self) -> &str {
        RewardFn::<T>::name(&*self.inner)
    }
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        let rewards = self.watch(1, || self.inner.score(task, completion).map(|reward| vec![reward]))?;
        rewards.into_iter().next().ok_or_else(|| "no reward".into())
    }
    fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        self.watch(group.len(), || self.inner.score_group(task, group))
    }
}
