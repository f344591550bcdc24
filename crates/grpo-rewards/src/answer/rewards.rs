//! Rewards that compare an extracted answer with a gold one.

use grpo_core::{BoxError, Completion, Reward, RewardFn};

use super::extract::{Extract, Thoughts};
use super::number::only_number;

/// The gold answer that a data set's text holds: what follows the last `####`, else what the last box holds, else all of it, trimmed.
///
/// ```
/// use grpo_rewards::answer::gold_text;
/// assert_eq!(gold_text("He has 5 + 7 = 12 left.\n#### 12"), "12");
/// assert_eq!(gold_text("so it is $\\boxed{\\frac{1}{2}}$."), "\\frac{1}{2}");
/// assert_eq!(gold_text(" blue "), "blue");
/// ```
pub fn gold_text(text: &str) -> &str {
    Extract::Hash.from(text).or_else(|| Extract::Boxed.from(text)).unwrap_or(text).trim()
}

/// Right or wrong, as a reward.
pub(crate) fn verdict(right: bool) -> Reward {
    Reward::Outcome(f64::from(u8::from(right)))
}

macro_rules! answer_reward {
    ($(#[$doc:meta])* $name:ident, $label:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            extract: Extract,
            thoughts: Thoughts,
        }

        impl $name {
            /// Compares what `extract` finds after `<think>…</think>`.
            pub fn new(extract: Extract) -> Self {
                Self { extract, thoughts: Thoughts::default() }
            }

            /// Sets the tags that thoughts stand between.
            pub fn thoughts(mut self, thoughts: Thoughts) -> Self {
                self.thoughts = thoughts;
                self
            }

            /// The answer in a text, `None` where there is none.
            pub fn answer<'t>(&self, text: &'t str) -> Option<&'t str> {
                self.extract.from(self.thoughts.cut(text)?)
            }
        }

        impl<T: AsRef<str> + ?Sized> RewardFn<T> for $name {
            fn name(&self) -> &str {
                $label
            }
            fn score(&self, gold: &T, completion: &Completion) -> Result<Reward, BoxError> {
                Ok(self.judge(gold.as_ref(), &completion.text))
            }
        }
    };
}

answer_reward!(
    /// 1 if the extracted answer is the gold text, blanks round both left aside; 0 otherwise, also where there is no answer.
    ///
    /// The gold text is read by [`gold_text`]; an empty one does not apply. Case and inner blanks count.
    ///
    /// ```
    /// use grpo_core::Reward;
    /// use grpo_rewards::answer::{ExactAnswer, Extract};
    /// let exact = ExactAnswer::new(Extract::tag("answer"));
    /// assert_eq!(exact.judge("B", "<think>A?</think><answer> B </answer>"), Reward::Outcome(1.0));
    /// assert_eq!(exact.judge("B", "<answer>A or B</answer>"), Reward::Outcome(0.0)); // containing it is not enough
    /// assert_eq!(exact.judge("", "<answer></answer>"), Reward::NotApplicable);
    /// ```
    ExactAnswer,
    "exact_answer"
);

impl ExactAnswer {
    /// The reward of a text.
    pub fn judge(&self, gold: &str, text: &str) -> Reward {
        match gold_text(gold) {
            "" => Reward::NotApplicable,
            gold => verdict(self.answer(text).is_some_and(|answer| answer.trim() == gold)),
        }
    }
}

answer_reward!(
    /// 1 if the extracted answer holds one number and it equals the gold one exactly, as a rational; 0 otherwise.
    ///
    /// Both are read by [`only_number`]. A gold text (see [`gold_text`]) without one clear number does not apply.
    ///
    /// ```
    /// use grpo_core::Reward;
    /// use grpo_rewards::answer::{Extract, NumericAnswer};
    /// let numeric = NumericAnswer::new(Extract::Hash);
    /// let gold = "He sells 500 + 750.\n#### 1,250";
    /// assert_eq!(numeric.judge(gold, "#### 1250.0 apples"), Reward::Outcome(1.0));
    /// assert_eq!(numeric.judge(gold, "#### 1249 or 1250"), Reward::Outcome(0.0));
    /// assert_eq!(numeric.judge(gold, "It is 1250."), Reward::Outcome(0.0)); // no marker
    /// assert_eq!(numeric.judge("many", "#### 3"), Reward::NotApplicable);
    /// ```
    NumericAnswer,
    "numeric_answer"
);

