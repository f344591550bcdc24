//! Rule-based rewards for GRPO: answers, formats.
//!
//! Every rule is a [`RewardFn`](grpo_core::RewardFn) and a plain method on text, pure, bounded in time and memory by its input's length, and without panics.
//!
//! ```
//! use grpo_core::Rewards;
//! use grpo_rewards::answer::{Extract, NumericAnswer};
//! use grpo_rewards::format::Format;
//! // DeepSeek-R1's pair: the right answer, in the right form.
//! let rewards = Rewards::<String>::new()
//!     .with(1.0, NumericAnswer::new(Extract::tag("answer")))
//!     .with(0.5, Format::think_answer());
//! assert_eq!(rewards.names(), ["numeric_answer", "format"]);
//! ```

pub mod answer;
pub mod choice;
#[cfg(all(target_os = "linux", feature = "code"))]
pub mod code;
pub mod compose;
pub mod format;
pub mod math;
pub mod preference;
pub mod puzzle;

/// What length and repetition cost: from the core.
pub mod shaping {
    pub use grpo_core::{
        CosineLength, Judged, Overlong, OverlongPenalty, RepetitionPenalty, RepetitionUnit, Rescale, Rescaled, ShorterWins, StopProperly,
        Verdict,
    };
}
