//! An entropy coefficient that rises while the policy's entropy is too low.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The adaptive entropy coefficient: after each step c ← c + δ if the entropy was below the target, c − δ if above, kept within
/// [low, high]. The bonus is c while the last entropy is at most the target, else 0.
///
/// Entropy is the mean over all tokens of the optimiser step, in nats. Before the first measurement the bonus is 0.
///
/// # Source
/// Skywork-OR1 (arXiv 2505.22312); defaults of TRL.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveEntropy {
    /// c before the first step, within [low, high].
    pub initial: f64,
    /// δ ≥ 0.
    pub delta: f64,
    /// The least c, at least 0.
    pub low: f64,
    /// The largest c.
    pub high: f64,
    /// The entropy that is aimed at, at least 0.
    pub target: f64,
}

impl Default for AdaptiveEntropy {
    fn default() -> Self {
        Self { initial: 0.0, delta: 0.005, low: 0.0, high: 1.0, target: 0.2 }
    }
}

impl AdaptiveEntropy {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        for (name, value) in [("entropy delta", self.delta), ("entropy coefficient low", self.low), ("entropy target", self.target)] {
            if !value.is_finite() || value < 0.0 {
                return Err(Error::config(name, value, "finite and at least 0"));
            }
        }
        if !self.high.is_finite() || self.high < self.low {
            return Err(Error::config("entropy coefficient high", self.high, "finite and at least low"));
        }
        if !(self.low..=self.high).contains(&self.initial) {
            return Err(Error::config("entropy coefficient initial", self.initial, "within low and high"));
        }
        Ok(())
    }

    /// The state of a run that begins.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn state(self) -> Result<EntropyState> {
        self.validate()?;
        Ok(EntropyState { coefficient: self.initial, last: None, config: self })
    }
}

/// Where the adaptive entropy coefficient stands. Save it with a checkpoint.
///
/// ```
/// use grpo_core::AdaptiveEntropy;
/// let mut entropy = AdaptiveEntropy { initial: 0.25, delta: 0.125, ..AdaptiveEntropy::default() }.state()?;
/// assert_eq!(entropy.value(), 0.0); // nothing measured yet
/// entropy.advance(Some(0.1)); // below the target of 0.2
/// assert_eq!(entropy.value(), 0.375);
/// entropy.advance(Some(0.5)); // above it: c falls, and the bonus is off
/// assert_eq!((entropy.value(), entropy.coefficient()), (0.0, 0.25));
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntropyState {
    config: AdaptiveEntropy,
    coefficient: f64,
    last: Option<f64>,
}

impl EntropyState {
    /// The bonus coefficient of the step that is next: c, or 0 while the last entropy was above the target.
    pub fn value(&self) -> f64 {
        if self.last.is_some_and(|last| last <= self.config.target) { self.coefficient } else { 0.0 }
    }

    /// c, whether or not the bonus is on.
    pub fn coefficient(&self) -> f64 {
        self.coefficient
    }

    /// Moves on after an optimiser step with this mean entropy; without one, or if it is not finite, nothing changes.
    pub fn advance(&mut self, entropy: Option<f64>) {
        let Some(entropy) = entropy.filter(|e| e.is_finite()) else { return };
        let moved = match entropy.total_cmp(&self.config.target) {
            std::cmp::Ordering::Less => self.coefficient + self.config.delta,
            std::cmp::Ordering::Equal => self.coefficient,
            std::cmp::Ordering::Greater => self.coefficient - self.config.delta,
        };
        self.coefficient = moved.clamp(self.config.low, self.config.high);
        self.last = Some(entropy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_its_bounds() {
        let config = AdaptiveEntropy { initial: 0.5, delta: 0.3, low: 0.1, high: 0.9, target: 1.0 };
        let mut state = config.state().unwrap();
        let mut run = |entropy: f64| {
            state.advance(Some(entropy));
            state.coefficient()
        };
        assert_eq!([run(0.0), run(0.0), run(0.0)], [0.8, 0.9, 0.9]);
        assert!((run(2.0) - 0.6).abs() < 1e-15);
        assert!((run(1.0) - 0.6).abs() < 1e-15, "at the target it stays");
        assert!((run(2.0) - 0.3).abs() < 1e-15);
        assert_eq!([run(2.0), run(2.0)], [0.1, 0.1]);
    }

    #[test]
    fn the_bonus_is_on_only_at_or_below_the_target() {
        let mut state = AdaptiveEntropy { initial: 0.2, delta: 0.1, low: 0.0, high: 1.0, target: 0.5 }.state().unwrap();
        assert_eq!(state.value(), 0.0);
        state.advance(Some(0.5));
        assert_eq!(state.value(), 0.2);
        state.advance(None);
        state.advance(Some(f64::NAN));
        assert_eq!(state.value(), 0.2, "no measurement, no change");
        state.advance(Some(0.51));
        assert_eq!(state.value(), 0.0);
    }

    #[test]
    fn a_saved_state_goes_on_as_if_never_stopped() {
        let mut whole = AdaptiveEntropy::default().state().unwrap();
        let mut split = whole;
        for entropy in [0.1, 0.15, 0.3, 0.2] {
            whole.advance(Some(entropy));
            split = serde_json::from_str(&serde_json::to_string(&split).unwrap()).unwrap();
            split.advance(Some(entropy));
        }
        assert_eq!(whole, split);
        assert_eq!(whole.value(), 0.005);
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        assert!(AdaptiveEntropy { high: -1.0, ..AdaptiveEntropy::default() }.state().is_err());
        let error = AdaptiveEntropy { initial: 2.0, ..AdaptiveEntropy::default() }.state().unwrap_err();
        assert_eq!(error.to_string(), "entropy coefficient initial = 2, must be within low and high");
    }
}
