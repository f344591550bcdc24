//! Views: cut, joined, turned, spread.

use burn::Tensor;
use grpo_core::to_host;

use super::op::{Half, Op};
use super::tools::{seeded, slope};
use super::{Behaviour, Compare, all};
use crate::runner::{Bench, Step, leaf_gradient};

pub(super) const OPS: &[Op] = &[
    Op {
        name: "cat along the first axis",
        inputs: &[2 * 3, 3, 3 * 3],
        tensors: |_, x| {
            let parts = [(0, 2), (1, 1), (2, 3)].map(|(which, rows): (usize, usize)| x[which].clone().reshape([rows, 3]));
            Tensor::cat(parts.to_vec(), 0).reshape([18])
        },
        loops: |x| x.concat(),
        half: Half::Too,
    },
    Op {
        name: "cat along the last axis",
        inputs: &[2 * 3, 2],
        tensors: |_, x| Tensor::cat(vec![x[0].clone().reshape([2, 3]), x[1].clone().reshape([2, 1])], 1).reshape([8]),
        loops: |x| (0..2).flat_map(|row| [x[0][row * 3], x[0][row * 3 + 1], x[0][row * 3 + 2], x[1][row]]).collect(),
        half: Half::Too,
    },
    Op {
        name: "a slice of the middle of two axes",
        inputs: &[4 * 5],
        tensors: |_, x| x[0].clone().reshape([4, 5]).slice([1..3, 2..5]).reshape([6]),
        loops: |x| (1..3).flat_map(|row| (2..5).map(move |column| row * 5 + column)).map(|i| x[0][i]).collect(),
        half: Half::Too,
    },
    Op {
        name: "slices that overlap add up their gradients",
        inputs: &[6],
        tensors: |_, x| x[0].clone().slice(0..4) * x[0].clone().slice(2..6),
        loops: |x| (0..4).map(|i| x[0][i] * x[0][i + 2]).collect(),
        half: Half::Too,
    },
    Op {
        name: "a slice of a transposed view",
        inputs: &[4 * 3],
        tensors: |_, x| x[0].clone().reshape([4, 3]).transpose().slice([1..3, 0..3]).reshape([6]),
        loops: |x| (1..3).flat_map(|column| (0..3).map(move |row| row * 3 + column)).map(|i| x[0][i]).collect(),
        half: Half::Too,
    },
    Op {
        name: "halves by narrow, swapped",
        inputs: &[3 * 8],
        tensors: |_, x| {
            let x = x[0].clone().reshape([3, 8]);
            Tensor::cat(vec![x.clone().narrow(1, 4, 4), x.narrow(1, 0, 4)], 1).reshape([24])
        },
        loops: |x| (0..24).map(|i| x[0][i / 8 * 8 + (i % 8 + 4) % 8]).collect(),
        half: Half::Too,
    },
    Op {
        name: "permuted, then reshaped",
        inputs: &[2 * 3 * 4],
        tensors: |_, x| x[0].clone().reshape([2, 3, 4]).permute([2, 0, 1]).reshape([4, 6]).reshape([24]),
        loops: |x| (0..24).map(|i| x[0][i % 6 / 3 * 12 + i % 3 * 4 + i / 6]).collect(),
        half: Half::Too,
    },
    Op {
        name: "two axes swapped, then multiplied with itself",
        inputs: &[3 * 3],
        tensors: |_, x| (x[0].clone().reshape([3, 3]).swap_dims(0, 1) * x[0].clone().reshape([3, 3])).reshape([9]),
        loops: |x| (0..9).map(|i| x[0][i % 3 * 3 + i / 3] * x[0][i]).collect(),
        half: Half::Too,
    },
    Op {
        name: "expanded along the first and the last axis",
        inputs: &[3],
        tensors: |_, x| x[0].clone().reshape([1, 3, 1]).expand([2, 3, 4]).reshape([24]),
        loops: |x| (0..24).map(|i| x[0][i / 4 % 3]).collect(),
        half: Half::Too,
    },
    Op {
        name: "five axes broadcast against each other",
        inputs: &[2 * 2 * 3 * 2 * 3, 2 * 3],
        tensors: |_, x| (x[0].clone().reshape([2, 2, 3, 2, 3]) + x[1].clone().reshape([2, 1, 1, 1, 3])).reshape([72]),
        loops: |x| (0..72).map(|i| x[0][i] + x[1][i / 36 * 3 + i % 3]).collect(),
        half: Half::Too,
    },
    Op {
        name: "repeated along the middle axis",
        inputs: &[2 * 3],
        tensors: |_, x| x[0].clone().reshape([2, 1, 3]).repeat_dim(1, 3).reshape([18]),
        loops: |x| (0..18).map(|i| x[0][i / 9 * 3 + i % 3]).collect(),
        half: Half::Too,
    },
    Op {
        name: "part of a tensor overwritten",
        inputs: &[3 * 4, 2 * 2],
        tensors: |_, x| x[0].clone().reshape([3, 4]).slice_assign([1..3, 1..3], x[1].clone().reshape([2, 2])).reshape([12]),
        loops: |x| {
            let mut out = x[0].clone();
            (0..4).for_each(|i| out[(1 + i / 2) * 4 + 1 + i % 2] = x[1][i]);
            out
        },
        half: Half::Too,
    },
];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    all("expand adds up gradients", expand_adds_up),
    all("cat with an untracked part gives the gradient to the tracked one [B11]", cat_untracked),
    all("a view keeps its numbers when its source is computed on in place", views_hold),
];

fn cat_untracked(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let (a, b): (_, Tensor<1>) = (bench.constant(&[7.0, 8.0], [2]), bench.leaf(&[1.0, 1.0, 1.0], [3]));
    for (parts, weights) in [(vec![a.clone(), b.clone()], [1.0, 2.0, 3.0, 4.0, 5.0]), (vec![b.clone(), a], [3.0, 4.0, 5.0, 1.0, 2.0])] {
        let gradients = (Tensor::cat(parts, 0) * bench.constant(&weights, [5])).sum().backward();
        seen.vector("gradient", &leaf_gradient(&b, &gradients)?, &[3.0, 4.0, 5.0]);
    }
    Ok(())
}

/// The last owner of a buffer computes in it. A view of it is another owner.
fn views_hold(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let numbers = seeded(0, 12);
    let x: Tensor<2> = bench.constant(&numbers, [3, 4]);
    let (row, turned) = (x.clone().slice([1..2, 0..4]), x.clone().transpose());
    let doubled = x * 2.0;
    let emptied = doubled.clone().slice_fill([0..3, 0..4], 0.0);
    seen.vector("slice", &to_host(row, "slice")?, &numbers[4..8]);
    let transposed: Vec<f64> = (0..12).map(|i| numbers[i % 3 * 4 + i / 3]).collect();
    seen.vector("transpose", &to_host(turned, "transpose")?, &transposed);
    seen.vector("product", &to_host(doubled, "product")?, &numbers.iter().map(|n| 2.0 * n).collect::<Vec<_>>());
    seen.vector("overwritten", &to_host(emptied, "overwritten")?, &[0.0; 12]);
    Ok(())
}

fn expand_adds_up(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.leaf(&[1.0, -2.0], [2, 1]);
    let weights = bench.constant(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    seen.vector("gradient", &slope(x.clone().expand([2, 3]) * weights, &x)?, &[6.0, 15.0]);
    Ok(())
}
