//! The backward pass: each chunk's logits are computed again, turned into their gradient in place, and multiplied into the two parents.

use burn::backend::{
    Backend, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};
use burn::tensor::{FloatDType, Slice};

use super::{
    chunk::{ChunkKernel, Columns, Upstream, row_slice},
    forward::{Head, columns_of, target_column},
};
use crate::rows::{Ask, Plan};

/// What the parents get; `None` for one that is not tracked.
#[derive(Debug)]
pub struct ParentGradients<B: Backend> {
    /// `[R, H]`
    pub hidden: Option<FloatTensor<B>>,
    /// `[V, H]`
    pub weight: Option<FloatTensor<B>>,
}

/// Which parents are tracked.
#[derive(Debug, Clone, Copy)]
pub struct Tracked {
    pub hidden: bool,
    pub weight: bool,
}

pub fn backward<B: ChunkKernel>(
    head: &Head<B>,
    reference: Option<&Head<B>>,
    targets: &IntTensor<B>,
    saved: &Columns<B>,
    upstream: FloatTensor<B>, // [R, k]
    tracked: Tracked,
    plan: Plan,
) -> ParentGradients<B> {
    // A KL that was only watched needs no second look at the reference.
    let reference = reference.filter(|_| plan.kl == Ask::Gradient);
    let dtype = FloatDType::from(head.hidden.dtype());
    let (mut hidden, mut weight) = (Vec::new(), None);
    for range in plan.chunks(head.hidden.shape()[0]) {
        let scaled = head.scaled_hidden(range.clone(), plan.scale); // [c, H]
        let logits = head.logits(scaled.clone()); // [c, V]
        let logits_dtype = logits.dtype();
        let reference = reference.map(|r| r.logits_as(range.clone(), plan.scale, logits_dtype)); // [c, V]
        let gradient = B::chunk_gradient(
            logits,
            reference,
            target_column::<B>(targets, range.clone()),
            &columns_of(saved, range.clone()),
            upstream_of::<B>(&upstream, range, plan),
        ); // [c, V]
        let gradient = if logits_dtype == head.hidden.dtype() { gradient } else { B::float_cast(gradient, dtype) };
        if tracked.hidden {
            let part = B::float_matmul(gradient.clone(), head.weight.clone()); // [c, H]
            hidden.push(if plan.scale == 1.0 { part } else { B::float_mul_scalar(part, plan.scale.into()) });
        }
        if tracked.weight {
            let part = B::float_matmul(B::float_transpose(gradient), scaled); // [V, H]
            weight = Some(match weight {
                None => part,
                Some(sum) => B::float_add(sum, part),
            });
        }
    }
    ParentGradients { hidden: tracked.hidden.then(|| B::float_cat(hidden, 0)), weight }
}

/// The gradients of the columns of some rows, taken apart as `stack` put the columns together.
fn upstream_of<B: Backend>(upstream: &FloatTensor<B>, range: std::ops::Range<usize>, plan: Plan) -> Upstream<B> {
    let [rows] = row_slice(range);
    let column = |index: usize| {
        B::float_slice(upstream.clone(), &[rows, Slice::from(index..index + 1)]) // [c, 1]
    };
    let kl_index = 1 + usize::from(plan.entropy != Ask::No);
    Upstream {
        log_prob: column(0),
        entropy: (plan.entropy == Ask::Gradient).then(|| column(1)),
        kl: (plan.kl == Ask::Gradient).then(|| column(kl_index)),
    }
}
