//! The fused gate against ordinary operations, values and gradients.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use burn::tensor::{DType, Device, Tensor, TensorData, activation::sigmoid};
use grpo_kernels::gated_silu;

fn tensor(shape: [usize; 2], seed: usize, dtype: DType, device: &Device) -> Tensor<2> {
    let values: Vec<f64> = (0..shape[0] * shape[1]).map(|i| ((i * 7919 + seed * 31) % 1999) as f64 * 0.02 - 20.0).collect();
    Tensor::from_data(TensorData::new(values, shape), (device, dtype))
}

fn values(tensor: Tensor<2>) -> Vec<f64> {
    tensor.try_into_vec_as::<f64>().unwrap()
}

fn close(given: Tensor<2>, expected: Tensor<2>, tolerance: f64) {
    for (g, e) in values(given).into_iter().zip(values(expected)) {
        assert!((g - e).abs() <= tolerance * e.abs().max(1.0), "{g}, expected {e}");
    }
}

fn plain(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    gate.clone() * sigmoid(gate) * up
}

#[test]
fn values_and_gradients_are_those_of_ordinary_operations() {
    let device = Device::flex().autodiff();
    for (dtype, tolerance) in [(DType::F32, 2e-6), (DType::F64, 1e-13)] {
        // Small, and over several tasks with a rest.
        for shape in [[3, 5], [37, 1531]] {
            let gate = tensor(shape, 1, dtype, &device).require_grad();
            let up = tensor(shape, 2, dtype, &device).require_grad();
            let weights = tensor(shape, 3, dtype, &device);
            let (fused, expected) = (gated_silu(gate.clone(), up.clone()), plain(gate.clone(), up.clone()));
            close(fused.clone(), expected.clone(), tolerance);
            let (fused, expected) = ((fused * weights.clone()).sum().backward(), (expected * weights).sum().backward());
            for parent in [gate, up] {
                close(parent.grad(&fused).unwrap(), parent.grad(&expected).unwrap(), 20.0 * tolerance);
            }
        }
    }
}

#[test]
fn tracked_and_untracked_are_equal_in_every_bit_and_inputs_stay_as_they_were() {
    let device = Device::flex();
    let (gate, up) = (tensor([9, 11], 1, DType::F32, &device), tensor([9, 11], 2, DType::F32, &device));
    let (before_gate, before_up) = (values(gate.clone()), values(up.clone()));
    let kept = values(gated_silu(gate.clone(), up.clone()));
    let tracked = gated_silu(Tensor::from_inner(gate.clone()).require_grad(), Tensor::from_inner(up.clone()));
    assert_eq!(values(tracked), kept);
    assert_eq!((values(gate.clone()), values(up.clone())), (before_gate, before_up));
    // The last owner gives its memory away.
    assert_eq!(values(gated_silu(gate, up)), kept);
}

#[test]
fn one_untracked_parent_gets_no_gradient_and_views_are_read_right() {
    let device = Device::flex().autodiff();
    let gate = tensor([6, 4], 1, DType::F32, &device).require_grad();
    let up = tensor([4, 6], 2, DType::F32, &device).transpose();
    let product = gated_silu(gate.clone(), up.clone());
    close(product.clone(), plain(gate.clone(), up.clone()), 2e-6);
    let gradients = product.sum().backward();
    let expected = plain(gate.clone(), up.clone()).sum().backward();
    close(gate.grad(&gradients).unwrap(), gate.grad(&expected).unwrap(), 2e-5);
    assert!(up.grad(&gradients).is_none());
}
