//! Constraints that can be checked without understanding the text.

use std::ops::RangeInclusive;

use grpo_core::{Error, Reward};

/// One constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Constraint {
    /// So many words, separated by blanks.
    Words(RangeInclusive<usize>),
    /// So many characters.
    Characters(RangeInclusive<usize>),
    /// So many paragraphs, separated by blank lines.
    Paragraphs(RangeInclusive<usize>),
    /// So many lines that begin with `-` or `*`.
    Bullets(RangeInclusive<usize>),
    /// This text, whatever its case, so many times.
    Mentions(String, RangeInclusive<usize>),
    /// Begins with this, blanks left aside.
    StartsWith(String),
    /// Ends with this, blanks left aside.
    EndsWith(String),
    /// No lower-case letter.
    UpperCase,
    /// No upper-case letter.
    LowerCase,
    /// No comma.
    NoComma,
}

impl Constraint {
    /// Whether a text keeps it.
    pub fn holds(&self, text: &str) -> bool {
        let paragraphs = || text.split("\n\n").filter(|p| !p.trim().is_empty()).count();
        match self {
            Self::Words(range) => range.contains(&text.split_whitespace().count()),
            Self::Characters(range) => range.contains(&text.chars().count()),
            Self::Paragraphs(range) => range.contains(&paragraphs()),
            Self::Bullets(range) => range.contains(&text.lines().filter(|l| l.trim_start().starts_with(['-', '*'])).count()),
            Self::Mentions(what, range) => range.contains(&text.to_lowercase().matches(&what.to_lowercase()).count()),
            Self::StartsWith(start) => text.trim_start().starts_with(start.as_str()),
            Self::EndsWith(end) => text.trim_end().ends_with(end.as_str()),
            Self::UpperCase => !text.chars().any(char::is_lowercase),
            Self::LowerCase => !text.chars().any(char::is_uppercase),
            Self::NoComma => !text.contains([',', '，', '、']),
        }
    }
}

/// The share of constraints that a text keeps. In \[0, 1\].
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::{Constraint, Constraints};
/// let all = Constraints::new([Constraint::Words(1..=5), Constraint::NoComma, Constraint::Mentions("tea".into(), 1..=1)])?;
/// assert_eq!(all.judge("Tea is best hot."), Reward::Outcome(1.0));
/// assert_eq!(all.judge("Tea, tea."), Reward::Outcome(1.0 / 3.0));
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraints {
    all: Vec<Constraint>,
}

impl Constraints {
    /// These constraints, at least one.
    ///
    /// # Errors
    /// None given, or an empty text to mention.
    pub fn new(all: impl IntoIterator<Item = Constraint>) -> Result<Self, Error> {
        let all: Vec<Constraint> = all.into_iter().collect();
        if all.is_empty() || all.iter().any(|c| matches!(c, Constraint::Mentions(what, _) if what.is_empty())) {
            return Err(Error::invalid("constraints", "none given, or an empty text to mention, must be at least one and not empty"));
        }
        Ok(Self { all })
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        Reward::Outcome(self.all.iter().filter(|c| c.holds(text)).count() as f64 / self.all.len().max(1) as f64)
    }
}
super::text_reward!(Constraints, "constraints");
