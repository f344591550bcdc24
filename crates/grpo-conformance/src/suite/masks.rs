//! What a mask hides reaches neither value nor gradient; what chooses, chooses.

use burn::Tensor;
use burn::tensor::Bool;
use grpo_core::to_host;

use super::op::{Half, Op};
use super::tools::{bools, slope};
use super::{Behaviour, Compare, all, wide};
use crate::runner::{Bench, Step, leaf_gradient};

pub(super) const OPS: &[Op] = &[
    Op {
        name: "fill under a mask",
        inputs: &[3 * 5],
        tensors: |bench, x| x[0].clone().reshape([3, 5]).mask_fill(bools(bench, &every_third(15), [3, 5]), 0.0).reshape([15]),
        loops: |x| x[0].iter().enumerate().map(|(i, x)| if i % 3 == 0 { 0.0 } else { *x }).collect(),
        half: Half::Too,
    },
    Op {
        name: "one of two by a mask",
        inputs: &[15, 15],
        tensors: |bench, x| x[0].clone().mask_where(bools(bench, &every_third(15), [15]), x[1].clone()),
        loops: |x| (0..15).map(|i| if i % 3 == 0 { x[1][i] } else { x[0][i] }).collect(),
        half: Half::Too,
    },
    Op {
        name: "a comparison as numbers",
        inputs: &[15, 15],
        tensors: |_, x| x[0].clone() * x[0].clone().greater(x[1].clone()).float().cast(x[0].dtype()),
        loops: |x| x[0].iter().zip(&x[1]).map(|(a, b)| if a > b { *a } else { 0.0 }).collect(),
        half: Half::Too,
    },
];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    all("a mask before exp keeps value and gradient finite", mask_before_exp),
    all("clamp has no gradient beyond its bounds", clamp_cuts),
    all("the smaller of a pair alone has the gradient", min_pair_chooses),
    all("where a mask chooses, only the chosen side has the gradient", mask_where_chooses),
    all("a detached value has no gradient", detach_holds),
    all("comparisons with infinity", infinities),
    wide("comparisons with NaN", nans),
    all("and, or, not, any, all", logic),
];

fn every_third(length: usize) -> Vec<bool> {
    (0..length).map(|i| i % 3 == 0).collect()
}

fn logic(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let a = bools(bench, &[false, false, true, true], [4]);
    let b = bools(bench, &[false, true, false, true], [4]);
    let ones = |at: Tensor<1, Bool>| to_host(at.float().cast(bench.dtype), "truth");
    seen.vector("and", &ones(a.clone().bool_and(b.clone()))?, &[0.0, 0.0, 0.0, 1.0]);
    seen.vector("or", &ones(a.clone().bool_or(b.clone()))?, &[0.0, 1.0, 1.0, 1.0]);
    seen.vector("not", &ones(a.clone().bool_not())?, &[1.0, 1.0, 0.0, 0.0]);
    seen.vector("any", &ones(a.clone().any())?, &[1.0]);
    seen.vector("all", &ones(a.all())?, &[0.0]);
    Ok(())
}

fn mask_before_exp(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.leaf(&[0.5, 1e4, f64::INFINITY, f64::NAN], [1, 4]);
    let out = x.clone().mask_fill(bools(bench, &[false, true, true, true], [1, 4]), 0.0).exp(); // [1, 4]
    seen.vector("value", &to_host(out.clone(), "value")?, &[0.5f64.exp(), 1.0, 1.0, 1.0]);
    seen.vector("gradient", &slope(out, &x)?, &[0.5f64.exp(), 0.0, 0.0, 0.0]);
    Ok(())
}

fn clamp_cuts(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.leaf(&[-3.0, -0.5, 0.5, 3.0], [4]);
    seen.vector("two-sided", &slope(x.clone().clamp(-1.0, 1.0), &x)?, &[0.0, 1.0, 1.0, 0.0]);
    let x: Tensor<1> = bench.leaf(&[-3.0, -0.5, 0.5, 3.0], [4]);
    seen.vector("one-sided", &slope(x.clone().clamp_max(1.0), &x)?, &[1.0, 1.0, 1.0, 0.0]);
    Ok(())
}

fn min_pair_chooses(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.leaf(&[1.0, 5.0], [2]);
    let out = (x.clone() * 2.0).min_pair(x.clone() + 3.0); // [2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[2.0, 8.0]);
    seen.vector("gradient", &slope(out, &x)?, &[2.0, 1.0]);
    // At a tie the two sides share it, however they do: here both have slope 1.
    let x: Tensor<1> = bench.leaf(&[1.0], [1]);
    seen.vector("tie", &slope(x.clone().min_pair(x.clone().clamp(0.5, 1.5)), &x)?, &[1.0]);
    Ok(())
}

fn mask_where_chooses(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let (x, y): (Tensor<1>, Tensor<1>) = (bench.leaf(&[1.0, 2.0], [2]), bench.leaf(&[f64::NAN, 4.0], [2]));
    let out = x.clone().mask_where(bools(bench, &[false, true], [2]), y.clone()); // [2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[1.0, 4.0]);
    let gradients = out.sum().backward();
    seen.vector("gradient where false", &leaf_gradient(&x, &gradients)?, &[1.0, 0.0]);
    seen.vector("gradient where true", &leaf_gradient(&y, &gradients)?, &[0.0, 1.0]);
    Ok(())
}

fn detach_holds(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.leaf(&[2.0, 3.0], [2]);
    seen.vector("detach", &slope(x.clone() * x.clone().detach(), &x)?, &[2.0, 3.0]);
    let x: Tensor<1> = bench.leaf(&[2.0, 3.0], [2]);
    seen.vector("inner", &slope(x.clone() * x.clone().inner(), &x)?, &[2.0, 3.0]);
    Ok(())
}

fn infinities(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x = bench.constant(&[f64::NEG_INFINITY, -1.0, 0.0, f64::INFINITY], [4]);
    let ones = |at: Tensor<1, Bool>| to_host(at.float().cast(bench.dtype), "comparison");
    seen.vector("is -inf", &ones(x.clone().equal_elem(f64::NEG_INFINITY))?, &[1.0, 0.0, 0.0, 0.0]);
    seen.vector("below 0", &ones(x.clone().lower_elem(0.0))?, &[1.0, 1.0, 0.0, 0.0]);
    seen.vector("above 0", &ones(x.clone().greater_elem(0.0))?, &[0.0, 0.0, 0.0, 1.0]);
    seen.vector("at most 0", &ones(x.lower_equal_elem(0.0))?, &[1.0, 1.0, 1.0, 0.0]);
    Ok(())
}

fn nans(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x = bench.constant(&[f64::NAN, 1.0], [2]);
    let ones = |at: Tensor<1, Bool>| to_host(at.float().cast(bench.dtype), "comparison");
    seen.vector("is NaN", &ones(x.clone().is_nan())?, &[1.0, 0.0]);
    seen.vector("below 0", &ones(x.clone().lower_elem(0.0))?, &[0.0, 0.0]);
    seen.vector("not below 0", &ones(x.clone().lower_elem(0.0).bool_not())?, &[1.0, 1.0]);
    seen.vector("equal to itself", &ones(x.clone().equal(x))?, &[0.0, 1.0]);
    Ok(())
}
