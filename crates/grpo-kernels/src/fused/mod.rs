//! The custom autodiff operations. Row statistics: chunk arithmetic, the two passes over chunks, and the registration with burn. The gate of an MLP.
#![cfg_attr(any(feature = "ndarray", feature = "tch"), expect(deprecated, reason = "named to be compiled for, as long as burn has them"))]

mod backends;
mod backward;
mod chunk;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod flex_gate;
mod forward;
mod gate;
mod op;

use burn::backend::{Dispatch, DispatchDevice};
use burn::tensor::{Device, Int, Tensor};

use crate::rows::{Ask, LinearRows, Plan, RowStats};
use op::{Reference, RowStatsBackend};

/// Whether the operation is compiled for the backend of this device. Dispatching to any other backend would panic inside burn.
pub(crate) fn supports(device: &Device) -> bool {
    fn listed(device: &DispatchDevice) -> bool {
        match device {
            #[cfg(feature = "flex")]
            DispatchDevice::Flex(_) => true,
            #[cfg(feature = "ndarray")]
            DispatchDevice::NdArray(_) => true,
            #[cfg(feature = "tch")]
            DispatchDevice::LibTorch(_) => true,
            #[cfg(feature = "wgpu")]
            DispatchDevice::Cube(_) => true,
            DispatchDevice::Autodiff(device) => listed(device),
            #[allow(unreachable_patterns, reason = "reachable when another backend is compiled into burn")]
            _ => false,
        }
    }
    listed(device.as_dispatch())
}

/// silu(gate)·up in one pass.
pub(crate) fn gated_silu<const D: usize>(gate: Tensor<D>, up: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(<Dispatch as gate::GatedSilu>::gated_silu(gate.into_dispatch(), up.into_dispatch()))
}

/// Runs the operation and takes its one output `[R, k]` apart. The order of the columns is log-probs, entropy, KL, each of the last two if asked for.
pub(crate) fn compute(rows: LinearRows, targets: Tensor<1, Int>, reference: Option<LinearRows>, plan: Plan) -> RowStats {
    let r = rows.hidden.dims()[0];
    let reference = match reference {
        // Detached, so that no graph is kept alive for the reference.
        Some(rows) => Reference::Present { hidden: rows.hidden.detach().into_dispatch(), weight: rows.weight.detach().into_dispatch() },
        None => Reference::Absent,
    };
    let columns = Tensor::<2>::from_dispatch(<Dispatch as RowStatsBackend>::linear_row_stats(
        rows.hidden.into_dispatch(),
        rows.weight.into_dispatch(),
        targets.into_dispatch(),
        reference,
        plan,
    )); // [R, k]
    let column = |index: usize, ask: Ask| {
        let values = columns.clone().slice([0..r, index..index + 1]).squeeze_dim::<1>(1); // [R]
        if ask == Ask::Gradient { values } else { values.detach() }
    };
    let kl_index = 1 + usize::from(plan.entropy != Ask::No);
    RowStats {
        log_probs: column(0, Ask::Gradient),
        entropies: (plan.entropy != Ask::No).then(|| column(1, plan.entropy)),
        kl: (plan.kl != Ask::No).then(|| column(kl_index, plan.kl)),
    }
}
