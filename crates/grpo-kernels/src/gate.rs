//! The gate of an MLP: silu(gate)·up.

use burn::tensor::{Tensor, activation::sigmoid};

/// y = g·σ(g)·u element by element, for gate g and up u of one shape `[..]`; σ(g) = 1 / (1 + exp(−g)).
///
/// Autodiff may track both, one or neither: dy/du = g·σ(g), dy/dg = u·σ(g)·(1 + g·(1 − σ(g))). Fused, only g and u are kept for the backward
/// pass, each pass reads them once on all cores, and σ is computed again on the way back. Types other than f32 take the same formulas by ordinary operations.
///
/// Equal to the plain operations to rounding. Large |g| neither overflow nor give NaN.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use grpo_kernels::gated_silu;
///
/// let device = Device::flex();
/// let gate = Tensor::<1>::from_floats([0.0, -1000.0, 1000.0], &device);
/// let y = gated_silu(gate, Tensor::from_floats([5.0, 5.0, 5.0], &device));
/// assert_eq!(y.into_data().try_to_vec::<f32>()?, [0.0, 0.0, 5000.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// burn panics if shapes, element types or devices differ, as for any product of two tensors.
///
/// # Source
/// Shazeer, GLU Variants Improve Transformer (2020), SwiGLU.
pub fn gated_silu<const D: usize>(gate: Tensor<D>, up: Tensor<D>) -> Tensor<D> {
    #[cfg(any(feature = "flex", feature = "ndarray", feature = "tch", feature = "wgpu"))]
    if gate.dims() == up.dims() && gate.dtype() == up.dtype() && gate.device() == up.device() && crate::fused::supports(&gate.device()) {
        return crate::fused::gated_silu(gate, up);
    }
    gate.clone() * sigmoid(gate) * up
}
