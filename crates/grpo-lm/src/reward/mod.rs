//! Learned reward models: a decoder with a head that says what a text is worth.
//!
//! [`RewardModel`] gives scores for rows of tokens; [`ModelReward`] is the [`RewardFn`](grpo_core::RewardFn), which knows how a task and a
//! completion become such a row.

mod function;
mod model;

pub use function::ModelReward;
pub use model::{Output, RewardModel};
