//! silu(gate)·up as one operation: two parents, which are all that the backward pass needs.

use burn::backend::{
    Autodiff, Backend, Dispatch,
    autodiff::{
        NodeId,
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    backend_extension,
    tensor::FloatTensor,
};
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

/// 1 / (1 + e⁻ˣ); where e⁻ˣ overflows it is 0. burn's own has 32 bits in f64 on ndarray.
fn sigmoid<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_recip(B::float_add_scalar(B::float_exp(B::float_neg(x)), 1.0.into()))
}

pub fn product<B: Backend>(gate: FloatTensor<B>, up: FloatTensor<B>) -> FloatTensor<B> {
    let silu = B::float_mul(sigmoid::<B>(gate.clone()), gate);
    B::float_mul(silu, up)
}

pub fn gradients<B: Backend>(gate: FloatTensor<B>, up: FloatTensor<B>, upstream: FloatTensor<B>) -> [FloatTensor<B>; 2] {
    let sigmoid = sigmoid::<B>(gate.clone());
    let silu = B::float_mul(sigmoid.clone(), gate);
    // σ·(1 + g·(1 − σ)) = σ + silu − silu·σ
    let slope = B::float_sub(B::float_add(sigmoid.clone(), silu.clone()), B::float_mul(silu.clone(), sigmoid));
    let of_gate = B::float_mul(B::float_mul(upstream.clone(), up), slope);
    [of_gate, B::float_mul(upstream, silu)]
}

#[backend_extension(
    Autodiff,
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    LibTorch: cfg(feature = "tch"),
    Cube: cfg(feature = "wgpu")
)]
pub trait GatedSilu: GateKernel {
    /// Gate and up of one shape.
    fn gated_silu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::gate(gate, up)
    }
}

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
