//! The same numbers from ordinary tensor operations, for backends the fused operation is not compiled for, and as its check.

use burn::tensor::{DType, FloatDType, Int, Tensor};

use crate::{
    error::KernelError,
    rows::{Ask, LinearRows, Plan, RowRequest, RowStats},
};

/// [`linear_row_stats`](crate::linear_row_stats) from ordinary tensor operations only, whatever the backend.
///
/// Without autodiff it holds one chunk of logits at a time. Under autodiff the logits of all chunks stay on the tape.
/// Arguments, formulas, results and errors are those of [`linear_row_stats`](crate::linear_row_stats).
///
/// # Errors
///
/// As [`linear_row_stats`](crate::linear_row_stats).
pub fn plain_row_stats(rows: LinearRows, targets: Tensor<1, Int>, request: &RowRequest) -> Result<RowStats, KernelError> {
    let plan = Plan::new(&rows, &targets, request)?;
    Ok(compute(rows, targets, request.reference.clone(), plan))
}

pub(crate) fn compute(rows: LinearRows, targets: Tensor<1, Int>, reference: Option<LinearRows>, plan: Plan) -> RowStats {
    let reference = reference.map(|r| LinearRows { hidden: r.hidden.detach(), weight: r.weight.detach() });
    let (mut log_probs, mut entropies, mut kl) = (Vec::new(), Vec::new(), Vec::new());
    for range in plan.chunks(rows.hidden.dims()[0]) {
        let (logits, log_sum) = shifted_logits(&rows, range.clone(), plan.scale); // [c, V], [c, 1]
        let index = targets.clone().slice(range.clone()).unsqueeze_dim::<2>(1); // [c, 1]
        log_probs.push(logits.clone().gather(1, index) - log_sum.clone()); // [c, 1]
        if plan.entropy != Ask::No {
            let p = (logits.clone() - log_sum.clone()).exp(); // [c, V]
            // p is 0 where it underflows, and the shifted logit is finite there, so 0·log 0 is 0.
            entropies.push(log_sum.clone() - (p * logits.clone()).sum_dim(1)); // [c, 1]
        }
        if let Some(reference) = &reference {
            let (reference_logits, reference_log_sum) = shifted_logits(reference, range, plan.scale); // [c, V], [c, 1]
            let log_p = logits - log_sum; // [c, V]
            let log_q = (reference_logits - reference_log_sum).cast(FloatDType::from(log_p.dtype())); // [c, V]
            kl.push((log_p.clone().exp() * (log_p - log_q)).sum_dim(1)); // [c, 1]
        }
    }
    let column = |parts: Vec<Tensor<2>>, ask| {
        let rows = Tensor::cat(parts, 0).squeeze_dim::<1>(1); // [R]
        if ask == Ask::Gradient { rows } else { rows.detach() }
    };
    RowStats {
        log_probs: column(log_probs, Ask::Gradient),
        entropies: (!entropies.is_empty()).then(|| column(entropies, plan.entropy)),
        kl: (!kl.is_empty()).then(|| column(kl, plan.kl)),
    }
}

/// The logits of one chunk minus their row's largest, `[c, V]`, and the log of the sum of their exponentials, `[c, 1]`.
fn shifted_logits(rows: &LinearRows, range: std::ops::Range<usize>, scale: f64) -> (Tensor<2>, Tensor<2>) {
    let hidden = rows.hidden.clone().slice(range); // [c, H]
    let hidden = if scale == 1.0 { hidden } else { hidden * scale };
    let logits = hidden.matmul(rows.weight.clone().transpose()); // [c, V]
    let logits = match logits.dtype() {
        DType::F16 | DType::BF16 => logits.cast(FloatDType::F32),
        _ => logits,
    };
    let shifted = logits.clone() - logits.max_dim(1).detach(); // [c, V]
    let log_sum = shifted.clone().exp().sum_dim(1).log(); // [c, 1]
    (shifted, log_sum)
}
