//! Reward shaping: what length and repetition cost. Pure functions of numbers, and reward functions made of them.

mod length;
mod overlong;
mod repetition;
#[cfg(test)]
mod tests;
mod wrap;

pub use length::{CosineLength, ShorterWins, Verdict};
pub use overlong::{Overlong, OverlongPenalty};
pub use repetition::{RepetitionPenalty, RepetitionUnit};
pub use wrap::{Judged, Rescale, Rescaled, StopProperly};
