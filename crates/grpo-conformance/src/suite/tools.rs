//! What the cases share.

use burn::Tensor;
use burn::tensor::{Bool, Int, TensorData};

use crate::runner::{Bench, Stop, leaf_gradient};

pub(super) fn int<const D: usize>(bench: &Bench<'_>, values: &[i64], shape: [usize; D]) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &bench.device.clone().inner())
}

pub(super) fn bools<const D: usize>(bench: &Bench<'_>, values: &[bool], shape: [usize; D]) -> Tensor<D, Bool> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &bench.device.clone().inner())
}

/// The gradient of Σ `out` at `leaf`.
pub(super) fn slope<const D: usize, const E: usize>(out: Tensor<E>, leaf: &Tensor<D>) -> Result<Vec<f64>, Stop> {
    let gradients = out.sum().backward();
    leaf_gradient(leaf, &gradients)
}

/// Numbers of both signs between −1 and 1 that every float type holds exactly, no two neighbours equal, none of them 0.
pub(super) fn seeded(seed: usize, length: usize) -> Vec<f64> {
    (0..length).map(|i| f64::from(((i * 37 + seed * 101 + 17) % 64) as u32) / 32.0 - 63.0 / 64.0).collect()
}
