//! Schedules: a number as a function of the step.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A number at step s: a learning rate, or a coefficient. The first step is 0. Past its end, a schedule stays at its last value.
///
/// w is `warmup_steps`, T `total_steps`. During warm-up (s < w) the value is peak · s / w; with w > 0 step 0 has value 0. After it,
/// with p = (s − w) / (T − w), at most 1:
///
/// | schedule | value |
/// |---|---|
/// | [`Constant`](Self::Constant) | peak |
/// | [`Linear`](Self::Linear) | end + (peak − end) · (1 − p) |
/// | [`Cosine`](Self::Cosine) | end + (peak − end) · (1 + cos π p) / 2 |
///
/// `end` may lie above `peak`: the number then grows. A warm-up begins at 0, so the step 0 of a learning rate with one moves nothing.
///
/// ```
/// use grpo_core::Schedule;
/// let cosine = Schedule::Cosine { peak: 1e-3, end: 1e-5, warmup_steps: 2, total_steps: 10 };
/// assert_eq!([0, 1, 2].map(|s| cosine.at(s)), [0.0, 5e-4, 1e-3]);
/// assert_eq!([10, 11, 1_000_000].map(|s| cosine.at(s)), [1e-5; 3]); // it does not climb again
/// ```
///
/// # Source
/// With `end` = 0 the values of `transformers.get_scheduler` (`constant_with_warmup`, `linear`, `cosine`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Schedule {
    /// The same throughout, after warm-up.
    Constant {
        /// The value.
        peak: f64,
        /// w.
        #[serde(default)]
        warmup_steps: u64,
    },
    /// A straight line from peak to end.
    Linear {
        /// The value after warm-up.
        peak: f64,
        /// The value from step T on.
        #[serde(default)]
        end: f64,
        /// w.
        #[serde(default)]
        warmup_steps: u64,
        /// T.
        total_steps: u64,
    },
    /// Half a cosine from peak to end.
    Cosine {
        /// The value after warm-up.
        peak: f64,
        /// The value from step T on.
        #[serde(default)]
        end: f64,
        /// w.
        #[serde(default)]
        warmup_steps: u64,
        /// T.
        total_steps: u64,
    },
}

impl Schedule {
    /// The same at every step.
    pub fn constant(value: f64) -> Self {
        Self::Constant { peak: value, warmup_steps: 0 }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// A value that is not finite or below 0, a warm-up that is longer than the schedule.
    pub fn validate(&self) -> Result<()> {
        let (peak, end, warmup, total) = self.parts();
        for (name, value) in [("schedule peak", peak), ("schedule end", end)] {
            if !value.is_finite() || value < 0.0 {
                return Err(Error::config(name, value, "finite and at least 0"));
            }
        }
        if total.is_some_and(|total| warmup > total) {
            return Err(Error::config("schedule warmup_steps", warmup, "at most total_steps"));
        }
        Ok(())
    }

    fn parts(&self) -> (f64, f64, u64, Option<u64>) {
        match *self {
            Self::Constant { peak, warmup_steps } => (peak, peak, warmup_steps, None),
            Self::Linear { peak, end, warmup_steps, total_steps } | Self::Cosine { peak, end, warmup_steps, total_steps } => {
                (peak, end, warmup_steps, Some(total_steps))
            }
        }
    }

    /// The value at a step.
    pub fn at(&self, step: u64) -> f64 {
        let (peak, end, warmup, total) = self.parts();
        if step < warmup {
            return peak * step as f64 / warmup as f64;
        }
        let Some(total) = total else { return peak };
        if step >= total {
            return end;
        }
        let progress = (step - warmup) as f64 / (total - warmup) as f64;
        let left = match self {
            Self::Cosine { .. } => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
            _ => 1.0 - progress,
        };
        end + (peak - end) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known fault B30; trap of a modulo in the schedule.
    #[test]
    fn cosine_over_ten_steps_stays_at_its_minimum_at_step_eleven() {
        let cosine = Schedule::Cosine { peak: 1.0, end: 0.1, warmup_steps: 0, total_steps: 10 };
        assert_eq!(cosine.at(0), 1.0);
        assert!((cosine.at(5) - 0.55).abs() < 1e-15);
        assert_eq!([10, 11, 19, 20, 21, u64::MAX].map(|s| cosine.at(s)), [0.1; 6]);
    }

    #[test]
    fn linear_falls_in_equal_parts_and_may_also_rise() {
        let falls = Schedule::Linear { peak: 4.0, end: 0.0, warmup_steps: 0, total_steps: 4 };
        assert_eq!([0, 1, 2, 3, 4, 5].map(|s| falls.at(s)), [4.0, 3.0, 2.0, 1.0, 0.0, 0.0]);
        let rises = Schedule::Linear { peak: 0.0, end: 0.4, warmup_steps: 0, total_steps: 4 };
        assert_eq!([0, 2, 4, 9].map(|s| rises.at(s)), [0.0, 0.2, 0.4, 0.4]);
    }

    #[test]
    fn constant_has_no_end_and_warm_up_is_linear() {
        let warm = Schedule::Constant { peak: 2.0, warmup_steps: 4 };
        assert_eq!([0, 1, 2, 3, 4, 99].map(|s| warm.at(s)), [0.0, 0.5, 1.0, 1.5, 2.0, 2.0]);
        assert_eq!(Schedule::constant(0.3).at(0), 0.3);
    }

    #[test]
    fn a_warm_up_as_long_as_the_schedule_divides_by_nothing() {
        let edge = Schedule::Linear { peak: 1.0, end: 0.0, warmup_steps: 3, total_steps: 3 };
        assert!(edge.validate().is_ok());
        assert_eq!([2, 3, 4].map(|s| edge.at(s)), [2.0 / 3.0, 0.0, 0.0]);
        assert!(Schedule::Cosine { peak: 1.0, end: 0.0, warmup_steps: 4, total_steps: 3 }.validate().is_err());
        assert!(Schedule::constant(f64::NAN).validate().is_err());
    }

    #[test]
    fn unknown_keys_are_refused() {
        let ok: Schedule = serde_json::from_str(r#"{"cosine": {"peak": 1e-6, "total_steps": 100}}"#).unwrap();
        assert_eq!(ok, Schedule::Cosine { peak: 1e-6, end: 0.0, warmup_steps: 0, total_steps: 100 });
        assert!(serde_json::from_str::<Schedule>(r#"{"cosine": {"peak": 1e-6, "total_steps": 100, "cycles": 2}}"#).is_err());
    }
}
