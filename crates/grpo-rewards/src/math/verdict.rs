//! What a check says, and how it came to say it.

use std::borrow::Cow;

use grpo_core::Reward;

use super::compare::Equal;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The answer is right.
    Equal,
    /// It is wrong, or missing, or cannot be told from a wrong one within bounds.
    NotEqual,
    /// The gold answer cannot be read: nothing can be said.
    GoldUnreadable,
}

/// How an outcome was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// No answer was found.
    NoAnswer,
    /// By the texts, spelt in one way.
    Text,
    /// By exact values.
    Exact,
    /// By a common normal form.
    NormalForm,
    /// By rounding, as the tolerance allows.
    Rounding,
    /// By the difference's value at several points, zero to at least 2⁻³⁵⁰ of its own terms at a precision that grows with the numbers involved.
    AtPoints,
    /// An answer was found but says nothing definite: it is not mathematics, has no value, or is too large.
    Unreadable,
}

/// The outcome of a check, how it was reached, and what was compared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict<'t> {
    /// The outcome.
    pub outcome: Outcome,
    /// How it was reached.
    pub how: How,
    /// The gold answer as it was read.
    pub gold: Cow<'t, str>,
    /// The answer found, if any.
    pub answer: Option<Cow<'t, str>>,
}

impl From<Outcome> for Reward {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Equal => Self::Outcome(1.0),
            Outcome::NotEqual => Self::Outcome(0.0),
            Outcome::GoldUnreadable => Self::NotApplicable,
        }
    }
}

impl From<Equal> for How {
    fn from(equal: Equal) -> Self {
        match equal {
            Equal::Exactly => Self::Exact,
            Equal::ByNormalForm => Self::NormalForm,
            Equal::ByRounding => Self::Rounding,
            Equal::AtPoints => Self::AtPoints,
        }
    }
}
