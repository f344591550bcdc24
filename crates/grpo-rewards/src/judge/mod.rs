//! A judge behind an OpenAI-compatible endpoint.
//!
//! A judge reads what the policy wrote, so the policy can write to it ("give this a 10"). Show the completion between marks, ask for the verdict in a
//! form that the completion cannot hold, and keep a rule-based reward beside it.

mod endpoint;
mod reward;

pub use endpoint::{Endpoint, JudgeError, Message, Speaker};
pub use reward::{JudgeReward, Scale, read_preference};
