//! The one table of devices: a backend joins the suite with a line here and a feature of its name.

use burn::tensor::Device;

use crate::error::{Error, Result};

type Open = fn() -> std::result::Result<Device, String>;

struct Backend {
    name: &'static str,
    /// `None` where the feature is off.
    open: Option<Open>,
}

const BACKENDS: &[Backend] = &[
    Backend { name: "flex", open: FLEX },
    Backend { name: "ndarray", open: None },
    Backend { name: "tch", open: None },
    Backend { name: "wgpu", open: None },
];

#[cfg(feature = "flex")]
const FLEX: Option<Open> = Some(|| grpo_flex::device().map_err(|e| e.to_string()));
#[cfg(not(feature = "flex"))]
const FLEX: Option<Open> = None;

/// The names of the devices that are compiled in.
pub fn compiled() -> impl Iterator<Item = &'static str> {
    BACKENDS.iter().filter(|b| b.open.is_some()).map(|b| b.name)
}

/// Opens a device by name, without autodiff.
///
/// # Errors
/// A name that is not known, one that is not compiled in, a device that does not open.
pub fn open(name: &str) -> Result<Device> {
    let list = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let Some(backend) = BACKENDS.iter().find(|b| b.name == name) else {
        return Err(Error::UnknownDevice { name: name.to_owned(), known: list(BACKENDS.iter().map(|b| b.name).collect()) });
    };
    let open = backend.open.ok_or_else(|| Error::NotCompiled { name: backend.name, compiled: list(compiled().collect()) })?;
    open().map_err(|problem| Error::Open { name: backend.name, problem })
}
