//! A device by its name, as `--device` takes it: the one table of backends.
//!
//! ```
//! let device = grpo_device::open("flex")?;
//! assert!(grpo_device::compiled().contains(&"flex"));
//! let complaint = grpo_device::open("abacus").unwrap_err().to_string();
//! assert!(complaint.starts_with("device `abacus` is not known"));
//! # Ok::<(), grpo_device::Error>(())
//! ```
//!
//! | name | what | Cargo feature |
//! |---|---|---|
//! | `flex` | the CPU, the default | `flex` |
//! | `ndarray` | the CPU, by ndarray | `ndarray` |
//! | `tch`, `tch:cuda:0` | LibTorch: the CPU, an NVIDIA GPU | `tch` |
//! | `wgpu`, `wgpu:discrete:0`, `wgpu:integrated:0`, `wgpu:virtual:0`, `wgpu:cpu` | WGPU: the best adapter, or one of a kind | `wgpu` |
//! | `dx12` and the same endings | the same, by DirectX 12 alone | `wgpu`, on Windows |
//! | `vulkan`, `metal`, `webgpu` and the same endings | the same, by this API alone | `vulkan`, `metal`, `webgpu` |
//! | `cuda`, `cuda:0` | CubeCL's CUDA, never run | `cuda` |
//!
//! What is not compiled in is an error that says which feature it needs and which devices there are.

#![forbid(unsafe_code)]

mod backends;

use burn::tensor::Device;
pub use grpo_kernels::device::{Capabilities, DeviceError, computes};

use backends::BACKENDS;

/// Why there is no device of this name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that no backend has.
    #[error("device `{name}` is not known: must be one of {known}; compiled in: {compiled}")]
    Unknown {
        /// The name that was given.
        name: String,
        /// The names that are known.
        known: String,
        /// The names that would work.
        compiled: String,
    },
    /// A backend that this program was built without.
    #[error(
        "device `{name}` is not compiled in: it needs the feature `{feature}` of grpo-device (`--features {}`); compiled in: {compiled}",
        flag(feature)
    )]
    NotCompiled {
        /// The name that was given.
        name: String,
        /// The Cargo feature that it needs.
        feature: &'static str,
        /// The names that would work.
        compiled: String,
    },
    /// A device that does not open.
    #[error("{problem}; compiled in: {compiled}")]
    Open {
        /// What the backend said.
        problem: DeviceError,
        /// The names that are compiled in.
        compiled: String,
    },
}

/// How a program of this workspace is built with a backend's feature: they forward those of the four backends, and not the further APIs of wgpu.
fn flag(feature: &str) -> String {
    match feature {
        "flex" | "ndarray" | "tch" | "wgpu" => feature.to_owned(),
        "wgpu, on Windows" => "wgpu".to_owned(),
        further => format!("wgpu,grpo-device/{further}"),
    }
}

/// The names of the backends that are compiled in.
pub fn compiled() -> Vec<&'static str> {
    BACKENDS.iter().filter(|backend| backend.open.is_some()).map(|backend| backend.name).collect()
}

/// Opens a device by name, without autodiff. For training: `open(name)?.autodiff()`.
///
/// # Errors
/// A name that is not known, one that is not compiled in, a device that does not open; each lists what there is.
pub fn open(name: &str) -> Result<Device, Error> {
    find(name).map(|(device, _)| device)
}

/// Opens a device by name and tries what it can do.
///
/// # Errors
/// As [`open`].
pub fn probe(name: &str) -> Result<Capabilities, Error> {
    let (head, _) = name.split_once(':').unwrap_or((name, ""));
    let (device, probe) = find(name)?;
    let mut found = probe(&device);
    // One crate may stand behind several names.
    if let Some(backend) = BACKENDS.iter().find(|backend| backend.name == head) {
        found.name = backend.name;
    }
    Ok(found)
}

/// A device and how to probe it.
type Opened = (Device, fn(&Device) -> Capabilities);

fn find(name: &str) -> Result<Opened, Error> {
    let list = || if compiled().is_empty() { "none".to_owned() } else { compiled().join(", ") };
    let unknown = || {
        let known = BACKENDS.iter().flat_map(|backend| backend.forms).copied().collect::<Vec<_>>().join(", ");
        Error::Unknown { name: name.to_owned(), known, compiled: list() }
    };
    let (head, rest) = name.split_once(':').unwrap_or((name, ""));
    let backend = BACKENDS.iter().find(|backend| backend.name == head).ok_or_else(unknown)?;
    let open = backend.open.ok_or_else(|| Error::NotCompiled { name: name.to_owned(), feature: backend.feature, compiled: list() })?;
    // A rest that is empty though there was a colon is no form of any device.
    if name.ends_with(':') {
        return Err(unknown());
    }
    match open(rest) {
        Some(Ok(opened)) => Ok(opened),
        Some(Err(problem)) => Err(Error::Open { problem, compiled: list() }),
        None => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_backend_has_is_refused_with_those_that_there_are() {
        for name in ["abacus", "", "Flex", "flex:0", "flex:", ":flex"] {
            let error = open(name).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Unknown { .. }), "{name}: {error}");
            assert!(error.to_string().contains("tch:cuda:0") && error.to_string().contains("compiled in: "), "{error}");
        }
    }

    #[test]
    fn every_backend_opens_or_says_why_not() {
        for backend in BACKENDS {
            let opened = open(backend.name).map(|_| ());
            match opened {
                Ok(()) => assert!(compiled().contains(&backend.name)),
                Err(Error::NotCompiled { name, feature, .. }) => {
                    assert_eq!((name.as_str(), feature), (backend.name, backend.feature));
                    assert!(!compiled().contains(&backend.name));
                }
                // A driver may be missing where this runs; then it must be this that is said.
                Err(Error::Open { problem, .. }) => assert!(matches!(problem, DeviceError::Absent { .. }), "{problem}"),
                Err(error) => panic!("{}: {error}", backend.name),
            }
        }
    }

    #[cfg(feature = "tch")]
    #[test]
    fn a_gpu_that_is_not_there_and_a_number_that_is_none_are_errors() {
        let error = open("tch:cuda:99").map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("device tch:cuda:99 cannot be opened: LibTorch sees "), "{error}");
        assert!(error.contains("compiled in: "), "{error}");
        assert!(matches!(open("tch:cuda:first"), Err(Error::Unknown { .. })));
        assert!(matches!(open("tch:cpu"), Err(Error::Unknown { .. })));
    }

    #[cfg(feature = "wgpu")]
    #[test]
    fn an_adapter_that_is_not_there_is_an_error_and_a_kind_that_is_none_too() {
        let error = open("wgpu:discrete:99").map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("device wgpu cannot be opened: "), "{error}");
        assert!(matches!(open("wgpu:best"), Err(Error::Unknown { .. })));
    }
}
