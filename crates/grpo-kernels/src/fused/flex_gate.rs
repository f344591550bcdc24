//! The gate of an MLP on the flex backend in f32: one pass each way, on all cores.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::TensorData;
use rayon::prelude::*;

use super::{
    flex::{exp, f32_slice, f32_slice_mut},
    gate::{GateKernel, gradients, product},
};

/// So many numbers make a task for another core.
const TASK: usize = 1 << 14;

impl GateKernel for Flex {
    fn gate(mut gate: FloatTensor<Flex>, up: FloatTensor<Flex>) -> FloatTensor<Flex> {
        let silu = |g: f32| g * sigmoid(g);
        if let Some(u) = f32_slice(&up) {
            if let Some(g) = f32_slice_mut(&mut gate) {
                g.par_chunks_mut(TASK).zip(u.par_chunks(TASK)).for_each(|(g, u)| g.iter_mut().zip(u).for_each(|(g, u)| *g = silu(*g) * u));
                return gate;
            }
            if let Some(g) = f32_slice(&gate) {
                let mut y = vec![0.0; g.len()];
                let tasks = y.par_chunks_mut(TASK).zip(g.par_chunks(TASK)).zip(u.par_chunks(TASK));
                tasks.for_each(|((y, g), u)| y.iter_mut().zip(g).zip(u).for_each(|((y, g), u)| *y = silu(*g) * u));
                return FloatTensor::<Flex>::from_data(TensorData::new(y, gate.shape()));
            }
        }
        product::<Flex>(gate, up)
    }

    fn gate_gradients(gate: FloatTensor<Flex>, up: FloatTensor<Flex>, mut upstream: FloatTensor<Flex>) -> [FloatTensor<Flex>; 2] {
        if let (Some(g), Some(u), Some(up_gradient)) = (f32_slice(&gate), f32_slice(&up), f32_slice_mut(&mut upstream)) {
            let mut gate_gradient = vec![0.0; g.len()];
            let written = gate_gradient.par_chunks_mut(TASK).zip(up_gradient.par_chunks_mut(TASK));
            written.zip(g.par_chunks(TASK)).zip(u.par_chunks(TASK)).for_each(|(((to_gate, to_up), g), u)| {
                for (((to_gate, to_up), g), u) in to_gate.iter_mut().zip(to_up).zip(g).zip(u) {
                    let sigmoid = sigmoid(*g);
                    let silu = g * sigmoid;
                    *to_gate = *to_up * u * (sigmoid + silu * (1.0 - sigmoid));
                    *to_up *= silu;
                }
            });
            let of_gate = FloatTensor::<Flex>::from_data(TensorData::new(gate_gradient, gate.shape()));
            return [of_gate, upstream];
        }
        gradients::<Flex>(gate, up, upstream)
    }
}

/// 1 / (1 + e⁻ˣ), by the exponential that cannot overflow: of −|x|.
#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    let small = exp(-x.abs());
    (if x < 0.0 { small } else { 1.0 }) / (1.0 + small)
}
