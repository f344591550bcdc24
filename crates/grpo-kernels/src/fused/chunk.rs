//! The arithmetic of one chunk of logits, for any backend. A backend may bring its own loops.

use burn::backend::{
    Autodiff, Backend, Dispatch,
    autodiff::checkpoint::strategy::CheckpointStrategy,
    tensor::{FloatTensor, IntTensor},
};
use burn::tensor::{IndexingUpdateOp, Slice};

/// What is known of some rows after the forward pass, each `[rows, 1]`; the backward pass needs all but the log-probabilities.
#[derive(Debug, Clone)]
pub struct Columns<B: Backend> {
    pub log_prob: FloatTensor<B>,
    /// log Σ exp z.
    pub log_sum: FloatTensor<B>,
    pub entropy: Option<FloatTensor<B>>,
    pub kl: Option<KlColumns<B>>,
}

/// What a KL adds to [`Columns`], each `[rows, 1]`.
#[derive(Debug, Clone)]
pub struct KlColumns<B: Backend> {
    pub kl: FloatTensor<B>,
    /// log Σ exp z of the reference.
    pub reference_log_sum: FloatTensor<B>,
}

/// The gradients that arrive at some rows, each `[rows, 1]`; `None` where no gradient was asked for.
#[derive(Debug, Clone)]
pub struct Upstream<B: Backend> {
    pub log_prob: FloatTensor<B>,
    pub entropy: Option<FloatTensor<B>>,
    pub kl: Option<FloatTensor<B>>,
}

/// The two element-wise halves of the operation. Logits `[c, V]` are at least f32, handed over for good so that their buffer can be reused;
/// targets are `[c, 1]`.
pub trait ChunkKernel: Backend {
    /// The statistics of a chunk. `entropy` asks for the entropy, reference logits ask for the KL.
    fn chunk_columns(
        logits: FloatTensor<Self>,
        reference: Option<FloatTensor<Self>>,
        targets: IntTensor<Self>,
        entropy: Want,
    ) -> Columns<Self> {
        columns::<Self>(logits, reference, targets, entropy)
    }

    /// The gradient with respect to the logits of a chunk, `[c, V]`. Reference logits are present exactly if `upstream.kl` is.
    fn chunk_gradient(
        logits: FloatTensor<Self>,
        reference: Option<FloatTensor<Self>>,
        targets: IntTensor<Self>,
        saved: &Columns<Self>,
        upstream: Upstream<Self>,
    ) -> FloatTensor<Self> {
        gradient::<Self>(logits, reference, targets, saved, upstream)
    }
}

/// Whether a chunk's entropy is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    No,
    Yes,
}

impl ChunkKernel for Dispatch {}
impl<B: Backend, C: CheckpointStrategy> ChunkKernel for Autodiff<B, C> {}

/// A range of rows.
pub fn row_slice(range: std::ops::Range<usize>) -> [Slice; 1] {
    [Slice::from(range)]
}

/// Logits minus their row's largest `[c, V]`, that largest `[c, 1]`, and the log of the sum of the exponentials of the first `[c, 1]`.
fn shift<B: Backend>(logits: FloatTensor<B>) -> (FloatTensor<B>, FloatTensor<B>) {
    let max = B::float_max_dim(logits.clone(), 1); // [c, 1]
    (B::float_sub(logits, max.clone()), max)
}

pub fn columns<B: Backend>(logits: FloatTensor<B>, reference: Option<FloatTensor<B>>, targets: IntTensor<B>, entropy: Want) -> Columns<B> {
    let (shifted, max) = shift::<B>(logits); // [c, V], [c, 1]
    let target = B::float_gather(1, shifted.clone(), targets); // [c, 1]
    // The shifted logits are kept only where something needs them again: else the exponential overwrites them.
    let keep = (entropy == Want::Yes || reference.is_some()).then(|| shifted.clone());
    let exp = B::float_exp(shifted); // [c, V]
    let sum = B::float_sum_dim(exp.clone(), 1); // [c, 1]
    let log_sum = B::float_log(sum.clone()); // [c, 1]
    let mean = |values: FloatTensor<B>| {
        // exp is 0 where it underflows, and the values are finite there, so 0·log 0 is 0.
        B::float_div(B::float_sum_dim(B::float_mul(values, exp.clone()), 1), sum.clone()) // [c, 1]
    };
    let entropy = match (&keep, entropy) {
        (Some(shifted), Want::Yes) => Some(B::float_sub(log_sum.clone(), mean(shifted.clone()))), // [c, 1]
        _ => None,
    };
    let kl = match (keep, reference) {
        (Some(shifted), Some(reference)) => {
            let (reference, reference_max) = shift::<B>(reference); // [c, V], [c, 1]
            let reference_sum = B::float_sum_dim(B::float_exp(reference.clone()), 1); // [c, 1]
            let reference_log_sum = B::float_log(reference_sum); // [c, 1]
            // Both normalisers enter before the mean: equal rows then give exactly 0 in every term.
            let log_p = B::float_sub(shifted, log_sum.clone()); // [c, V]
            let log_q = B::float_sub(reference, reference_log_sum.clone()); // [c, V]
            let kl = mean(B::float_sub(log_p, log_q)); // [c, 1]
            Some(KlColumns { kl, reference_log_sum: B::float_add(reference_log_sum, reference_max) })
        }
        _ => None,
    };
    Columns { log_prob: B::float_sub(target, log_sum.clone()), log_sum: B::float_add(log_sum, max), entropy, kl }
}

/// With p = exp(log p), one-hot target 1[y], and upstream gradients g_l, g_H, g_K:
/// g_l·(1[y] − p) − g_H·p·(log p + H) + g_K·p·(log p − log q − KL),
/// gathered so that p is multiplied once: p·((g_K − g_H)·log p − g_K·log q − g_l − g_H·H − g_K·KL) + g_l·1[y].
pub fn gradient<B: Backend>(
    logits: FloatTensor<B>,
    reference: Option<FloatTensor<B>>,
    targets: IntTensor<B>,
    saved: &Columns<B>,
    upstream: Upstream<B>,
) -> FloatTensor<B> {
    let log_p = B::float_sub(logits, saved.log_sum.clone()); // [c, V]
    let mut constant = B::float_neg(upstream.log_prob.clone()); // [c, 1]
    let mut slope = None; // [c, 1], of log p
    if let (Some(g), Some(h)) = (upstream.entropy, saved.entropy.clone()) {
        constant = B::float_sub(constant, B::float_mul(g.clone(), h));
        slope = Some(B::float_neg(g));
    }
    let mut log_q_term = None; // [c, V]
    if let (Some(g), Some(kl), Some(reference)) = (upstream.kl, saved.kl.clone(), reference) {
        constant = B::float_sub(constant, B::float_mul(g.clone(), kl.kl));
        let log_q = B::float_sub(reference, kl.reference_log_sum); // [c, V]
        log_q_term = Some(B::float_mul(log_q, g.clone()));
        slope = Some(match slope {
            Some(slope) => B::float_add(slope, g),
            None => g,
        });
    }
    let gradient = match slope {
        None => B::float_mul(B::float_exp(log_p), constant), // [c, V]
        Some(slope) => {
            let p = B::float_exp(log_p.clone()); // [c, V]
            let mut factor = B::float_add(B::float_mul(log_p, slope), constant); // [c, V]
            if let Some(term) = log_q_term {
                factor = B::float_sub(factor, term);
            }
            B::float_mul(factor, p)
        }
    };
    B::float_scatter(1, gradient, targets, upstream.log_prob, IndexingUpdateOp::Add)
}
