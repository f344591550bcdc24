//! Answers: where they stand in a text, and whether they are right.

mod chars;
mod extract;
mod number;
mod rewards;

pub use extract::{Extract, Presence, Thoughts};
pub use number::only_number;
pub(crate) use chars::plain;
pub(crate) use extract::{Boxed, boxes};
pub(crate) use number::{MAX_EXPONENT, decimal, next_number};
pub(crate) use rewards::verdict;
pub use rewards::{ExactAnswer, LineAnswer, NumericAnswer, gold_text};
