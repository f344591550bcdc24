//! The one place where values leave a device. (A browser would need its asynchronous twin.)

use burn::Tensor;

use crate::error::{Error, Result};

/// The values of a tensor on the host, as f64.
///
/// # Errors
/// A device that failed; the failure may be that of an earlier operation.
pub fn to_host<const D: usize>(tensor: Tensor<D>, what: &'static str) -> Result<Vec<f64>> {
    tensor.try_into_vec_as::<f64>().map_err(|e| Error::Device { what, problem: e.to_string() })
}
