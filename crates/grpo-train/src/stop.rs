//! When a run stops before its last step: it is asked to, or a metric is good enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::config::core;
use crate::error::Result;

/// A flag that asks a run to finish its step, save and end. Clones are the same flag: give one to the trainer and one to whoever
/// listens for Ctrl-C.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag that asks for nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks. Safe to call from a signal handler: it only stores a value.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Ends the run once a metric is good enough for long enough.
///
/// ```
/// use grpo_train::TrainConfig;
/// let config = TrainConfig::from_toml("[early_stop]\nmetric = \"eval/greedy/right\"\nat_least = 0.95\n[evaluation]\nevery = 20")?;
/// assert_eq!(config.early_stop.map(|stop| stop.patience), Some(1));
/// # Ok::<(), grpo_train::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyStop {
    /// A metric of a step, such as `reward`, or of an evaluation, such as `eval/greedy/right`, of those that `evaluation.every` asks for. Steps that do not have it count for nothing;
    /// one that no step has is told of by a warning.
    pub metric: String,
    /// It must be at least this.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// It must be at most this.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// In so many of the steps that have it, one after the other, at least 1.
    #[serde(default = "one")]
    pub patience: u64,
}

fn one() -> u64 {
    1
}

impl EarlyStop {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, or a rule that always or never holds.
    pub fn validate(&self) -> Result<()> {
        match (self.at_least, self.at_most) {
            (None, None) => Err(core("early_stop", "without at_least and at_most", "at least one of them")),
            (Some(low), _) if !low.is_finite() => Err(core("early_stop at_least", low, "finite")),
            (_, Some(high)) if !high.is_finite() => Err(core("early_stop at_most", high, "finite")),
            (Some(low), Some(high)) if low > high => Err(core("early_stop at_least", low, "at most early_stop at_most")),
            _ if self.patience == 0 => Err(core("early_stop patience", 0, "at least 1")),
            _ => Ok(()),
        }
    }

    /// Whether a value is good enough.
    pub(crate) fn holds(&self, value: f64) -> bool {
        self.at_least.is_none_or(|low| value >= low) && self.at_most.is_none_or(|high| value <= high)
    }
}
