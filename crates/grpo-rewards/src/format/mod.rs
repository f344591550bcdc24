//! The form of a text, whatever it says.

mod tags;

pub use tags::{Format, Opening};
