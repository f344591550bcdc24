//! A thought before the answer; tags and marks that each earn a share.

use std::borrow::Cow;

use grpo_core::{Error, Reward};

use crate::answer::verdict;

/// What must follow the thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum After {
    /// Anything, even nothing.
    #[default]
    Anything,
    /// Something beside blanks.
    Something,
}

/// 1 if the text begins with `<think>` and holds that tag and `</think>` once each, in order; else 0.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::{After, ThoughtFirst};
/// let format = ThoughtFirst::new(After::Something);
/// assert_eq!(format.judge("<think>1 + 1</think>2"), Reward::Outcome(1.0));
/// assert_eq!(format.judge("<think>1 + 1</think>"), Reward::Outcome(0.0));
/// assert_eq!(format.judge("<think>a</think><think>b</think>2"), Reward::Outcome(0.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThoughtFirst {
    after: After,
}

impl ThoughtFirst {
    /// A thought, and this after it.
    pub fn new(after: After) -> Self {
        Self { after }
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        let (open, close) = ("<think>", "</think>");
        let once = text.starts_with(open) && text.matches(open).count() == 1 && text.matches(close).count() == 1;
        let rest = text.split_once(close).map(|(_, rest)| rest);
        verdict(once && rest.is_some_and(|rest| self.after == After::Anything || !rest.trim().is_empty()))
    }
}
super::text_reward!(ThoughtFirst, "thought_first");

/// The share of these marks that occur exactly once. In \[0, 1\].
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::MarkCounts;
/// let marks = MarkCounts::think_answer_lines();
/// assert_eq!(marks.judge("<think>\nreasons\n</think>\n<answer>\n4"), Reward::Outcome(0.75));
/// assert_eq!(marks.judge("<think>\n<think>\n"), Reward::Outcome(0.0)); // twice is not once
/// ```
///
/// # Source
/// open-r1's count of tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkCounts {
    marks: Vec<Cow<'static, str>>,
}

impl MarkCounts {
    /// The four tags of `<think>…</think><answer>…</answer>`, each with the line ends that set it apart.
    pub fn think_answer_lines() -> Self {
        Self { marks: ["<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>"].map(Cow::Borrowed).to_vec() }
    }

    /// These marks, at least one and none of them empty.
    ///
    /// # Errors
    /// No mark, or an empty one.
    pub fn new<S: Into<Cow<'static, str>>>(marks: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let marks: Vec<Cow<'static, str>> = marks.into_iter().map(Into::into).collect();
        if marks.is_empty() || marks.iter().any(|m| m.is_empty()) {
            return Err(Error::invalid("marks", "none or an empty one given, must be at least one and none empty"));
        }
        Ok(Self { marks })
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        let once = self.marks.iter().filter(|mark| text.matches(mark.as_ref()).count() == 1).count();
        Reward::Outcome(once as f64 / self.marks.len().max(1) as f64)
    }
}
super::text_reward!(MarkCounts, "mark_counts");

/// Σ w over the tags of which the text holds a complete pair.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::TagParts;
/// let parts = TagParts::new([("think", 0.25), ("answer", 0.75)])?;
/// assert_eq!(parts.judge("<answer>4</answer>"), Reward::Outcome(0.75));
/// assert_eq!(parts.judge("<think>reasons<answer>4</answer>"), Reward::Outcome(0.75));
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TagParts {
    parts: Vec<(Cow<'static, str>, f64)>,
}

impl TagParts {
    /// Tag names without angle brackets, and what each earns.
    ///
    /// # Errors
    /// A weight that is not finite.
    pub fn new<S: Into<Cow<'static, str>>>(parts: impl IntoIterator<Item = (S, f64)>) -> Result<Self, Error> {
        let parts: Vec<(Cow<'static, str>, f64)> = parts.into_iter().map(|(name, weight)| (name.into(), weight)).collect();
        match parts.iter().find(|(_, weight)| !weight.is_finite()) {
            Some((_, weight)) => Err(Error::config("tag weight", weight, "finite")),
            None => Ok(Self { parts }),
        }
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        let holds = |name: &str| text.split_once(&format!("<{name}>")).is_some_and(|(_, rest)| rest.contains(&format!("</{name}>")));
        Reward::Outcome(self.parts.iter().filter(|(name, _)| holds(name)).map(|(_, weight)| weight).sum())
    }
}
super::text_reward!(TagParts, "tag_parts");