impl NumericAnswer {
    /// The reward of a text.
    pub fn judge(&self, gold: &str, text: &str) -> Reward {
        match only_number(gold_text(gold)) {
            None => Reward::NotApplicable,
            Some(gold) => verdict(self.answer(text).and_then(only_number) == Some(gold)),
        }
    }
}

/// 1 if the text begins with the gold text, blanks before it left aside, and then the line or the text ends; 0 otherwise.
///
/// The whole text must match `\s*GOLD(\n.*)?`: what a raw prompt whose lines are examples asks for. Thoughts are not cut off. The gold text
/// is read by [`gold_text`]; an empty one does not apply.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::answer::LineAnswer;
/// assert_eq!(LineAnswer.judge("#### 85", " 85\n7 + 8 ="), Reward::Outcome(1.0));
/// assert_eq!(LineAnswer.judge("#### 85", " 851"), Reward::Outcome(0.0));
/// assert_eq!(LineAnswer.judge("#### 85", " 85 "), Reward::Outcome(0.0)); // the line goes on
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineAnswer;

impl LineAnswer {
    /// The reward of a text.
    pub fn judge(&self, gold: &str, text: &str) -> Reward {
        match gold_text(gold) {
            "" => Reward::NotApplicable,
            gold => verdict(text.trim_start().strip_prefix(gold).is_some_and(|rest| rest.is_empty() || rest.starts_with('\n'))),
        }
    }
}

impl<T: AsRef<str> + ?Sized> RewardFn<T> for LineAnswer {
    fn name(&self) -> &str {
        "line_answer"
    }
    fn score(&self, gold: &T, completion: &Completion) -> Result<Reward, BoxError> {
        Ok(self.judge(gold.as_ref(), &completion.text))
    }
}

#[cfg(test)]
mod tests {
    use grpo_core::{Reward, RewardFn};

    use super::{ExactAnswer, Extract, LineAnswer, NumericAnswer};

    #[test]
    fn all_are_rewards_for_owned_and_borrowed_gold() {
        fn takes<T: ?Sized>(_: impl RewardFn<T>) {}
        takes::<String>(LineAnswer);
        takes::<str>(NumericAnswer::new(Extract::Hash));
        takes::<String>(ExactAnswer::new(Extract::Whole));
    }

    #[test]
    fn gsm8k_lines_are_judged_by_their_number() {
        let numeric = NumericAnswer::new(Extract::Hash);
        for (gold, text, right) in [
            ("42", "####42", true),
            ("5", "#### 5,", true),
            ("42", "#### **42**", true),
            ("123", "#### 1,2,3", false),
            ("42", "#### 42\n#### 43", false),
            ("-7", "#### −7", true),
            ("5", "####", false),
            ("1000", "#### 1e3", true),
            ("42", "##### 42", true),
            ("42", "#### 42ééé", true),
            ("0", "#### ...", false),
            ("42", "<think>#### 42", false),
        ] {
            assert_eq!(numeric.judge(gold, text), Reward::Outcome(f64::from(u8::from(right))), "{text}");
        }
    }

    #[test]
    fn a_line_answer_is_the_gold_and_nothing_more_on_its_line() {
        for (text, right) in
            [("85", true), ("\n 85\n", true), (" 85", true), ("8", false), (" 85.", false), ("085", false), ("= 85", false)]
        {
            assert_eq!(LineAnswer.judge("85", text), Reward::Outcome(f64::from(u8::from(right))), "{text:?}");
        }
    }
}
