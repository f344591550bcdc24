//! What the trainer promises, tried out from outside, on a policy small enough to train in no time.

mod crash;
mod episodes;
mod faults;
mod files;
mod resume;
mod straight;
mod support;
