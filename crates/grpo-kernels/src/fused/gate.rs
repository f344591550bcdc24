//! silu(gate)·up as one operation: two parents, which are all that the backward pass needs.

use burn::backend::{
    Autodiff, Backend, Dispatch, Flex, TensorMetadata,
    autodiff::{
        NodeId,
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    backend_extension,
    tensor::FloatTensor,
};
use burn::tensor::TensorData;
use rayon::prelude::*;

use super::flex::{exp, f32_slice, f32_slice_mut};

/// The two element-wise halves. A backend may bring its own loops.
pub trait GateKernel: Backend {
    /// g·σ(g)·u.
    fn gate(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        product::<Self>(gate, up)
    }

    /// The gradients of g and u for the gradient that arrives at their product.
    fn gate_gradients(gate: FloatTensor<Self>, up: FloatTensor<Self>, upstream: FloatTensor<Self>) -> [FloatTensor<Self>; 2] {
        gradients::<Self>(gate, up, upstream)
    }
}

impl GateKernel for Dispatch {}
impl<B: Backend, C: CheckpointStrategy> GateKernel for Autodiff<B, C> {}

fn product<B: Backend>(gate: FloatTensor<B>, up: FloatTensor<B>) -> FloatTensor<B> {
    let silu = B::float_mul(B::sigmoid(gate.clone()), gate);
    B::float_mul(silu, up)
}

fn gradients<B: Backend>(gate: FloatTensor<B>, up: FloatTensor<B>, upstream: FloatTensor<B>) -> [FloatTensor<B>; 2] {
    let sigmoid = B::sigmoid(gate.clone());
    let silu = B::float_mul(sigmoid.clone(), gate);
    // σ·(1 + g·(1 − σ)) = σ + silu − silu·σ
    let slope = B::float_sub(B::float_add(sigmoid.clone(), silu.clone()), B::float_mul(silu.clone(), sigmoid));
    let of_gate = B::float_mul(B::float_mul(upstream.clone(), up), slope);
    [of_gate, B::float_mul(upstream, silu)]
}

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

#[backend_extension(Autodiff, Flex: cfg(feature = "flex"))]
pub trait GatedSilu: GateKernel {
    /// Gate and up of one shape.
    fn gated_silu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::gate(gate, up)
    }
}

impl GatedSilu for Flex {}

#[derive(Debug)]
struct Gated;

impl<B: GateKernel> Backward<B, 2> for Gated {
    type State = [NodeId; 2];

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let upstream = grads.consume::<B>(&ops.node);
        let [gate, up] = ops.state.map(|node| checkpointer.retrieve_node_output(node));
        for (node, gradient) in ops.parents.into_iter().zip(B::gate_gradients(gate, up, upstream)) {
            if let Some(node) = node {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: GateKernel, C: CheckpointStrategy> GatedSilu for Autodiff<B, C> {
    fn gated_silu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        match Gated.prepare::<C>([gate.node(), up.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prepared) => {
                let saved = [prepared.checkpoint(&gate), prepared.checkpoint(&up)];
                prepared.finish(saved, B::gate(gate.into_primitive(), up.into_primitive()))
            }
            OpsKind::UnTracked(prepared) => prepared.finish(B::gate(gate.into_primitive(), up.into_primitive())),
        }
    }
}
