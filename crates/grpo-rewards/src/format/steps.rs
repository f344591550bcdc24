//! Visible steps of reasoning.

use grpo_core::{Error, Reward};

/// min(1, n / enough): n marks of steps in the text. In \[0, 1\].
///
/// A mark is `Step 1:` (any number), a number with a full stop that begins the text, a line that begins with `-` or `*` after another, or one of
/// `First,`, `Second,`, `Next,`, `Finally,`.
///
/// It counts words, not thoughts: a text that says `Finally,` a hundred times earns all of it. Give it a small weight.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::ReasoningSteps;
/// let steps = ReasoningSteps::new(3)?;
/// assert_eq!(steps.judge("First, add. Finally, halve."), Reward::Outcome(2.0 / 3.0));
/// assert_eq!(steps.judge("It is 4."), Reward::Outcome(0.0));
/// # Ok::<(), grpo_core::Error>(())
/// ```
///
/// # Source
/// open-r1's pattern, which looks at the start of the text only for numbered lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReasoningSteps {
    enough: usize,
}

impl ReasoningSteps {
    /// Full marks from `enough` steps on.
    ///
    /// # Errors
    /// `enough` is 0.
    pub fn new(enough: usize) -> Result<Self, Error> {
        if enough == 0 { Err(Error::config("steps enough", 0, "at least 1")) } else { Ok(Self { enough }) }
    }

    /// How many marks a text has.
    pub fn count(text: &str) -> usize {
        let words: usize = ["First,", "Second,", "Next,", "Finally,"].iter().map(|word| text.matches(word).count()).sum();
        let bullets = text.matches("\n-").count() + text.matches("\n*").count();
        let digits = |rest: &str| rest.bytes().take_while(u8::is_ascii_digit).count();
        let numbered = text.match_indices("Step ").filter(|(at, mark)| {
            let rest = &text[at + mark.len()..];
            digits(rest) > 0 && rest[digits(rest)..].starts_with(':')
        });
        let first = digits(text) > 0 && text[digits(text)..].starts_with('.');
        words + bullets + numbered.count() + usize::from(first)
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        Reward::Outcome((Self::count(text) as f64 / self.enough as f64).min(1.0))
    }
}
super::text_reward!(ReasoningSteps, "reasoning_steps");
