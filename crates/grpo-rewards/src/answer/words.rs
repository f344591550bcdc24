//! Answers in words: compared after folding case, punctuation and blanks; word overlap; tokens of a program's output.

use std::collections::HashMap;

use grpo_core::{BoxError, Completion, Reward, RewardFn};
use num_rational::BigRational;
use num_traits::Signed;

use super::extract::{Extract, Thoughts};
use super::number::only_number;
use super::rewards::verdict;

/// What a text is reduced to before it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Folding {
    /// Blanks at the ends go, and case.
    Case,
    /// Case, punctuation and the articles a, an, the go; blanks become single.
    Words,
    /// All but letters and digits goes, and case.
    Alphanumeric,
}

impl Folding {
    /// The reduced text.
    ///
    /// ```
    /// use grpo_rewards::answer::Folding;
    /// assert_eq!(Folding::Words.of("The  capital\tis Paris."), "capital is paris");
    /// assert_eq!(Folding::Alphanumeric.of("Hello-123!"), "hello123");
    /// ```
    pub fn of(self, text: &str) -> String {
        let lower = text.to_lowercase();
        match self {
            Self::Case => lower.trim().to_owned(),
            Self::Alphanumeric => lower.chars().filter(|c| c.is_alphanumeric()).collect(),
            Self::Words => {
                let plain: String = lower.chars().filter(|c| !c.is_ascii_punctuation()).collect();
                plain.split_whitespace().filter(|w| !matches!(*w, "a" | "an" | "the")).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// 1 if the completion's answer and the gold text are the same after folding, else 0; an empty gold text does not apply.
///
/// The answer is what the last `<answer>` tag holds, or the text after the thoughts where there is no such tag.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::answer::{Folding, TextAnswer};
/// let text = TextAnswer::new(Folding::Words);
/// assert_eq!(text.judge("capital of france is paris", "<think>…</think><answer>The capital of France is Paris.</answer>"), Reward::Outcome(1.0));
/// assert_eq!(text.judge("Monday", "It is Monday"), Reward::Outcome(0.0)); // containing it is not enough
/// assert_eq!(text.judge("", ""), Reward::NotApplicable);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextAnswer {
    folding: Folding,
    tag: TagUse,
    thoughts: Thoughts,
}

/// Whether the answer must stand in a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TagUse {
    /// The text is the answer where there is no tag.
    #[default]
    Optional,
    /// Without the tag there is no answer.
    Required,
}

impl TextAnswer {
    /// Compares after this folding.
    pub fn new(folding: Folding) -> Self {
        Self { folding, tag: TagUse::Optional, thoughts: Thoughts::default() }
    }

    /// Sets whether the answer must stand in `<answer>`.
    pub fn tag(mut self, tag: TagUse) -> Self {
        self.tag = tag;
        self
    }

    /// Sets the tags that thoughts stand between.
    pub fn thoughts(mut self, thoughts: Thoughts) -> Self {
        self.thoughts = thoughts;
        self
    }

    fn answer<'t>(&self, text: &'t str) -> Option<&'t str> {
        let rest = self.thoughts.cut(text)?;
        match Extract::tag("answer").from(rest) {
            None if self.tag == TagUse::Required => None,
            found => Some(found.unwrap_or(rest)),
        }
    }

    /// The reward of a text.
    pub fn judge(&self, gold: &str, text: &str) -> Reward {
        let gold = self.folding.of(gold);
        if gold.is_empty() {
            return Reward::NotApplicable;
        }
        verdict(self.answer(text).is_some_and(|answer| self.folding.of(answer) == gold))
    }
}

impl<T: AsRef<str> + ?Sized> RewardFn<T> for TextAnswer {
    fn name(&self) -> &str {
        "text_answer"
    }
    fn score(&self, gold: &T, completion: &Completion) -> Result<Reward, BoxError> {
        Ok(self.judge(gold.as_ref(), &completion.text))
    }
}

