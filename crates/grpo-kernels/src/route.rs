//! The one entry point: check, then the fused operation where it is compiled in, else the plain path.

use burn::tensor::{Int, Tensor};

use crate::{
    error::KernelError,
    plain,
    rows::{LinearRows, Plan, RowRequest, RowStats},
};

/// What each row's next-token distribution says about its target, from the last hidden states and the output head.
///
/// For row r with hidden state h, head W, temperature T, target y and, if a KL was asked for, reference logits z′ of the same vocabulary:
///
/// - z = W·h / T and log p = z − log Σ exp z, the distribution over the vocabulary;
/// - `log_probs`: log p(y);
/// - `entropies`: −Σ p log p;
/// - `kl`: Σ p (log p − log q) with log q = z′/T − log Σ exp(z′/T), exact, not a sample of it.
///
/// Shapes: `rows.hidden` `[R, H]`, `rows.weight` `[V, H]`, `targets` `[R]` with values in 0..V; the reference `[R, H′]` and `[V, H′]`. All results are `[R]`, in nats.
///
/// Autodiff may track the hidden states, the weight, both or neither; the gradient of an untracked one is not computed. A statistic asked for as
/// [`Ask::Value`](crate::Ask::Value) comes back detached. The reference is constant. Fused, neither direction holds more than one chunk of
/// `[chunk, V]` logits (a few, where the KL is asked for); the backward pass computes the logits once more.
///
/// Half-precision rows have their logits and all that follows in f32.
///
/// # Errors
///
/// [`KernelError`] if shapes, element types or devices do not fit together, a dimension is 0, or the temperature is not finite and positive.
///
/// # Panics
///
/// burn panics on a target outside 0..V. Target values live on the device and are not read for the check: replace padding ids such as −100 first.
///
/// # Example
///
/// Half the vocabulary is as likely as the other half, and the temperature does not matter then:
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use grpo_kernels::{Ask, LinearRows, RowRequest, linear_row_stats};
///
/// let device = Device::flex();
/// let rows = LinearRows { hidden: Tensor::zeros([3, 4], &device), weight: Tensor::ones([8, 4], &device) };
/// let targets = Tensor::<1, Int>::from_data([0, 7, 7], &device);
/// let stats = linear_row_stats(rows, targets, &RowRequest::new(0.7).with_entropy(Ask::Value))?;
/// let log_probs = stats.log_probs.into_data().try_to_vec::<f32>()?;
/// assert!(log_probs.iter().all(|l| (l + 8f32.ln()).abs() < 1e-6));
/// assert!(stats.entropies.is_some() && stats.kl.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn linear_row_stats(rows: LinearRows, targets: Tensor<1, Int>, request: &RowRequest) -> Result<RowStats, KernelError> {
    let plan = Plan::new(&rows, &targets, request)?;
    let reference = request.reference.clone();
    #[cfg(any(feature = "flex", feature = "ndarray", feature = "tch", feature = "wgpu"))]
    if crate::fused::supports(&rows.hidden.device()) {
        return Ok(crate::fused::compute(rows, targets, reference, plan));
    }
    Ok(plain::compute(rows, targets, reference, plan))
}
