//! The form of a text, whatever it says.
//!
//! All of these are [`RewardFn`](grpo_core::RewardFn)s of any task, and have a method `judge` on text.

mod code;
mod constraint;
mod pattern;
mod schema;
mod script;
mod steps;
mod tags;
mod thought;

pub use code::{CodeFormat, fenced};
pub use constraint::{Constraint, Constraints};
pub use pattern::Pattern;
pub use schema::{JsonSchema, SchemaError};
pub use script::{Script, ScriptShare};
pub use steps::ReasoningSteps;
pub use tags::{Format, Layout, Opening};
pub use thought::{After, MarkCounts, TagParts, ThoughtFirst};

/// A reward of the completion's text alone.
macro_rules! text_reward {
    ($type:ty, $name:literal) => {
        impl<T: ?Sized> grpo_core::RewardFn<T> for $type {
            fn name(&self) -> &str {
                $name
            }
            fn score(&self, _: &T, completion: &grpo_core::Completion) -> Result<grpo_core::Reward, grpo_core::BoxError> {
                Ok(self.judge(&completion.text))
            }
        }
    };
}
pub(crate) use text_reward;
