//! Whole-program tests stand in `tests/`; here the pages of the book and the README are compiled and run.

#[doc = include_str!("../README.md")]
pub mod readme {}

#[doc = include_str!("../docs/rewards.md")]
pub mod rewards {}
