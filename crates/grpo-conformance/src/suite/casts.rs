//! From one float type to another.

use burn::Tensor;
use burn::tensor::DType;
use grpo_core::to_host;
use grpo_kernels::device::computes;

use super::tools::slope;
use super::{Behaviour, Compare, all};
use crate::runner::{Bench, Step};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    all("a cast to 32 bits keeps the gradient", cast_keeps),
    all("a cast to each float type that computes keeps the gradient [B12]", casts),
    all("16-bit numbers become 32-bit numbers and back without loss", round_trip),
];

fn casts(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
        if !computes(bench.device, dtype) {
            continue;
        }
        let x: Tensor<1> = bench.leaf(&[1.5, -2.0, 0.25], [3]);
        let out = x.clone().cast(dtype) * 2.0;
        seen.vector(&format!("value by {dtype:?}"), &to_host(out.clone(), "value")?, &[3.0, -4.0, 0.5]);
        seen.vector(&format!("gradient by {dtype:?}"), &slope(out, &x)?, &[2.0, 2.0, 2.0]);
        let gradients = x.clone().cast(dtype).sum().backward();
        let kept = x.grad(&gradients).is_some_and(|gradient| gradient.dtype() == bench.dtype);
        seen.number(&format!("gradient by {dtype:?} has the type of its leaf"), f64::from(u8::from(kept)), 1.0);
    }
    Ok(())
}

fn round_trip(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let numbers = [1.0, -0.15625, 240.0, -3.5];
    let x: Tensor<1> = bench.constant(&numbers, [4]);
    seen.vector("value", &to_host(x.cast(DType::F32).cast(bench.dtype), "value")?, &numbers);
    Ok(())
}

fn cast_keeps(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.leaf(&[1.5, -2.0], [2]);
    let out = x.clone().cast(DType::F32) * 3.0; // [2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[4.5, -6.0]);
    seen.vector("gradient", &slope(out, &x)?, &[3.0, 3.0]);
    Ok(())
}
