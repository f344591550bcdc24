//! Regular expressions.

use grpo_core::{Error, Reward};
use regex::Regex;

use crate::answer::verdict;

/// 1 if a regular expression matches somewhere in the text, else 0; anchor it with `^` and `$` for the whole text.
///
/// Matching takes time linear in the text, whatever the pattern: there are no backreferences and no look-around.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::Pattern;
/// let pattern = Pattern::new(r"(?s)^<think>.*</think>.*\\boxed\{.*\}")?;
/// assert_eq!(pattern.judge("<think>reasons</think> \\boxed{4}"), Reward::Outcome(1.0));
/// assert_eq!(pattern.judge(&"<think></think>".repeat(60_000)), Reward::Outcome(0.0)); // at once
/// assert!(Pattern::new(r"(a)\1").is_err());
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// A pattern that is not valid, or too large.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Regex::new(pattern).map(|regex| Self { regex }).map_err(|e| Error::invalid("pattern", e.to_string()))
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        verdict(self.regex.is_match(text))
    }
}
super::text_reward!(Pattern, "pattern");
