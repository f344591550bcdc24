//! A coefficient that is fixed, scheduled, or follows the KL it controls.

use serde::{Deserialize, Serialize};

use super::schedule::Schedule;
use crate::error::{Error, Result};

/// How large a coefficient (β of the KL penalty) is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Coefficient {
    /// Always the same.
    Fixed(f64),
    /// A function of the step.
    Scheduled(Schedule),
    /// Follows the measured KL.
    Adaptive(AdaptiveKl),
}

/// The adaptive KL coefficient: β ← β · (1 + clip(KL / target − 1, ±0.2) · n / horizon), n the completions of the step.
///
/// n / horizon is taken as at most 1, so that one step moves β by at most 20 %.
///
/// # Source
/// arXiv 1909.08593 §2.2. Defaults of verl: target 0.1, horizon 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdaptiveKl {
    /// β before the first measurement, above 0: it is only ever multiplied.
    pub initial: f64,
    /// The KL that is aimed at, above 0.
    #[serde(default = "target")]
    pub target: f64,
    /// Over how many completions it adapts, above 0.
    #[serde(default = "horizon")]
    pub horizon: f64,
}

fn target() -> f64 {
    0.1
}

fn horizon() -> f64 {
    10_000.0
}

impl Coefficient {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Fixed(value) if !value.is_finite() || *value < 0.0 => Err(Error::config("coefficient", value, "finite and at least 0")),
            Self::Fixed(_) => Ok(()),
            Self::Scheduled(schedule) => schedule.validate(),
            Self::Adaptive(kl) => {
                let fields = [("adaptive KL initial", kl.initial), ("adaptive KL target", kl.target), ("adaptive KL horizon", kl.horizon)];
                match fields.into_iter().find(|(_, v)| !v.is_finite() || *v <= 0.0) {
                    Some((name, value)) => Err(Error::config(name, value, "finite and above 0")),
                    None => Ok(()),
                }
            }
        }
    }

    /// The state of a run that begins.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn state(self) -> Result<CoefficientState> {
        self.validate()?;
        let value = match self {
            Self::Fixed(value) => value,
            Self::Scheduled(schedule) => schedule.at(0),
            Self::Adaptive(kl) => kl.initial,
        };
        Ok(CoefficientState { coefficient: self, step: 0, value })
    }
}

/// Where a coefficient stands. Save it with a checkpoint.
///
/// ```
/// use grpo_core::{AdaptiveKl, Coefficient};
/// let mut beta = Coefficient::Adaptive(AdaptiveKl { initial: 0.2, target: 0.1, horizon: 100.0 }).state()?;
/// beta.advance(Some(5.0), 10); // far above the target: + 20 % · 10 / 100
/// assert!((beta.value() - 0.204).abs() < 1e-15);
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoefficientState {
    coefficient: Coefficient,
    step: u64,
    value: f64,
}

impl CoefficientState {
    /// The coefficient of the step that is next.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Moves on after a step of `completions` completions. `kl` is the step's mean KL; without one, or if it is not finite,
    /// an adaptive coefficient stays as it is.
    pub fn advance(&mut self, kl: Option<f64>, completions: usize) {
        self.step += 1;
        match self.coefficient {
            Coefficient::Fixed(_) => {}
            Coefficient::Scheduled(schedule) => self.value = schedule.at(self.step),
            Coefficient::Adaptive(config) => {
                if let Some(kl) = kl.filter(|kl| kl.is_finite()) {
                    let error = (kl / config.target - 1.0).clamp(-0.2, 0.2);
                    self.value *= 1.0 + error * (completions as f64 / config.horizon).min(1.0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adaptive_coefficient_moves_towards_its_target_and_no_faster_than_a_fifth() {
        let config = AdaptiveKl { initial: 1.0, target: 0.1, horizon: 1000.0 };
        let after = |kl: f64, n: usize| {
            let mut state = Coefficient::Adaptive(config).state().unwrap();
            state.advance(Some(kl), n);
            state.value()
        };
        assert!((after(0.11, 100) - 1.01).abs() < 1e-15, "10 % above: + 0.1 · 0.1");
        assert!((after(0.09, 100) - 0.99).abs() < 1e-15);
        assert!((after(9.0, 100) - 1.02).abs() < 1e-15, "clipped at + 0.2");
        assert!((after(-9.0, 100) - 0.98).abs() < 1e-15, "a negative estimate clips at − 0.2");
        assert!((after(9.0, 1_000_000) - 1.2).abs() < 1e-15, "a batch beyond the horizon does not overshoot");
        assert_eq!(after(0.1, 100), 1.0);
        assert_eq!(after(f64::NAN, 100), 1.0);
    }

    #[test]
    fn a_coefficient_without_a_measurement_stays() {
        let mut state = Coefficient::Adaptive(AdaptiveKl { initial: 0.5, target: 0.1, horizon: 10.0 }).state().unwrap();
        state.advance(None, 8);
        assert_eq!(state.value(), 0.5);
        let mut fixed = Coefficient::Fixed(0.04).state().unwrap();
        fixed.advance(Some(100.0), 8);
        assert_eq!(fixed.value(), 0.04);
    }

    #[test]
    fn a_scheduled_coefficient_follows_its_steps() {
        let schedule = Schedule::Linear { peak: 0.2, end: 0.0, warmup_steps: 0, total_steps: 2 };
        let mut state = Coefficient::Scheduled(schedule).state().unwrap();
        let mut seen = vec![state.value()];
        for _ in 0..3 {
            state.advance(None, 1);
            seen.push(state.value());
        }
        assert_eq!(seen, [0.2, 0.1, 0.0, 0.0]);
    }

    #[test]
    fn a_saved_state_goes_on_as_if_never_stopped() {
        let mut whole = Coefficient::Adaptive(AdaptiveKl { initial: 0.3, target: 0.05, horizon: 77.0 }).state().unwrap();
        let mut split = whole;
        for kl in [0.01, 0.2, 0.049] {
            whole.advance(Some(kl), 13);
            split = serde_json::from_str(&serde_json::to_string(&split).unwrap()).unwrap();
            split.advance(Some(kl), 13);
        }
        assert_eq!(whole, split);
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let zero = Coefficient::Adaptive(AdaptiveKl { initial: 0.0, target: 0.1, horizon: 1.0 }).state().unwrap_err();
        assert_eq!(zero.to_string(), "adaptive KL initial = 0, must be finite and above 0");
        assert!(Coefficient::Fixed(-0.1).state().is_err());
        assert!(serde_json::from_str::<Coefficient>(r#"{"adaptive": {"initial": 0.1, "goal": 2}}"#).is_err());
    }
}
