//! Puzzles whose answers are expressions.

use grpo_core::{BoxError, Completion, Error, Reward, RewardFn};
use num_bigint::BigInt;
use num_rational::BigRational;

use crate::answer::{Extract, Thoughts};
use crate::math::exact_expression;

/// The task of a countdown: reach `target` with `+ − × ÷` from all the numbers, each used once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Countdown {
    /// The numbers to use.
    pub numbers: Vec<u64>,
    /// What the expression must be worth.
    pub target: i64,
}

/// 1 if the answer is an expression of exactly the given numbers that is worth the target, in exact rationals; else a small score for any
/// expression that can be worked out; else 0.
///
/// The answer is what the last `<answer>` tag holds, or the text after the thoughts. What follows an equals sign is left aside.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::puzzle::{Countdown, CountdownReward};
/// let reward = CountdownReward::new(0.05)?;
/// let task = Countdown { numbers: vec![44, 3], target: 47 };
/// assert_eq!(reward.judge(&task, "<answer>44 + 3 = 47</answer>"), Reward::Outcome(1.0));
/// assert_eq!(reward.judge(&task, "<answer>45 + 2</answer>"), Reward::Outcome(0.05)); // other numbers
/// assert_eq!(reward.judge(&task, "<answer>47</answer>"), Reward::Outcome(0.05));
/// assert_eq!(reward.judge(&task, "<answer>__import__('os')</answer>"), Reward::Outcome(0.0));
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CountdownReward {
    attempt: f64,
    thoughts: Thoughts,
}

impl CountdownReward {
    /// With the score of an expression that is wrong.
    ///
    /// # Errors
    /// A score outside \[0, 1).
    pub fn new(attempt: f64) -> Result<Self, Error> {
        if (0.0..1.0).contains(&attempt) {
            Ok(Self { attempt, thoughts: Thoughts::default() })
        } else {
            Err(Error::config("countdown attempt score", attempt, "in [0, 1)"))
        }
    }

    /// The reward of a text.
    pub fn judge(&self, task: &Countdown, text: &str) -> Reward {
        let answer = self.thoughts.cut(text).map(|rest| Extract::tag("answer").from(rest).unwrap_or(rest));
        let expression = answer.and_then(|answer| exact_expression(answer.split('=').next().unwrap_or_default()));
        let Some((mut used, value)) = expression else { return Reward::Outcome(0.0) };
        let mut given: Vec<BigRational> = task.numbers.iter().map(|n| BigRational::from(BigInt::from(*n))).collect();
        given.sort();
        used.sort();
        let right = used == given && value == Some(BigRational::from(BigInt::from(task.target)));
        Reward::Outcome(if right { 1.0 } else { self.attempt })
    }
}

impl RewardFn<Countdown> for CountdownReward {
    fn name(&self) -> &str {
        "countdown"
    }
    fn score(&self, task: &Countdown, completion: &Completion) -> Result<Reward, BoxError> {
        Ok(self.judge(task, &completion.text))
    }
}

#[cfg(test)]
mod tests {
    use grpo_core::Reward;

    use super::{Countdown, CountdownReward};

    #[test]
    fn numbers_count_once_each_and_nothing_is_rounded_to_the_target() {
        let judge = |numbers: &[u64], target, text| {
            CountdownReward::new(0.05).unwrap().judge(&Countdown { numbers: numbers.to_vec(), target }, text)
        };
        assert_eq!(judge(&[1, 1, 1, 81], 81, "1*81"), Reward::Outcome(0.05));
        assert_eq!(judge(&[6, 34, 1, 11], 17, "6*34/11-1"), Reward::Outcome(0.05));
        assert_eq!(judge(&[3, 3, 8, 8], 24, "8/(3-8/3)"), Reward::Outcome(1.0));
        assert_eq!(judge(&[3, 8], 24, "3^8"), Reward::Outcome(0.0));
    }
}
