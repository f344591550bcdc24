//! A memory of rewards already given.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use grpo_core::{BoxError, Completion, Error, Reward, RewardFn};

/// A task, a text, and their reward.
type Entry<T> = (T, String, Reward);

/// How often a cache was asked, and how often it knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheCounts {
    /// Rewards given from memory.
    pub hits: u64,
    /// Rewards worked out.
    pub misses: u64,
}

/// Remembers what `inner` said of a task and a text: for rewards that are slow and depend on nothing else (code, a judge).
///
/// Errors are not remembered. When the memory is full it is emptied. Tasks and texts are compared in full, not by hash.
///
/// ```
/// use grpo_core::{RewardFn, from_fn};
/// use grpo_rewards::compose::Cached;
/// let cached = Cached::new(from_fn("slow", |_: &String, c| Ok((c.text.len() as f64).into())), 1000)?;
/// # let c = |text: &str| grpo_core::Completion::from_sample(grpo_core::Sample { tokens: vec![1], log_probs: vec![0.0], log_prob_kind: grpo_core::LogProbKind::Tempered,
/// #     temperature: 1.0, finish: grpo_core::FinishReason::EndToken, text: text.into(), policy_version: None }, 0).unwrap();
/// let task = "task".to_owned();
/// cached.score_group(&task, &[c("a"), c("bb"), c("a")])?;
/// assert_eq!((cached.counts().hits, cached.counts().misses), (1, 2));
/// # Ok::<(), grpo_core::BoxError>(())
/// ```
#[derive(Debug)]
pub struct Cached<T, R> {
    inner: R,
    capacity: usize,
    hasher: RandomState,
    known: Mutex<HashMap<u64, Vec<Entry<T>>>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl<T, R> Cached<T, R> {
    /// With room for so many different tasks and texts.
    ///
    /// # Errors
    /// No room.
    pub fn new(inner: R, capacity: usize) -> Result<Self, Error> {
        if capacity == 0 {
            return Err(Error::config("cache capacity", 0, "at least 1"));
        }
        Ok(Self {
            inner,
            capacity,
            hasher: RandomState::new(),
            known: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })
    }

    /// How often it was asked so far.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts { hits: self.hits.load(Ordering::Relaxed), misses: self.misses.load(Ordering::Relaxed) }
    }
}

impl<T: Hash + Eq + Clone, R> Cached<T, R> {
    fn recall(&self, key: u64, task: &T, text: &str) -> Option<Reward> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key)?.iter().find(|(t, x, _)| t == task && x == text).map(|(_, _, reward)| reward.clone())
    }

    fn remember(&self, key: u64, task: &T, text: &str, reward: &Reward) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.capacity {
            known.clear();
        }
        known.entry(key).or_default().push((task.clone(), text.to_owned(), reward.clone()));
    }
}

impl<T: Hash + Eq + Clone + Send + Sync, R: RewardFn<T>> RewardFn<T> for Cached<T, R> {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn score(&self, task: &T, completion: &Completion) -> Result<Reward, BoxError> {
        let key = self.hasher.hash_one((task, &completion.text));
        if let Some(reward) = self.recall(key, task, &completion.text) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(reward);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        // The lock is not held while the inner function works.
        let reward = self.inner.score(task, completion)?;
        // Steps end at tokens; two token sequences may have one text.
        if !matches!(reward, Reward::Steps(_)) {
            self.remember(key, task, &completion.text, &reward);
        }
        Ok(reward)
    }
}