/// The F1 score of the words that two texts share: F₁ = 2·p·r / (p + r), p = shared / words of the answer, r = shared / words of the gold text;
/// words count as often as they occur on both sides. In \[0, 1\].
///
/// ```
/// use grpo_rewards::answer::word_f1;
/// assert!((word_f1("hello", "hello world") - 2.0 / 3.0).abs() < 1e-12);
/// assert_eq!(word_f1("", ""), 0.0); // nothing is shared
/// ```
///
/// # Source
/// SQuAD's evaluation (Rajpurkar et al. 2016), with its folding of case, punctuation and articles.
pub fn word_f1(gold: &str, answer: &str) -> f64 {
    let (gold, answer) = (Folding::Words.of(gold), Folding::Words.of(answer));
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in gold.split(' ').filter(|w| !w.is_empty()) {
        *counts.entry(word).or_default() += 1;
    }
    let total: usize = counts.values().sum();
    let (mut shared, mut words) = (0_usize, 0_usize);
    for word in answer.split(' ').filter(|w| !w.is_empty()) {
        words += 1;
        if let Some(left) = counts.get_mut(word).filter(|left| **left > 0) {
            *left -= 1;
            shared += 1;
        }
    }
    if shared == 0 { 0.0 } else { 2.0 * shared as f64 / (words + total) as f64 }
}

/// 1 if two outputs of a program agree token by token, else 0.
///
/// Tokens are what blanks and line ends separate. Two integers agree if they are equal, whatever their size; two finite numbers if they differ by
/// at most `tolerance`; other tokens if they are the same, but `nan` and `inf` agree with nothing.
///
/// ```
/// use grpo_rewards::answer::same_output;
/// assert!(same_output("1.0002 2\n", "1.0001 2.0", 1e-3));
/// assert!(!same_output("12345678901234567890", "12345678901234567891", 1e-3)); // integers do not go through floats
/// assert!(!same_output("3", "Debug: x\n3", 1e-3));
/// ```
pub fn same_output(expected: &str, output: &str, tolerance: f64) -> bool {
    let tokens = |text| str::split_whitespace(text).map(|t: &str| t.trim_start_matches('\u{FEFF}')).filter(|t| !t.is_empty());
    let (mut left, mut right) = (tokens(expected), tokens(output));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if same_token(a, b, tolerance) => {}
            _ => return false,
        }
    }
}

fn same_token(a: &str, b: &str, tolerance: f64) -> bool {
    let special = |t: &str| matches!(t.trim_start_matches(['-', '+']).to_ascii_lowercase().as_str(), "nan" | "inf" | "infinity");
    if special(a) || special(b) {
        return false;
    }
    if a == b {
        return true;
    }
    let integer = |t: &str| {
        let digits = t.trim_start_matches(['-', '+']);
        !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
    };
    let number = |t: &str| {
        if t.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'.' | b'-' | b'+' | b'e' | b'E')) { only_number(t) } else { None }
    };
    match (number(a), number(b)) {
        (Some(x), Some(y)) if integer(a) && integer(b) => x == y,
        (Some(x), Some(y)) => BigRational::from_float(tolerance).is_some_and(|tolerance| (x - y).abs() <= tolerance),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::same_output;

    #[test]
    fn outputs_are_compared_by_tokens() {
        for (expected, output, same) in [
            ("3\n", "3", true),
            ("hello world\n", "hello   world\n", true),
            ("nan", "nan", false),
            ("inf", "inf", false),
            ("-0.0", "0.0", true),
            ("1e-7", "0", true),
            ("100000", "100000.0005", true),
            ("\u{FEFF}3", "3", true),
            ("1 2", "1", false),
            ("1.2.3", "1.2.30", false),
        ] {
            assert_eq!(same_output(expected, output, 1e-3), same, "{expected:?} and {output:?}");
        }
    }
}
