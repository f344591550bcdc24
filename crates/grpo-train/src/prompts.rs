//! Where prompts come from.

use grpo_core::{BoxError, Group, Prompt, RewardTable, stream};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A source of prompts that can be put back to where it was.
///
/// **If you implement it**: what [`next`](Self::next) gives depends on the state alone, so that a resumed run sees what the unbroken one
/// saw. [`judged`](Self::judged) is the hook of a curriculum; what it learns belongs to the state.
pub trait PromptSource<T>: Send {
    /// The next `count` prompts. Fewer, or none, if they are used up.
    ///
    /// # Errors
    /// Whatever keeps the source from giving prompts.
    fn next(&mut self, count: usize) -> Result<Vec<Prompt<T>>, BoxError>;

    /// Where the source stands.
    ///
    /// # Errors
    /// A state that cannot be written.
    fn state(&self) -> Result<Value, BoxError>;

    /// Puts the source back to a state that [`state`](Self::state) gave.
    ///
    /// # Errors
    /// A state of another source.
    fn restore(&mut self, state: Value) -> Result<(), BoxError>;

    /// What a rollout was worth, before any group is left out.
    fn judged(&mut self, _groups: &[Group<T>], _rewards: &RewardTable) {}
}

/// A list of prompts, each once in a random order, then each once in another: epoch after epoch.
///
/// ```
/// use grpo_core::Prompt;
/// use grpo_train::{PromptSource, Shuffled};
/// let prompts = (0..3).map(|n| Prompt::new(vec![n], n)).collect();
/// let mut source = Shuffled::new(prompts, 1)?;
/// let state = source.next(2).and_then(|_| source.state())?;
/// let after = source.next(5)?; // over the end of the first epoch
/// source.restore(state)?;
/// assert_eq!(source.next(5)?, after);
/// # Ok::<(), grpo_core::BoxError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Shuffled<T> {
    prompts: Vec<Prompt<T>>,
    seed: u64,
    epochs: Option<u64>,
    place: Place,
    /// The order of the epoch in `place`.
    order: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    epoch: u64,
    position: usize,
    prompts: usize,
    seed: u64,
    /// SHA-256 of the prompts and their tasks.
    sha256: String,
}

impl<T: Serialize> Shuffled<T> {
    /// These prompts without end; the seed says in which orders.
    ///
    /// # Errors
    /// No prompt, or one that cannot be written down.
    pub fn new(prompts: Vec<Prompt<T>>, seed: u64) -> crate::Result<Self> {
        if prompts.is_empty() {
            return Err(crate::Error::invalid("prompts", "none, must be at least one"));
        }
        let place = Place { epoch: 0, position: 0, prompts: prompts.len(), seed, sha256: hash(&prompts)? };
        let mut source = Self { prompts, seed, epochs: None, place, order: Vec::new() };
        source.shuffle();
        Ok(source)
    }
}

impl<T> Shuffled<T> {
    /// So many epochs, then no more.
    pub fn with_epochs(mut self, epochs: u64) -> Self {
        self.epochs = Some(epochs);
        self
    }

    /// How many epochs are done.
    pub fn epoch(&self) -> u64 {
        self.place.epoch
    }

    /// The order of an epoch is a function of seed and epoch: nothing but two numbers is state.
    fn shuffle(&mut self) {
        self.order = (0..self.prompts.len()).collect();
        // The streams of samples count from 0 on; these count down.
        self.order.shuffle(&mut stream(self.seed, usize::MAX - self.place.epoch as usize));
    }
}

/// SHA-256 of prompts and tasks.
fn hash<T: Serialize>(prompts: &[Prompt<T>]) -> crate::Result<String> {
    let mut hash = Sha256::new();
    for prompt in prompts {
        hash.update(serde_json::to_vec(prompt).map_err(|e| crate::Error::Prompts(e.into()))?);
    }
    Ok(format!("{:x}", hash.finalize()))
}

impl<T: Clone + Send> PromptSource<T> for Shuffled<T> {
    fn next(&mut self, count: usize) -> Result<Vec<Prompt<T>>, BoxError> {
        let mut drawn = Vec::with_capacity(count);
        while drawn.len() < count && self.epochs.is_none_or(|epochs| self.place.epoch < epochs) {
            if let Some(&index) = self.order.get(self.place.position) {
                drawn.push(self.prompts[index].clone());
                self.place.position += 1;
            }
            if self.place.position >= self.order.len() {
                (self.place.epoch, self.place.position) = (self.place.epoch + 1, 0);
                self.shuffle();
            }
        }
        Ok(drawn)
    }

