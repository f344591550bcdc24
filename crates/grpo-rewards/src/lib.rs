#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod answer;
pub mod choice;
#[cfg(all(target_os = "linux", feature = "code"))]
pub mod code;
pub mod compose;
pub mod format;
#[cfg(feature = "judge")]
pub mod judge;
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
