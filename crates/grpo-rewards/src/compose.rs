//! Rewards made of rewards.
//!
//! A weighted list with a table of what each said is [`grpo_core::Rewards`]; here are the pieces that make one reward of several, and wrappers
//! that watch, remember, bound and spread the work. All of them pass "does not apply" on; none turns it into a number.

mod cache;
mod combine;
mod deadline;
mod summary;
mod watch;

pub use cache::{CacheCounts, Cached};
pub use combine::{Clipped, Gate, Product, Sum};
pub use deadline::{Deadline, Parallel};
pub use summary::{Summary, summaries};
pub use watch::{Watched, WatchedCounts};
