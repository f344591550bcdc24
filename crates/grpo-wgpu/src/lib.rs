//! The WGPU backend: any GPU, through Vulkan, Metal, DirectX 12 or WebGPU, and a software Vulkan where there is none.
//!
//! ```no_run
//! use burn::tensor::DeviceKind;
//!
//! let device = grpo_wgpu::device(DeviceKind::DefaultDevice)?;
//! println!("{}", grpo_wgpu::probe(&device).adapter);
//! # Ok::<(), grpo_wgpu::DeviceError>(())
//! ```
//!
//! Which API is used is wgpu's choice, OpenGL where there is nothing else, and shaders are WGSL. The features `vulkan` and `metal` give shaders of the API itself and
//! devices that are pinned to it; `webgpu` is the browser's. `cuda` is CubeCL's own CUDA backend, which computes with the same kernels.

#![forbid(unsafe_code)]

use std::sync::Mutex;

use burn::tensor::wgpu::WgpuBackend;
use burn::tensor::{Device, DeviceKind};
use grpo_kernels::device::working;
pub use grpo_kernels::device::{Capabilities, DeviceError};

const NAME: &str = "wgpu";

/// What it does otherwise than flex.
const DEVIATIONS: &[&str] = &[
    "claims f64 on some adapters, and computes exponentials in it wrongly",
    "shaders may flush numbers below 1.2e-38 to 0 and need not tell NaN from numbers",
];

/// Which API drives the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Api {
    /// wgpu's choice.
    #[default]
    Auto,
    /// DirectX 12, on Windows.
    Dx12,
    /// Vulkan, with SPIR-V shaders.
    #[cfg(feature = "vulkan")]
    Vulkan,
    /// Metal, with MSL shaders.
    #[cfg(feature = "metal")]
    Metal,
    /// The browser's.
    #[cfg(feature = "webgpu")]
    WebGpu,
}

impl Api {
    fn name(self) -> &'static str {
        match self {
            Self::Auto => NAME,
            Self::Dx12 => "dx12",
            #[cfg(feature = "vulkan")]
            Self::Vulkan => "vulkan",
            #[cfg(feature = "metal")]
            Self::Metal => "metal",
            #[cfg(feature = "webgpu")]
            Self::WebGpu => "webgpu",
        }
    }

    fn backend(self) -> WgpuBackend {
        match self {
            Self::Auto => WgpuBackend::Auto,
            Self::Dx12 => WgpuBackend::Dx12,
            #[cfg(feature = "vulkan")]
            Self::Vulkan => WgpuBackend::Vulkan,
            #[cfg(feature = "metal")]
            Self::Metal => WgpuBackend::Metal,
            #[cfg(feature = "webgpu")]
            Self::WebGpu => WgpuBackend::WebGpu,
        }
    }
}

/// The adapter of a kind, by the API that wgpu chooses, without autodiff. For training: `device(kind)?.autodiff()`.
///
/// # Errors
/// No such adapter, a driver that refuses, a device that does not compute. In a browser opening is asynchronous and this one refuses: use burn's `init_async` there.
pub fn device(kind: DeviceKind) -> Result<Device, DeviceError> {
    device_by(Api::Auto, kind)
}

/// The same by this API, or not at all.
///
/// # Errors
/// As [`device`].
pub fn device_by(api: Api, kind: DeviceKind) -> Result<Device, DeviceError> {
    let absent = |problem: String| DeviceError::Absent { name: api.name().to_owned(), problem };
    // burn opens a device once in a process, and would panic on first use of one that does not open.
    static OPEN: Mutex<Vec<(WgpuBackend, DeviceKind, Device)>> = Mutex::new(Vec::new());
    let mut opened = OPEN.lock().map_err(|_| absent("opening it failed before".to_owned()))?;
    if let Some((.., device)) = opened.iter().find(|(a, k, _)| *a == api.backend() && *k == kind) {
        return Ok(device.clone());
    }
    #[cfg(target_family = "wasm")]
    return Err(absent("a browser opens it asynchronously: use burn's `Device::wgpu_options().init_async()`".to_owned()));
    #[cfg(not(target_family = "wasm"))]
    {
        let options = Device::wgpu_options().device_kind(kind.clone()).graphics_api(api.backend());
        let device = working(api.name(), options.init().map_err(|e| absent(e.to_string()))?)?;
        opened.push((api.backend(), kind, device.clone()));
        Ok(device)
    }
}

/// The NVIDIA GPU of this number by CubeCL's CUDA backend. It was type-checked, never linked or run: there was no such GPU.
///
/// # Errors
/// No such GPU, a device that does not compute.
#[cfg(feature = "cuda")]
pub fn cuda(index: usize) -> Result<Device, DeviceError> {
    let name = format!("cuda:{index}");
    let there = Device::enumerate(burn::tensor::DeviceType::Cuda).into_vec();
    match there.get(index) {
        Some(device) => working(&name, device.clone()),
        None => Err(DeviceError::Absent { problem: format!("CUDA sees {} devices", there.len()), name }),
    }
}

/// Finds out what a device can do, by doing it: each float type is used in a product and some functions, not only asked for. burn tells neither how
/// much memory an adapter has nor which API drives it.
pub fn probe(device: &Device) -> Capabilities {
    let adapter = device.clone().inner().identity().map_or_else(|| format!("{device:?}"), |identity| identity.name);
    Capabilities::probe(NAME, adapter, device).with_deviations(DEVIATIONS)
}
