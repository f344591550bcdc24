//! A buffer of groups that were worth training on, to be trained on again.

use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::sampler::stream;

/// A bounded buffer of anything, drawn from at random, seeded, without replacement.
///
/// When it is full, the oldest entry makes room. The draw number is part of the state, so a saved buffer goes on as if never stopped.
/// `E` is what a run keeps of a group; the buffer is as serialisable as `E`. Completions in it are stale: they carry the version of
/// the policy that wrote them, and need old log-probabilities.
///
/// ```
/// use grpo_core::ReplayBuffer;
/// let mut buffer = ReplayBuffer::new(3, 42)?;
/// buffer.extend(["a", "b", "c", "d"]); // "a" makes room
/// let mut drawn: Vec<_> = buffer.sample(3).into_iter().copied().collect();
/// drawn.sort();
/// assert_eq!(drawn, ["b", "c", "d"]); // never one of them twice
/// assert_eq!(buffer.take(2).len(), 2);
/// assert_eq!(buffer.len(), 1);
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayBuffer<E> {
    capacity: usize,
    seed: u64,
    draws: u64,
    entries: std::collections::VecDeque<E>,
}

impl<E> ReplayBuffer<E> {
    /// An empty buffer of at most `capacity` entries.
    ///
    /// # Errors
    /// A capacity of 0.
    pub fn new(capacity: usize, seed: u64) -> Result<Self> {
        if capacity == 0 {
            return Err(Error::config("replay capacity", 0, "at least 1"));
        }
        Ok(Self { capacity, seed, draws: 0, entries: std::collections::VecDeque::new() })
    }

    /// Adds an entry. A full buffer gives up its oldest one.
    pub fn push(&mut self, entry: E) -> Option<E> {
        let oldest = if self.entries.len() >= self.capacity { self.entries.pop_front() } else { None };
        self.entries.push_back(entry);
        oldest
    }

    /// Drops entries, oldest first in the order they are asked about: too old, or no longer worth it.
    pub fn retain(&mut self, keep: impl FnMut(&E) -> bool) {
        self.entries.retain(keep);
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter()
    }

    /// `n` different entries at random (all, if there are fewer), in random order. They stay.
    pub fn sample(&mut self, n: usize) -> Vec<&E> {
        let order = self.draw(n);
        order.into_iter().map(|index| &self.entries[index]).collect()
    }

    /// As [`sample`](Self::sample), but they leave the buffer: each entry is trained on again once.
    pub fn take(&mut self, n: usize) -> Vec<E> {
        let order = self.draw(n);
        let mut entries: Vec<Option<E>> = self.entries.drain(..).map(Some).collect();
        let taken = order.into_iter().filter_map(|index| entries[index].take()).collect();
        self.entries = entries.into_iter().flatten().collect();
        taken
    }

    /// The first n places of a random permutation.
    fn draw(&mut self, n: usize) -> Vec<usize> {
        // A stream for each draw: what is drawn depends on the seed and the number of draws, not on generator state.
        let mut rng = stream(self.seed, self.draws as usize);
        self.draws += 1;
        let mut places: Vec<usize> = (0..self.entries.len()).collect();
        let n = n.min(places.len());
        for i in 0..n {
            let j = rng.random_range(i..places.len());
            places.swap(i, j);
        }
        places.truncate(n);
        places
    }
}

impl<E> Extend<E> for ReplayBuffer<E> {
    fn extend<I: IntoIterator<Item = E>>(&mut self, entries: I) {
        entries.into_iter().for_each(|entry| {
            self.push(entry);
        });
    }
}
