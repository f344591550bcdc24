//! Numbers that need not be equal, only close.

use grpo_core::{BoxError, Completion, Error, Reward, RewardFn};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};

use super::extract::{Extract, Thoughts};
use super::number::only_number;
use super::rewards::{gold_text, verdict};

/// How close a number must come.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Closeness {
    /// |a − b| ≤ max(relative · max(|a|, |b|), absolute).
    Within {
        /// At least 0.
        relative: f64,
        /// At least 0, in the numbers' unit.
        absolute: f64,
    },
    /// The same after rounding both to so many significant digits, at least 1.
    SignificantDigits(u32),
}

/// 1 if the extracted number is close to the gold one, else 0. Computed in exact rationals.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::answer::{Closeness, CloseNumber, Extract};
/// let close = CloseNumber::new(Extract::Whole, Closeness::Within { relative: 0.0, absolute: 0.01 })?;
/// assert_eq!(close.judge("54245.32", "5.424532e+04"), Reward::Outcome(1.0));
/// assert_eq!(close.judge("54245.32", "54245.9"), Reward::Outcome(0.0));
/// let digits = CloseNumber::new(Extract::Whole, Closeness::SignificantDigits(3))?;
/// assert_eq!(digits.judge("0.9999", "1.00"), Reward::Outcome(1.0));
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CloseNumber {
    extract: Extract,
    closeness: Closeness,
    thoughts: Thoughts,
}

impl CloseNumber {
    /// Compares what `extract` finds after `<think>…</think>`.
    ///
    /// # Errors
    /// A tolerance that is negative or not finite; no digits.
    pub fn new(extract: Extract, closeness: Closeness) -> Result<Self, Error> {
        match closeness {
            Closeness::Within { relative, absolute } => {
                for (name, value) in [("relative tolerance", relative), ("absolute tolerance", absolute)] {
                    if !value.is_finite() || value < 0.0 {
                        return Err(Error::config(name, value, "finite and at least 0"));
                    }
                }
            }
            Closeness::SignificantDigits(0) => return Err(Error::config("significant digits", 0, "at least 1")),
            Closeness::SignificantDigits(_) => {}
        }
        Ok(Self { extract, closeness, thoughts: Thoughts::default() })
    }

    /// Sets the tags that thoughts stand between.
    pub fn thoughts(mut self, thoughts: Thoughts) -> Self {
        self.thoughts = thoughts;
        self
    }

    /// The reward of a text.
    pub fn judge(&self, gold: &str, text: &str) -> Reward {
        let Some(gold) = only_number(gold_text(gold)) else { return Reward::NotApplicable };
        let found = self.thoughts.cut(text).and_then(|rest| self.extract.from(rest)).and_then(only_number);
        verdict(found.is_some_and(|found| self.is_close(&gold, &found)))
    }

    fn is_close(&self, a: &BigRational, b: &BigRational) -> bool {
        match self.closeness {
            Closeness::Within { relative, absolute } => {
                let exact = |value: f64| BigRational::from_float(value).unwrap_or_else(BigRational::zero);
                let allowed = (exact(relative) * a.abs().max(b.abs())).max(exact(absolute));
                (a - b).abs() <= allowed
            }
            Closeness::SignificantDigits(digits) => rounded(a, digits) == rounded(b, digits),
        }
    }
}

impl<T: AsRef<str> + ?Sized> RewardFn<T> for CloseNumber {
    fn name(&self) -> &str {
        "close_number"
    }
    fn score(&self, gold: &T, completion: &Completion) -> Result<Reward, BoxError> {
        Ok(self.judge(gold.as_ref(), &completion.text))
    }
}

/// A value rounded to so many significant digits, half away from zero.
fn rounded(value: &BigRational, digits: u32) -> BigRational {
    if value.is_zero() {
        return value.clone();
    }
    // The power of ten of the first digit, from the numbers of digits above and below the line.
    let length = |n: &BigInt| i64::try_from(n.magnitude().to_string().len()).unwrap_or(i64::MAX);
    let power = |exponent: i64| {
        let size = num_traits::pow(BigInt::from(10), usize::try_from(exponent.unsigned_abs()).unwrap_or(0));
        if exponent >= 0 { BigRational::from(size) } else { BigRational::new(1.into(), size) }
    };
    let mut first = length(value.numer()) - length(value.denom());
    if value.abs() < power(first) {
        first -= 1;
    }
    let unit = power(first - i64::from(digits) + 1);
    (value / &unit).round() * unit
}
