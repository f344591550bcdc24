//! The flex CPU backend: the default, in plain Rust, without anything to install.
//!
//! ```
//! let device = grpo_flex::device()?;
//! assert_eq!(grpo_flex::probe(&device).name, "flex");
//! # Ok::<(), grpo_flex::DeviceError>(())
//! ```

#![forbid(unsafe_code)]

use burn::Tensor;
use burn::tensor::{DType, Device, TensorData};
// Linked for its feature `flex`: policies that call its operations get the fused ones on this device.
use grpo_kernels as _;

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device opens, but computes wrong values or none in 32 bits.
    #[error("device {name} computes no f32")]
    DoesNotCompute {
        /// The device's name.
        name: &'static str,
    },
}

/// What a device can do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The backend's name, as `--device` takes it.
    pub name: &'static str,
    /// The float types that compute, widest first.
    pub floats: Vec<DType>,
}

/// The CPU, without autodiff. For training: `device()?.autodiff()`.
///
/// # Errors
/// A device that does not compute. Where this backend is compiled in, it always does.
pub fn device() -> Result<Device, DeviceError> {
    let device = Device::flex();
    if probe(&device).floats.contains(&DType::F32) { Ok(device) } else { Err(DeviceError::DoesNotCompute { name: NAME }) }
}

/// Finds out what a device can do, by doing it: each float type is used in a small product, not only asked for.
pub fn probe(device: &Device) -> Capabilities {
    let floats = [DType::F64, DType::F32, DType::F16, DType::BF16].into_iter().filter(|&dtype| computes(device, dtype)).collect();
    Capabilities { name: NAME, floats }
}

const NAME: &str = "flex";

/// [1 2] · [3 4]ᵀ + e^0 = 12 in this float type.
fn computes(device: &Device, dtype: DType) -> bool {
    if !device.supports_dtype(dtype) {
        return false;
    }
    let device = device.clone().inner();
    let a = Tensor::<2>::from_data(TensorData::new(vec![1.0f32, 2.0], [1, 2]), (&device, dtype)); // [1, 2]
    let b = Tensor::<2>::from_data(TensorData::new(vec![3.0f32, 4.0], [2, 1]), (&device, dtype)); // [2, 1]
    let one = Tensor::<2>::zeros([1, 1], (&device, dtype)).exp(); // [1, 1]
    (a.matmul(b) + one).try_into_vec_as::<f64>().is_ok_and(|values| values == [12.0])
}
