//! The LibTorch backend: the CPU and NVIDIA GPUs, by the library under PyTorch. It needs LibTorch 2.9.0 installed (see this crate's README).
//! burn removes it in a release to come.
//!
//! ```
//! use grpo_tch::On;
//!
//! let device = grpo_tch::device(On::Cpu)?;
//! assert_eq!(grpo_tch::probe(&device).name, "tch");
//! // A GPU that is not there is an error, no panic.
//! assert!(grpo_tch::device(On::Cuda(99)).is_err());
//! # Ok::<(), grpo_tch::DeviceError>(())
//! ```

#![forbid(unsafe_code)]

use std::fmt;

use burn::tensor::Device;
use grpo_kernels::device::working;
pub use grpo_kernels::device::{Capabilities, DeviceError};

const NAME: &str = "tch";

/// What it does otherwise than flex. The library uses none of these operations; attention is composed, see `DESIGN.md`.
const DEVIATIONS: &[&str] = &[
    "its own attention takes a boolean mask the wrong way round",
    "its own attention leaves soft-capping out",
    "its own causal attention aligns queries with the first keys, not with the last",
];

/// What of LibTorch computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum On {
    /// The CPU.
    #[default]
    Cpu,
    /// The NVIDIA GPU of this number, from 0 on. LibTorch must have been installed with CUDA.
    Cuda(usize),
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.pad(NAME),
            Self::Cuda(index) => write!(f, "{NAME}:cuda:{index}"),
        }
    }
}

/// The device, without autodiff. For training: `device(on)?.autodiff()`.
///
/// # Errors
/// A GPU that LibTorch does not see, a device that does not compute.
pub fn device(on: On) -> Result<Device, DeviceError> {
    let device = match on {
        #[expect(deprecated, reason = "asked for by name; burn 0.22 is the last release that has it")]
        On::Cpu => Device::libtorch(),
        On::Cuda(index) => {
            // burn panics on a GPU that is not there.
            let there = usize::try_from(tch::Cuda::device_count()).unwrap_or(0);
            if index >= there {
                let problem = format!("LibTorch sees {there} CUDA devices (one that is installed without CUDA sees none)");
                return Err(DeviceError::Absent { name: on.to_string(), problem });
            }
            #[expect(deprecated, reason = "asked for by name; burn 0.22 is the last release that has it")]
            Device::libtorch_cuda(index)
        }
    };
    working(&on.to_string(), device)
}

/// Finds out what a device can do, by doing it: each float type is used in a product and some functions, not only asked for.
pub fn probe(device: &Device) -> Capabilities {
    let name = format!("{device:?}");
    let found = if name.contains("Cuda") { Capabilities::probe(NAME, name, device) } else { Capabilities::probe_host(NAME, device) };
    found.with_deviations(DEVIATIONS)
}
