//! Mean and standard deviation, two-pass in f64.

use serde::{Deserialize, Serialize};

/// What the sum of squared deviations is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ddof {
    /// n: the population standard deviation, as the formula of the paper has it (ddof 0).
    Population,
    /// n − 1: the sample standard deviation, as trainers in use have it (ddof 1).
    #[default]
    Sample,
}

impl Ddof {
    /// 0 or 1.
    pub fn value(self) -> usize {
        match self {
            Self::Population => 0,
            Self::Sample => 1,
        }
    }
}

/// Mean and standard deviation of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The mean; 0 of nothing.
    pub mean: f64,
    /// The standard deviation; 0 where it is undefined, and exactly 0 of equal values.
    pub std: f64,
    /// How many values.
    pub count: usize,
}

impl Spread {
    /// Two-pass, so that a constant offset costs no digits.
    ///
    /// Values are equal when max − min ≤ 4 · 2⁻⁵² · max|v|: 0.1 + 0.2 and 0.3 differ by rounding only, and
    /// dividing that by an ε of 1e-8 would make a large advantage of it.
    ///
    /// ```
    /// use grpo_core::{Ddof, Spread};
    /// assert_eq!(Spread::of(&[0.1 + 0.2, 0.3], Ddof::Sample).std, 0.0);
    /// assert_eq!(Spread::of(&[1.0, 3.0], Ddof::Population), Spread { mean: 2.0, std: 1.0, count: 2 });
    /// ```
    pub fn of(values: &[f64], ddof: Ddof) -> Self {
        let count = values.len();
        if count == 0 {
            return Self { mean: 0.0, std: 0.0, count };
        }
        let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
        // Dividing first keeps sums of values near the largest float finite.
        let mean = values.iter().map(|v| v / count as f64).sum::<f64>();
        if high - low <= 4.0 * f64::EPSILON * high.abs().max(low.abs()) || count <= ddof.value() {
            return Self { mean, std: 0.0, count };
        }
        let scale = high - low;
        let squares: f64 = values.iter().map(|v| ((v - mean) / scale).powi(2)).sum();
        Self { mean, std: scale * (squares / (count - ddof.value()) as f64).sqrt(), count }
    }
}
