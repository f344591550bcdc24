//! What a device can do, found out by doing it. The backend crates share this; each adds what only it knows.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::Tensor;
use burn::tensor::{DType, Device, TensorData};

/// Why a device could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no such device on this machine, or its driver refuses.
    #[error("device {name} cannot be opened: {problem}")]
    Absent {
        /// The device's name.
        name: String,
        /// What the backend said.
        problem: String,
    },
    /// The device opens, but computes wrong values or none in 32 bits.
    #[error("device {name} computes no f32")]
    DoesNotCompute {
        /// The device's name.
        name: String,
    },
}

/// What a device can do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The backend's name.
    pub name: &'static str,
    /// What computes: the processor or the graphics adapter, by its own name where it has one.
    pub adapter: String,
    /// The float types that compute, widest first.
    pub floats: Vec<DType>,
    /// What this backend is known to do otherwise than the others; the library works around each.
    pub deviations: &'static [&'static str],
    /// Bytes of memory that tensors can have, where it can be known.
    pub memory: Option<u64>,
}

impl Capabilities {
    /// Tries each float type on the device. For backend crates.
    pub fn probe(name: &'static str, adapter: String, device: &Device) -> Self {
        let floats = [DType::F64, DType::F32, DType::F16, DType::BF16].into_iter().filter(|&dtype| computes(device, dtype)).collect();
        Self { name, adapter, floats, deviations: &[], memory: None }
    }

    /// The same for a device on the host's processor, which shares the host's memory.
    pub fn probe_host(name: &'static str, device: &Device) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let processor = host_processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let adapter = format!("{processor}, {threads} threads");
        Self { memory: host_memory(), ..Self::probe(name, adapter, device) }
    }

    /// With what is known to differ.
    #[must_use]
    pub fn with_deviations(mut self, deviations: &'static [&'static str]) -> Self {
        self.deviations = deviations;
        self
    }
}

/// The device, if it computes in 32 bits. For backend crates.
///
/// # Errors
/// [`DeviceError::DoesNotCompute`].
pub fn working(name: &str, device: Device) -> Result<Device, DeviceError> {
    if computes(&device, DType::F32) { Ok(device) } else { Err(DeviceError::DoesNotCompute { name: name.to_owned() }) }
}

/// Whether a device really computes in a float type. A type may be claimed and give wrong numbers (software Vulkan has f64 sums and products, and no f64
/// exponential), and burn panics where it meets one that is not there.
pub fn computes(device: &Device, dtype: DType) -> bool {
    let tolerance = match dtype {
        DType::F64 => 1e-14,
        DType::F16 => 1e-2,
        DType::BF16 => 1e-1,
        _ => 1e-5,
    };
    let device = device.clone().inner();
    let compute = || {
        if !device.supports_dtype(dtype) {
            return false;
        }
        let data = |shape, first, second| {
            Tensor::<2>::from_data(TensorData::new(vec![first, second], shape), &device).cast(dtype) // 32 bits are there on every device
        };
        let x = data([1, 2], 1.0f32, 2.0); // [1, 2]
        let product = x.clone().matmul(data([2, 1], 3.0, 4.0)); // [1, 1]
        let want = [11.0, 1f64.exp() + 0.5, 2f64.exp() + 2f64.ln() + 0.5, 1f64.tanh(), 2f64.tanh()];
        let got = Tensor::cat(vec![product, x.clone().exp() + x.clone().log() + 0.5, x.tanh()], 1); // [1, 5]
        got.try_into_vec_as::<f64>().is_ok_and(|got| got.iter().zip(want).all(|(got, want)| (got - want).abs() <= tolerance * want))
    };
    catch_unwind(AssertUnwindSafe(compute)).unwrap_or(false)
}

/// The name that the host's processor gives itself, on Linux.
fn host_processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The host's memory, on Linux.
fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes: u64 = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
