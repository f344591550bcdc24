//! Checkpoints: written beside, synced, renamed, marked last; old ones are removed only after the new one is complete.
//!
//! A checkpoint is a folder `step-N`, N optimiser steps into the run: a file for the policy's trained weights, one for the optimiser's state,
//! one for the reference, one for a rollout that is still being trained on, one for everything else; a manifest with their lengths and
//! SHA-256; and the file `complete`, which is written last. A folder without it was never finished, and is passed over.

mod disk;
mod manifest;
mod store;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::core;
use crate::error::Result;

pub(crate) use store::{Loaded, Store};
pub use store::{Refused, has_any, list};

/// Where, when, and how many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointConfig {
    /// The folder. It is made if it does not exist.
    pub folder: PathBuf,
    /// After every so many optimiser steps, at least 1; and always at the end.
    #[serde(default = "every")]
    pub every: u64,
    /// How many of the newest are kept, at least 1.
    #[serde(default = "keep_last")]
    pub keep_last: usize,
    /// The best one is kept as well.
    #[serde(default)]
    pub best: Option<Best>,
}

fn every() -> u64 {
    50
}

fn keep_last() -> usize {
    3
}

/// What makes a checkpoint the best.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// A metric of the step or of the evaluation at it, such as `eval/greedy/reward`. A checkpoint whose step has no such metric is never the best.
    pub metric: String,
    /// Which way is better.
    #[serde(default)]
    pub better: Better,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The larger, the better.
    #[default]
    Higher,
    /// The smaller, the better.
    Lower,
}

impl Better {
    /// Whether `new` is better than `old`.
    pub(crate) fn is(self, new: f64, old: f64) -> bool {
        match self {
            Self::Higher => new > old,
            Self::Lower => new < old,
        }
    }
}

impl CheckpointConfig {
    /// A checkpoint every 50 steps, the last three kept.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), every: every(), keep_last: keep_last(), best: None }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        if self.every == 0 {
            return Err(core("checkpoints every", 0, "at least 1"));
        }
        if self.keep_last == 0 {
            return Err(core("checkpoints keep_last", 0, "at least 1"));
        }
        if self.folder.as_os_str().is_empty() {
            return Err(core("checkpoints folder", "\"\"", "a path"));
        }
        Ok(())
    }
}
