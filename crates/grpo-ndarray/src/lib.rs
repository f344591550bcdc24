//! The ndarray CPU backend, in plain Rust. burn removes it in a release to come; [flex](https://docs.rs/grpo-flex) is its successor.
//!
//! ```
//! let device = grpo_ndarray::device()?;
//! assert_eq!(grpo_ndarray::probe(&device).name, "ndarray");
//! # Ok::<(), grpo_ndarray::DeviceError>(())
//! ```

#![forbid(unsafe_code)]

use burn::tensor::Device;
use grpo_kernels::device::working;
pub use grpo_kernels::device::{Capabilities, DeviceError};

const NAME: &str = "ndarray";

/// What it lacks. Where single operations differ, `tests/conformance.rs` excludes them with the reason.
const DEVIATIONS: &[&str] = &["computes neither f16 nor bf16"];

/// The CPU, without autodiff. For training: `device()?.autodiff()`.
///
/// # Errors
/// A device that does not compute. Where this backend is compiled in, it always does.
pub fn device() -> Result<Device, DeviceError> {
    #[expect(deprecated, reason = "asked for by name; burn 0.22 is the last release that has it")]
    let device = Device::ndarray();
    working(NAME, device)
}

/// Finds out what a device can do, by doing it: each float type is used in a product and some functions, not only asked for.
pub fn probe(device: &Device) -> Capabilities {
    Capabilities::probe_host(NAME, device).with_deviations(DEVIATIONS)
}
