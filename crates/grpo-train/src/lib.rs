#![doc = include_str!("../README.md")]

mod error;
pub mod observe;

pub use error::{Error, Result};