    fn state(&self) -> Result<Value, BoxError> {
        Ok(serde_json::to_value(&self.place)?)
    }

    fn restore(&mut self, state: Value) -> Result<(), BoxError> {
        let place: Place = serde_json::from_value(state)?;
        if (place.prompts, place.seed) != (self.prompts.len(), self.seed) || place.position >= self.prompts.len() {
            return Err(format!(
                "the state is of {} prompts with seed {}, these are {} with seed {}",
                place.prompts,
                place.seed,
                self.prompts.len(),
                self.seed
            )
            .into());
        }
        if place.sha256 != self.place.sha256 {
            return Err(
                format!("the state is of other prompts or tasks: SHA-256 {}, these have {}", place.sha256, self.place.sha256).into()
            );
        }
        self.place = place;
        self.shuffle();
        Ok(())
    }
}

/// Prompts from a function of the draw's number (from 0) and of how many are wanted: for tasks that make their problems up.
///
/// ```
/// use grpo_core::Prompt;
/// use grpo_train::{Drawn, PromptSource};
/// let mut source = Drawn::new(|draw, count| (0..count).map(|i| Prompt::new(vec![draw as u32, i as u32], ())).collect());
/// assert_eq!(source.next(1)?[0].tokens, [0, 0]);
/// assert_eq!(source.next(1)?[0].tokens, [1, 0]);
/// # Ok::<(), grpo_core::BoxError>(())
/// ```
pub struct Drawn<T> {
    draw: Box<dyn FnMut(u64, usize) -> Vec<Prompt<T>> + Send>,
    draws: u64,
}

impl<T> std::fmt::Debug for Drawn<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drawn").field("draws", &self.draws).finish_non_exhaustive()
    }
}

impl<T> Drawn<T> {
    /// From a function that depends on its arguments alone.
    pub fn new(draw: impl FnMut(u64, usize) -> Vec<Prompt<T>> + Send + 'static) -> Self {
        Self { draw: Box::new(draw), draws: 0 }
    }
}

impl<T> PromptSource<T> for Drawn<T> {
    fn next(&mut self, count: usize) -> Result<Vec<Prompt<T>>, BoxError> {
        let drawn = (self.draw)(self.draws, count);
        self.draws += 1;
        Ok(drawn)
    }

    fn state(&self) -> Result<Value, BoxError> {
        Ok(self.draws.into())
    }

    fn restore(&mut self, state: Value) -> Result<(), BoxError> {
        self.draws = serde_json::from_value(state)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: u32) -> Shuffled<u32> {
        Shuffled::new((0..n).map(|i| Prompt::new(vec![i], i)).collect(), 7).unwrap()
    }

    fn tasks(prompts: Vec<Prompt<u32>>) -> Vec<u32> {
        prompts.into_iter().map(|p| p.task).collect()
    }

    #[test]
    fn an_epoch_has_every_prompt_once_and_the_next_one_another_order() {
        let mut source = source(20);
        let (first, second) = (tasks(source.next(20).unwrap()), tasks(source.next(20).unwrap()));
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
        assert_ne!(first, second);
        assert_eq!(source.epoch(), 2);
    }

    #[test]
    fn a_restored_source_goes_on_also_at_the_border_of_an_epoch() {
        for stop in 0..12 {
            let mut whole = source(5);
            tasks(whole.next(stop).unwrap());
            let mut resumed = source(5);
            resumed.restore(whole.state().unwrap()).unwrap();
            assert_eq!(tasks(resumed.next(13).unwrap()), tasks(whole.next(13).unwrap()), "stopped after {stop}");
        }
    }

    #[test]
    fn so_many_epochs_and_then_no_more() {
        let mut source = source(3).with_epochs(2);
        assert_eq!(source.next(4).unwrap().len(), 4);
        assert_eq!(source.next(4).unwrap().len(), 2);
        assert_eq!(source.next(4).unwrap().len(), 0);
    }

    #[test]
    fn a_state_of_other_prompts_is_refused() {
        let error = source(5).restore(source(6).state().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "the state is of 6 prompts with seed 7, these are 5 with seed 7");
        let (mut others, state) = ((0..5).map(|i| Prompt::new(vec![i], i)).collect::<Vec<_>>(), source(5).state().unwrap());
        others[3].task = 9;
        let error = Shuffled::new(others, 7).unwrap().restore(state).unwrap_err();
        assert!(error.to_string().starts_with("the state is of other prompts or tasks: SHA-256 "), "{error}");
    }
}
