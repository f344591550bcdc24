//! The operation as burn sees it: one output `[R, k]`, two parents, and a state of a few numbers a row.

use burn::backend::{
    Autodiff, Backend, ExtensionType,
    autodiff::{
        NodeId,
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    backend_extension,
    tensor::{FloatTensor, IntTensor},
};

use super::{
    backward::{Tracked, backward},
    chunk::{ChunkKernel, Columns},
    forward::{Head, forward, stack},
};
use crate::rows::Plan;

/// The reference rows of an operation, in a form that crosses burn's dispatch.
#[derive(Debug, Clone, ExtensionType)]
pub enum Reference<B: Backend> {
    Absent,
    Present { hidden: FloatTensor<B>, weight: FloatTensor<B> },
}

impl<B: Backend> Reference<B> {
    fn head(self) -> Option<Head<B>> {
        match self {
            Self::Absent => None,
            Self::Present { hidden, weight } => Some(Head { hidden, weight }),
        }
    }
}

#[backend_extension(
    Autodiff,
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    LibTorch: cfg(feature = "tch"),
    Cube: cfg(feature = "wgpu")
)]
pub trait RowStatsBackend: ChunkKernel {
    /// `hidden` `[R, H]`, `weight` `[V, H]`, `targets` `[R]`, reference `[R, H′]` and `[V, H′]`; gives `[R, k]`.
    fn linear_row_stats(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] reference: Reference<Self>,
        plan: Plan,
    ) -> FloatTensor<Self> {
        stack(&forward::<Self>(&Head { hidden, weight }, reference.head().as_ref(), &targets, plan))
    }
}

/// What the backward pass finds again. Parents are kept by node id: burn holds one copy of each, however many operations use it.
#[derive(Debug, Clone)]
struct Saved<B: Backend> {
    hidden: NodeId,
    weight: NodeId,
    targets: IntTensor<B>,
    reference: Option<Head<B>>,
    columns: Columns<B>,
    plan: Plan,
}

#[derive(Debug)]
struct LinearRowStats;

impl<B: ChunkKernel> Backward<B, 2> for LinearRowStats {
    type State = Saved<B>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let [hidden_node, weight_node] = ops.parents;
        let upstream = grads.consume::<B>(&ops.node); // [R, k]
        let saved = ops.state;
        let head =
            Head { hidden: checkpointer.retrieve_node_output(saved.hidden), weight: checkpointer.retrieve_node_output(saved.weight) };
        let tracked = Tracked { hidden: hidden_node.is_some(), weight: weight_node.is_some() };
        let found = backward(&head, saved.reference.as_ref(), &saved.targets, &saved.columns, upstream, tracked, saved.plan);
        for (node, gradient) in [(hidden_node, found.hidden), (weight_node, found.weight)] {
            if let (Some(node), Some(gradient)) = (node, gradient) {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: ChunkKernel, C: CheckpointStrategy> RowStatsBackend for Autodiff<B, C> {
    fn linear_row_stats(
        hidden: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        targets: IntTensor<Self>,
        reference: Reference<Self>,
        plan: Plan,
    ) -> FloatTensor<Self> {
        // The reference leaves the graph here: it is a constant.
        let reference =
            reference.head().map(|head| Head::<B> { hidden: head.hidden.into_primitive(), weight: head.weight.into_primitive() });
        let prepared = LinearRowStats.prepare::<C>([hidden.node(), weight.node()]).compute_bound().stateful();
        match prepared {
            OpsKind::Tracked(mut prepared) => {
                let (hidden_id, weight_id) = (prepared.checkpoint(&hidden), prepared.checkpoint(&weight));
                let head = Head { hidden: hidden.into_primitive(), weight: weight.into_primitive() };
                let columns = forward::<B>(&head, reference.as_ref(), &targets, plan);
                let output = stack(&columns);
                let saved = Saved { hidden: hidden_id, weight: weight_id, targets, reference, columns, plan };
                prepared.finish(saved, output)
            }
            OpsKind::UnTracked(prepared) => {
                let head = Head { hidden: hidden.into_primitive(), weight: weight.into_primitive() };
                prepared.finish(stack(&forward::<B>(&head, reference.as_ref(), &targets, plan)))
            }
        }
    }
}
