//! Tags in order, each once.

use std::borrow::Cow;

use grpo_core::Reward;

use crate::answer::verdict;

/// Where the first tag opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Opening {
    /// The completion opens it.
    #[default]
    InCompletion,
    /// The prompt ends with it, so the completion begins inside.
    InPrompt,
}

/// How the tags are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Blanks round and between the parts are free.
    #[default]
    Free,
    /// Every tag has a line of its own, and nothing stands between the lines of the parts.
    OwnLines,
}

/// 1 if the text is exactly these tags in this order, each once, with something in each and only blanks round and between them; else 0.
///
/// Other tags and bare `<` within a part are free. [`Format::think_answer`] is the format half of DeepSeek-R1's reward pair; the other half
/// is an answer reward with [`Extract::tag`](crate::answer::Extract::tag).
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::Format;
/// let format = Format::think_answer();
/// assert_eq!(format.judge("<think>1 < 2</think>\n<answer>2</answer>\n"), Reward::Outcome(1.0));
/// assert_eq!(format.judge("<think>a</think><answer>b</answer><answer>c</answer>"), Reward::Outcome(0.0)); // fishing
/// assert_eq!(format.judge("<think>a<answer>b</answer></think>"), Reward::Outcome(0.0)); // nested
/// assert_eq!(format.judge("<think></think><answer>b</answer>"), Reward::Outcome(0.0)); // empty
/// ```
///
/// # Source
/// DeepSeek-R1 (arXiv 2501.12948), section 2.2.2. Public checkers differ on empty parts and on text between the tags; both earn nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    tags: Vec<Cow<'static, str>>,
    opening: Opening,
    layout: Layout,
}

impl Format {
    /// `<think>…</think>` and then `<answer>…</answer>`.
    pub fn think_answer() -> Self {
        Self::tags(["think", "answer"])
    }

    /// These tags, names without angle brackets. Without any tag, only a blank text has the format.
    pub fn tags<S: Into<Cow<'static, str>>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { tags: names.into_iter().map(Into::into).collect(), opening: Opening::InCompletion, layout: Layout::Free }
    }

    /// Says where the first tag opens.
    pub fn opening(mut self, opening: Opening) -> Self {
        self.opening = opening;
        self
    }

    /// Sets how the tags are set.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        verdict(self.holds(text).is_some())
    }

    fn holds(&self, text: &str) -> Option<()> {
        let mut rest = text;
        for (index, name) in self.tags.iter().enumerate() {
            let (open, close) = (format!("<{name}>"), format!("</{name}>"));
            let opened_before = index == 0 && self.opening == Opening::InPrompt;
            if text.matches(&*open).count() != usize::from(!opened_before) || text.matches(&*close).count() != 1 {
                return None;
            }
            if !opened_before {
                rest = rest.trim_start().strip_prefix(&*open)?;
            }
            let (part, after) = rest.split_once(&*close)?;
            let own_lines = part.ends_with('\n')
                && (opened_before || part.len() > 1 && part.starts_with('\n'))
                && (after.is_empty() || after.starts_with('\n'));
            if part.trim().is_empty() || (self.layout == Layout::OwnLines && !own_lines) {
                return None;
            }
            rest = after;
        }
        rest.trim().is_empty().then_some(())
    }
}

super::text_reward!(Format, "format");

#[cfg(test)]
mod tests {
    use grpo_core::Reward;

    use super::{Format, Opening};

    #[test]
    fn only_the_exact_form_earns_the_reward() {
        for (text, right) in [
            ("<think>a</think><answer>b</answer>", true),
            ("<think>a <b>x</b> < 3</think><answer>b</answer>", true),
            ("hi <think>a</think><answer>b</answer>", false),
            ("<think>a</think></think><answer>b</answer>", false),
            ("<think>a</think><answer>b</answer>extra", false),
            ("<think>a</think>x<answer>b</answer>", false),
            ("<think></think><answer></answer><answer></answer>", false),
            ("a</think><answer>b</answer>", false),
            ("<answer>b</answer><think>a</think>", false),
        ] {
            assert_eq!(Format::think_answer().judge(text), Reward::Outcome(f64::from(u8::from(right))), "{text}");
        }
    }

    #[test]
    fn tags_on_lines_of_their_own_can_be_asked_for() {
        let format = Format::think_answer().layout(super::Layout::OwnLines);
        assert_eq!(format.judge("<think>\na\n</think>\n<answer>\nb\n</answer>"), Reward::Outcome(1.0));
        assert_eq!(format.judge("<think>a</think>\n<answer>\nb\n</answer>"), Reward::Outcome(0.0));
        assert_eq!(format.judge("<think>\na\n</think><answer>\nb\n</answer>"), Reward::Outcome(0.0));
    }

    #[test]
    fn a_thought_that_the_prompt_opened_needs_no_opening_tag() {
        let format = Format::think_answer().opening(Opening::InPrompt);
        assert_eq!(format.judge("a</think><answer>b</answer>"), Reward::Outcome(1.0));
        assert_eq!(format.judge("<think>a</think><answer>b</answer>"), Reward::Outcome(0.0));
    }
}
