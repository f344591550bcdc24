//! What a policy-gradient loss needs of every next-token distribution, without the `[rows, V]` logits.
//!
//! With N·Tc completion tokens and a vocabulary of 49,152, the logits of one step outweigh the model. [`linear_row_stats`] takes the last hidden
//! states and the output head instead, walks over the rows in chunks, and returns three numbers a row: the log-probability of the target, the entropy, and
//! the exact KL divergence to a reference. Its backward pass recomputes each chunk, so memory does not grow with rows × V in either direction.
//!
//! [`gated_silu`] is the gate of an MLP in one pass each way, where ordinary operations make nine.
//!
//! # Backends
//!
//! Custom autodiff operations, switched on for a backend by the Cargo feature of its name (`flex`, `ndarray`, `tch`, `wgpu`). On a device of any other backend the same
//! functions take the plain path (for row statistics [`plain_row_stats`]): equal values and gradients, ordinary tensor operations, and under autodiff the logits of every chunk stay on the tape.
//!
//! [`device`] finds out what a device can do; the backend crates share it.

#![forbid(unsafe_code)]

pub mod device;
mod error;
#[cfg(any(feature = "flex", feature = "ndarray", feature = "tch", feature = "wgpu"))]
mod fused;
mod gate;
mod plain;
mod route;
mod rows;

pub use error::KernelError;
pub use gate::gated_silu;
pub use plain::plain_row_stats;
pub use route::linear_row_stats;
pub use rows::{Ask, LinearRows, RowRequest, RowStats};
