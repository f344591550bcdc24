//! Numbers that change while a run goes on: schedules, and coefficients that follow a measurement. All state can be saved.

mod coefficient;
mod entropy;
mod schedule;

pub use coefficient::{AdaptiveKl, Coefficient, CoefficientState};
pub use entropy::{AdaptiveEntropy, EntropyState};
pub use schedule::Schedule;
