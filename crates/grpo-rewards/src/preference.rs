//! Scores from preferences: rankings of a group, and comparisons of two answers at a time.

mod pairwise;
mod ranking;

pub use pairwise::{BradleyTerry, Comparison, Pairs, PairwiseReward, Preferred};
pub use ranking::{Ranking, RankingReward};
