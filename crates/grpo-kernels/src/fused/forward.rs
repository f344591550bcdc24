//! The forward pass: chunk after chunk, three numbers a row are kept and the logits are dropped.

use burn::backend::{
    Backend, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};
use burn::tensor::{DType, FloatDType, Shape};

use super::chunk::{ChunkKernel, Columns, KlColumns, Want, row_slice};
use crate::rows::{Ask, Plan};

/// Hidden states `[R, H]` and the head `[V, H]`, on a backend.
#[derive(Debug, Clone)]
pub struct Head<B: Backend> {
    pub hidden: FloatTensor<B>,
    pub weight: FloatTensor<B>,
}

impl<B: Backend> Head<B> {
    /// The hidden states of some rows divided by the temperature, `[c, H]`. Scaling them is V/H times cheaper than scaling the logits.
    pub fn scaled_hidden(&self, range: std::ops::Range<usize>, scale: f64) -> FloatTensor<B> {
        let hidden = B::float_slice(self.hidden.clone(), &row_slice(range));
        if scale == 1.0 { hidden } else { B::float_mul_scalar(hidden, scale.into()) }
    }

    /// Logits `[c, V]` of hidden states that are scaled already, at least f32.
    pub fn logits(&self, scaled: FloatTensor<B>) -> FloatTensor<B> {
        let logits = B::float_matmul(scaled, B::float_transpose(self.weight.clone()));
        match logits.dtype() {
            DType::F16 | DType::BF16 => B::float_cast(logits, FloatDType::F32),
            _ => logits,
        }
    }

    /// The logits of a reference, in the element type of the policy's.
    pub fn logits_as(&self, range: std::ops::Range<usize>, scale: f64, dtype: DType) -> FloatTensor<B> {
        let logits = self.logits(self.scaled_hidden(range, scale));
        if logits.dtype() == dtype { logits } else { B::float_cast(logits, FloatDType::from(dtype)) }
    }
}

/// The targets of some rows as a column, `[c, 1]`.
pub fn target_column<B: Backend>(targets: &IntTensor<B>, range: std::ops::Range<usize>) -> IntTensor<B> {
    let rows = range.len();
    B::int_reshape(B::int_slice(targets.clone(), &row_slice(range)), Shape::new([rows, 1]))
}

pub fn forward<B: ChunkKernel>(head: &Head<B>, reference: Option<&Head<B>>, targets: &IntTensor<B>, plan: Plan) -> Columns<B> {
    let entropy = if plan.entropy == Ask::No { Want::No } else { Want::Yes };
    let chunks = plan
        .chunks(head.hidden.shape()[0])
        .map(|range| {
            let logits = head.logits(head.scaled_hidden(range.clone(), plan.scale)); // [c, V]
            let reference = reference.map(|r| r.logits_as(range.clone(), plan.scale, logits.dtype())); // [c, V]
            B::chunk_columns(logits, reference, target_column::<B>(targets, range), entropy)
        })
        .collect();
    concat(chunks)
}

/// One operation has one output: log-prob, entropy and KL side by side, `[R, k]`, the last two where they were asked for.
pub fn stack<B: Backend>(columns: &Columns<B>) -> FloatTensor<B> {
    let mut parts = vec![columns.log_prob.clone()];
    parts.extend(columns.entropy.clone());
    parts.extend(columns.kl.as_ref().map(|kl| kl.kl.clone()));
    B::float_cat(parts, 1)
}

fn concat<B: Backend>(chunks: Vec<Columns<B>>) -> Columns<B> {
    let (mut log_prob, mut log_sum, mut entropy) = (Vec::new(), Vec::new(), Vec::new());
    let (mut kl, mut reference_log_sum) = (Vec::new(), Vec::new());
    for chunk in chunks {
        log_prob.push(chunk.log_prob);
        log_sum.push(chunk.log_sum);
        entropy.extend(chunk.entropy);
        if let Some(columns) = chunk.kl {
            kl.push(columns.kl);
            reference_log_sum.push(columns.reference_log_sum);
        }
    }
    let cat = |parts: Vec<FloatTensor<B>>| B::float_cat(parts, 0); // [R, 1]
    Columns {
        log_prob: cat(log_prob),
        log_sum: cat(log_sum),
        entropy: (!entropy.is_empty()).then(|| cat(entropy)),
        kl: (!kl.is_empty()).then(|| KlColumns { kl: cat(kl), reference_log_sum: cat(reference_log_sum) }),
    }
}

/// The columns of some rows.
pub fn columns_of<B: Backend>(columns: &Columns<B>, range: std::ops::Range<usize>) -> Columns<B> {
    let cut = |column: &FloatTensor<B>| B::float_slice(column.clone(), &row_slice(range.clone())); // [c, 1]
    Columns {
        log_prob: cut(&columns.log_prob),
        log_sum: cut(&columns.log_sum),
        entropy: columns.entropy.as_ref().map(cut),
        kl: columns.kl.as_ref().map(|kl| KlColumns { kl: cut(&kl.kl), reference_log_sum: cut(&kl.reference_log_sum) }),
    }
}
