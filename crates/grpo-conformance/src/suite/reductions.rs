//! Sums, means, largest entries, running sums; and the functions of one number.

use burn::Tensor;
use grpo_core::to_host;

use super::op::{Half, Op};
use super::tools::seeded;
use super::{Behaviour, Compare, half, wide};
use crate::runner::{Bench, Step};

/// One number at a time, of an input between −1 and 1.
macro_rules! each {
    ($name:literal, $tensors:expr, $loops:expr) => {
        Op {
            name: $name,
            inputs: &[65],
            tensors: |_, x| {
                let function: fn(Tensor<1>) -> Tensor<1> = $tensors;
                function(x[0].clone())
            },
            loops: |x| x[0].iter().map(|&x| ($loops as fn(f64) -> f64)(x)).collect(),
            half: Half::Too,
        }
    };
}

pub(super) const OPS: &[Op] = &[
    each!("exp", |x| x.exp(), |x| x.exp()),
    each!("log", |x| (x + 2.0).log(), |x| (x + 2.0).ln()),
    each!("square root", |x| (x + 2.0).sqrt(), |x| (x + 2.0).sqrt()),
    each!("reciprocal", |x| (x + 2.0).recip(), |x| (x + 2.0).recip()),
    each!("square", |x| x.square(), |x| x * x),
    each!("third power", |x| x.powi_scalar(3), |x| x * x * x),
    each!("absolute value", |x| x.abs(), |x| x.abs()),
    each!("sign and negation", |x| x.clone().sign() * x.neg(), |x| -x.abs()),
    each!("clamp", |x| x.clamp(-0.5, 0.25), |x| x.clamp(-0.5, 0.25)),
    each!("clamp from one side", |x| x.clamp_min(-0.25).clamp_max(0.5), |x| x.clamp(-0.25, 0.5)),
    each!("product with a scalar", |x| x * 0.37, |x| x * 0.37),
    each!("tanh", |x| (x * 2.0).tanh(), |x| (2.0 * x).tanh()),
    Op {
        name: "quotient of two tensors",
        inputs: &[33, 33],
        tensors: |_, x| x[0].clone() / (x[1].clone() + 2.0),
        loops: |x| x[0].iter().zip(&x[1]).map(|(a, b)| a / (b + 2.0)).collect(),
        half: Half::Too,
    },
    Op {
        name: "division by a scalar",
        inputs: &[9],
        tensors: |_, x| x[0].clone() / 0.7,
        loops: |x| x[0].iter().map(|x| x / 0.7).collect(),
        half: Half::Too,
    },
    Op {
        name: "the smaller and the larger of two",
        inputs: &[33, 33],
        tensors: |_, x| x[0].clone().min_pair(x[1].clone()) * 2.0 + x[0].clone().max_pair(x[1].clone()),
        loops: |x| x[0].iter().zip(&x[1]).map(|(a, b)| 2.0 * a.min(*b) + a.max(*b)).collect(),
        half: Half::Too,
    },
    Op {
        name: "sums over the first, the middle and the last axis",
        inputs: &[3 * 4 * 5],
        tensors: |_, x| {
            let x = x[0].clone().reshape([3, 4, 5]);
            Tensor::cat(vec![x.clone().sum_dim(0).reshape([20]), x.clone().sum_dim(1).reshape([15]), x.sum_dim(2).reshape([12])], 0)
        },
        loops: |x| {
            let mut out = vec![0.0; 47];
            for (i, x) in x[0].iter().enumerate() {
                let (a, b, c) = (i / 20, i / 5 % 4, i % 5);
                for place in [b * 5 + c, 20 + a * 5 + c, 35 + a * 4 + b] {
                    out[place] += x;
                }
            }
            out
        },
        half: Half::Too,
    },
    Op {
        name: "mean over the last axis and over everything",
        inputs: &[3 * 33],
        tensors: |_, x| Tensor::cat(vec![x[0].clone().reshape([3, 33]).mean_dim(1).reshape([3]), x[0].clone().mean()], 0),
        loops: |x| {
            let mut out: Vec<f64> = x[0].chunks(33).map(|row| row.iter().sum::<f64>() / 33.0).collect();
            out.push(x[0].iter().sum::<f64>() / 99.0);
            out
        },
        half: Half::Too,
    },
    Op {
        name: "the largest of each row and of everything",
        inputs: &[4 * 16],
        tensors: |_, x| Tensor::cat(vec![x[0].clone().reshape([4, 16]).max_dim(1).reshape([4]), x[0].clone().max()], 0),
        loops: |x| {
            let largest = |row: &[f64]| row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            x[0].chunks(16).map(largest).chain([largest(&x[0])]).collect()
        },
        half: Half::Too,
    },
    Op {
        name: "running sum",
        inputs: &[3 * 7],
        tensors: |_, x| x[0].clone().reshape([3, 7]).cumsum(1).reshape([21]),
        loops: |x| running(&x[0], 7),
        half: Half::Too,
    },
    Op {
        name: "running sum along a permuted axis",
        inputs: &[2 * 3 * 4],
        tensors: |_, x| x[0].clone().reshape([2, 3, 4]).permute([2, 0, 1]).cumsum(0).reshape([24]),
        loops: |x| {
            // [4, 2, 3]: along the first axis, which was the last.
            let sums = running(&x[0], 4);
            (0..24).map(|i| sums[i % 6 / 3 * 12 + i % 3 * 4 + i / 6]).collect()
        },
        half: Half::Too,
    },
    Op {
        name: "sum of 4,097 numbers",
        inputs: &[4097],
        tensors: |_, x| x[0].clone().square().sum(),
        loops: |x| vec![x[0].iter().map(|x| x * x).sum()],
        half: Half::Never,
    },
];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    wide("the same sum twice gives the same bits [B34]", same_bits),
    half("the mean of 256 numbers near 1,021 is near 1,021 [B28]", large_mean),
    half("numbers whose sum overflows are not NaN [B27]", no_nan),
];

fn running(x: &[f64], width: usize) -> Vec<f64> {
    let mut out = x.to_vec();
    for row in out.chunks_mut(width) {
        for i in 1..row.len() {
            row[i] += row[i - 1];
        }
    }
    out
}

fn same_bits(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.constant(&seeded(0, 129 * 257), [129, 257]);
    let w: Tensor<2> = bench.constant(&seeded(1, 257 * 65), [257, 65]);
    let once = || to_host(x.clone().matmul(w.clone()).exp().sum_dim(1), "sums");
    let first = once()?;
    for _ in 0..20 {
        let same = once()?.iter().zip(&first).all(|(a, b)| a.to_bits() == b.to_bits());
        seen.number("equal in every bit", f64::from(u8::from(same)), 1.0);
    }
    Ok(())
}

fn large_mean(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let numbers: Vec<f64> = (0..256).map(|i| 1020.0 + f64::from(i % 3)).collect(); // 1021 on average
    let x: Tensor<2> = bench.constant(&numbers, [1, 256]);
    seen.vector("mean", &to_host(x.mean_dim(1), "mean")?, &[1021.0]);
    Ok(())
}

fn no_nan(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let numbers: Vec<f64> = (0..4096).map(|i| if i < 2048 { 6e4 } else { -6e4 }).collect();
    let x: Tensor<1> = bench.constant(&numbers, [4096]);
    let found = x.is_nan().any().into_scalar::<bool>();
    seen.number("NaN found", f64::from(u8::from(found)), 0.0);
    Ok(())
}
