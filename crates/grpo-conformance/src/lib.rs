//! One suite for every backend: golden vectors, a slow plain f64 reference, and a runner over a device.
//!
//! Backends are values in burn, not types: what makes the library backend-generic is that this suite passes on each of them.
//!
//! ```
//! let device = grpo_conformance::open("flex")?;
//! let report = grpo_conformance::suite(&device);
//! assert!(report.is_green(), "{report}");
//! # Ok::<(), grpo_conformance::Error>(())
//! ```
//!
//! - [`Vectors`] reads a folder of JSON files and checks each case on the reference, in host arithmetic and on tensors.
//! - [`suite`] is for backend crates: the operations that the library relies on, values and gradients. It needs no files. [`Suite`] is the same with
//!   other float types, and with exclusions.
//! - The program `check-vectors DIR [--device NAME] [--dtype f32|f64|both]` does the first from a command line.

#![forbid(unsafe_code)]

mod cases;
mod compare;
mod error;
mod reference;
mod report;
mod runner;
mod suite;
mod vectors;

pub use compare::Mismatch;
pub use error::{Error, Result};
pub use grpo_device::{compiled, open};
pub use report::{Checked, Column, Outcome, Report, Tally};
pub use suite::{Exclusion, Fate, Suite, suite};
pub use vectors::{Precision, Vectors};
