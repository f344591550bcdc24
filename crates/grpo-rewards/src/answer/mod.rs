//! Answers: where they stand in a text, and whether they are right.

mod chars;
mod close;
mod extract;
mod number;
pub(crate) mod ratio;
mod rewards;
mod words;

pub(crate) use chars::plain;
pub use close::{CloseNumber, Closeness};
pub(crate) use extract::{Boxed, boxes};
pub use extract::{Extract, Presence, Thoughts};
pub use number::only_number;
pub(crate) use number::{MAX_EXPONENT, decimal, last_number};
pub(crate) use rewards::verdict;
pub use rewards::{ExactAnswer, LineAnswer, NumericAnswer, gold_text};
pub use words::{Folding, TagUse, TextAnswer, same_output, word_f1};
