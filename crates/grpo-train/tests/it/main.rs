//! What the trainer promises, tried out from outside, on a policy small enough to train in no time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod crash;
mod episodes;
mod faults;
mod files;
mod resume;
mod straight;
mod support;
