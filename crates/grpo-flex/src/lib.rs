//! The flex CPU backend: the default, in plain Rust, without anything to install.
//!
//! ```
//! let device = grpo_flex::device()?;
//! assert_eq!(grpo_flex::probe(&device).name, "flex");
//! # Ok::<(), grpo_flex::DeviceError>(())
//! ```

#![forbid(unsafe_code)]

use burn::tensor::Device;
use grpo_kernels::device::working;
pub use grpo_kernels::device::{Capabilities, DeviceError};

const NAME: &str = "flex";

/// The CPU, without autodiff. For training: `device()?.autodiff()`.
///
/// # Errors
/// A device that does not compute. Where this backend is compiled in, it always does.
pub fn device() -> Result<Device, DeviceError> {
    working(NAME, Device::flex())
}

/// Finds out what a device can do, by doing it: each float type is used in a product and some functions, not only asked for.
pub fn probe(device: &Device) -> Capabilities {
    Capabilities::probe_host(NAME, device)
}
