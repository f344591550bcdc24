//! The price of saying the same again.

use std::collections::HashSet;
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use crate::error::{BoxError, Error, Result};
use crate::group::Completion;
use crate::reward::{Reward, RewardFn};

/// What n-grams are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepetitionUnit {
    /// Token ids (TRL).
    #[default]
    Tokens,
    /// Words of the text, in lower case, split at white space (open-r1).
    Words,
}

/// max_penalty · (1 − different n-grams / all n-grams); 0 for a completion of fewer than n units.
///
/// In (max_penalty, 0].
///
/// ```
/// use grpo_core::RepetitionPenalty;
/// let penalty = RepetitionPenalty::new(2, -1.0)?;
/// assert_eq!(penalty.of_tokens(&[5, 5, 5, 5, 5]), -0.75); // four 2-grams, one of a kind
/// assert_eq!(penalty.of_words("This is THIS is"), -1.0 / 3.0);
/// assert!(RepetitionPenalty::new(2, 1.0).is_err()); // it would pay for repetition
/// # Ok::<(), grpo_core::Error>(())
/// ```
///
/// # Source
/// arXiv 2502.03373; open-r1 and TRL.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepetitionPenalty {
    /// n, at least 1.
    pub ngram: usize,
    /// What a completion loses at most, at most 0.
    pub max_penalty: f64,
    /// What the reward function counts.
    #[serde(default)]
    pub unit: RepetitionUnit,
}

impl RepetitionPenalty {
    /// Over token ids.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn new(ngram: usize, max_penalty: f64) -> Result<Self> {
        let this = Self { ngram, max_penalty, unit: RepetitionUnit::Tokens };
        this.validate().map(|()| this)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// n = 0, a penalty above 0 or not finite.
    pub fn validate(&self) -> Result<()> {
        if self.ngram == 0 {
            return Err(Error::config("repetition ngram", 0, "at least 1"));
        }
        if !self.max_penalty.is_finite() || self.max_penalty > 0.0 {
            return Err(Error::config("repetition max_penalty", self.max_penalty, "finite and at most 0"));
        }
        Ok(())
    }

    /// The reward, at most 0, of these token ids.
    pub fn of_tokens(&self, tokens: &[u32]) -> f64 {
        self.of(tokens)
    }

    /// The reward, at most 0, of a text.
    pub fn of_words(&self, text: &str) -> f64 {
        let lower = text.to_lowercase();
        self.of(&lower.split_whitespace().collect::<Vec<_>>())
    }

    fn of<U: Hash + Eq>(&self, units: &[U]) -> f64 {
        let mut different = HashSet::new();
        let mut all = 0usize;
        for ngram in units.windows(self.ngram.max(1)) {
            different.insert(ngram);
            all += 1;
        }
        let again = all - different.len();
        if again == 0 { 0.0 } else { self.max_penalty * (again as f64 / all as f64) }
    }
}

impl<T: ?Sized> RewardFn<T> for RepetitionPenalty {
    fn name(&self) -> &str {
        "repetition"
    }

    fn score(&self, _task: &T, completion: &Completion) -> std::result::Result<Reward, BoxError> {
        self.validate()?;
        let reward = match self.unit {
            RepetitionUnit::Tokens => self.of_tokens(&completion.tokens),
            RepetitionUnit::Words => self.of_words(&completion.text),
        };
        Ok(reward.into())
    }
}
