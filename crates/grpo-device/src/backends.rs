//! The table: a backend joins here, with a feature of its name.

use super::Opened;
use grpo_kernels::device::DeviceError;

/// Opens what stands behind the backend's name; `None` if that is no form of it.
type Open = fn(&str) -> Option<Result<Opened, DeviceError>>;

pub(super) struct Backend {
    pub name: &'static str,
    /// The Cargo feature it needs.
    pub feature: &'static str,
    /// The names it answers to.
    pub forms: &'static [&'static str],
    /// `None` where the feature is off.
    pub open: Option<Open>,
}

pub(super) const BACKENDS: &[Backend] = &[
    Backend { name: "flex", feature: "flex", forms: &["flex"], open: FLEX },
    Backend { name: "ndarray", feature: "ndarray", forms: &["ndarray"], open: NDARRAY },
    Backend { name: "tch", feature: "tch", forms: &["tch", "tch:cuda:0"], open: TCH },
    Backend {
        name: "wgpu",
        feature: "wgpu",
        forms: &["wgpu", "wgpu:discrete:0", "wgpu:integrated:0", "wgpu:virtual:0", "wgpu:cpu"],
        open: WGPU,
    },
    Backend { name: "dx12", feature: "wgpu, on Windows", forms: &["dx12"], open: DX12 },
    Backend { name: "vulkan", feature: "vulkan", forms: &["vulkan"], open: VULKAN },
    Backend { name: "metal", feature: "metal", forms: &["metal"], open: METAL },
    Backend { name: "webgpu", feature: "webgpu", forms: &["webgpu"], open: WEBGPU },
    Backend { name: "cuda", feature: "cuda", forms: &["cuda", "cuda:0"], open: CUDA },
];

/// `$open` where the feature is on, else nothing.
macro_rules! switched {
    ($name:ident, $feature:literal, $open:expr) => {
        #[cfg(feature = $feature)]
        const $name: Option<Open> = Some($open);
        #[cfg(not(feature = $feature))]
        const $name: Option<Open> = None;
    };
}

switched!(FLEX, "flex", |rest| rest.is_empty().then(|| grpo_flex::device().map(|d| (d, grpo_flex::probe as _))));
switched!(NDARRAY, "ndarray", |rest| rest.is_empty().then(|| grpo_ndarray::device().map(|d| (d, grpo_ndarray::probe as _))));
switched!(TCH, "tch", |rest| {
    let on = match rest {
        "" => grpo_tch::On::Cpu,
        _ => grpo_tch::On::Cuda(rest.strip_prefix("cuda:")?.parse().ok()?),
    };
    Some(grpo_tch::device(on).map(|d| (d, grpo_tch::probe as _)))
});
switched!(WGPU, "wgpu", |rest| by_wgpu(grpo_wgpu::Api::Auto, rest));
// There is no DirectX elsewhere.
#[cfg(all(feature = "wgpu", windows))]
const DX12: Option<Open> = Some(|rest| by_wgpu(grpo_wgpu::Api::Dx12, rest));
#[cfg(not(all(feature = "wgpu", windows)))]
const DX12: Option<Open> = None;
switched!(VULKAN, "vulkan", |rest| by_wgpu(grpo_wgpu::Api::Vulkan, rest));
switched!(METAL, "metal", |rest| by_wgpu(grpo_wgpu::Api::Metal, rest));
switched!(WEBGPU, "webgpu", |rest| by_wgpu(grpo_wgpu::Api::WebGpu, rest));
switched!(CUDA, "cuda", |rest| {
    let index = if rest.is_empty() { 0 } else { rest.parse().ok()? };
    Some(grpo_wgpu::cuda(index).map(|d| (d, grpo_wgpu::probe as _)))
});

#[cfg(feature = "wgpu")]
fn by_wgpu(api: grpo_wgpu::Api, rest: &str) -> Option<Result<Opened, DeviceError>> {
    use burn::tensor::DeviceKind;
    let (kind, index) = rest.split_once(':').unwrap_or((rest, "0"));
    let index: usize = index.parse().ok()?;
    let kind = match kind {
        "" if rest.is_empty() => DeviceKind::DefaultDevice,
        "discrete" => DeviceKind::DiscreteGpu(index),
        "integrated" => DeviceKind::IntegratedGpu(index),
        "virtual" => DeviceKind::VirtualGpu(index),
        "cpu" if rest == "cpu" => DeviceKind::Cpu,
        _ => return None,
    };
    Some(grpo_wgpu::device_by(api, kind).map(|d| (d, grpo_wgpu::probe as _)))
}
