//! Matrix products of every form the library asks for.

use burn::Tensor;
use grpo_core::to_host;

use super::op::{Half, Op};
use super::{Behaviour, Compare, all};
use crate::runner::{Bench, Step, leaf_gradient};

/// [m, k] · [k, n] of a flat batch.
macro_rules! product {
    ($name:literal, [$m:literal, $k:literal, $n:literal], batch $b:literal, $tensors:expr) => {
        Op {
            name: $name,
            inputs: &[$b * $m * $k, $b * $k * $n],
            tensors: |_, x| {
                let product: fn(Tensor<1>, Tensor<1>) -> Tensor<1> = $tensors;
                product(x[0].clone(), x[1].clone())
            },
            loops: |x| (0..$b).flat_map(|b| times(&x[0][b * $m * $k..], &x[1][b * $k * $n..], [$m, $k, $n])).collect(),
            half: Half::Too,
        }
    };
}

pub(super) const OPS: &[Op] = &[
    product!("product of two matrices", [5, 7, 3], batch 1, |a, b| a.reshape([5, 7]).matmul(b.reshape([7, 3])).reshape([15])),
    product!("product over the edges of tiles", [17, 33, 19], batch 1, |a, b| a
        .reshape([17, 33])
        .matmul(b.reshape([33, 19]))
        .reshape([323])),
    product!("product of one row", [1, 33, 40], batch 1, |a, b| a.reshape([1, 33]).matmul(b.reshape([33, 40])).reshape([40])),
    product!("product with one column", [40, 33, 1], batch 1, |a, b| a.reshape([40, 33]).matmul(b.reshape([33, 1])).reshape([40])),
    product!("product of a batch", [4, 5, 3], batch 3, |a, b| a.reshape([3, 4, 5]).matmul(b.reshape([3, 5, 3])).reshape([36])),
    product!("product of five axes", [2, 4, 5], batch 6, |a, b| a
        .reshape([2, 3, 1, 2, 4])
        .matmul(b.reshape([2, 3, 1, 4, 5]))
        .reshape([60])),
    Op {
        name: "product of a slice and a transposed weight",
        inputs: &[6 * 5, 4 * 5],
        tensors: |_, x| x[0].clone().reshape([6, 5]).slice([2..5, 0..5]).matmul(x[1].clone().reshape([4, 5]).transpose()).reshape([12]),
        loops: |x| (0..12).map(|i| (0..5).map(|k| x[0][(2 + i / 4) * 5 + k] * x[1][i % 4 * 5 + k]).sum()).collect(),
        half: Half::Too,
    },
    Op {
        name: "product with shared keys: one matrix for a group of queries",
        inputs: &[2 * 3 * 4, 2 * 4 * 5],
        tensors: |_, x| {
            // [2, 1, 3, 4] · [2, 1, 4, 5], the group's queries side by side.
            x[0].clone().reshape([2, 3, 1, 4]).reshape([2, 1, 3, 4]).matmul(x[1].clone().reshape([2, 1, 4, 5])).reshape([30])
        },
        loops: |x| (0..2).flat_map(|p| times(&x[0][p * 12..], &x[1][p * 20..], [3, 4, 5])).collect(),
        half: Half::Too,
    },
    Op {
        name: "product of a permuted view",
        inputs: &[4 * 2 * 3, 2 * 3 * 5],
        tensors: |_, x| {
            // Rows of heads to heads of rows.
            let left = x[0].clone().reshape([4, 2, 3]).permute([1, 0, 2]); // [2, 4, 3]
            left.matmul(x[1].clone().reshape([2, 3, 5])).reshape([40])
        },
        loops: |x| {
            let left: Vec<f64> = (0..24).map(|i| x[0][i % 12 / 3 * 6 + i / 12 * 3 + i % 3]).collect();
            (0..2).flat_map(|h| times(&left[h * 12..], &x[1][h * 15..], [4, 3, 5])).collect()
        },
        half: Half::Too,
    },
];

pub(super) const BEHAVIOURS: &[Behaviour] = &[all("a matrix product with a transpose has the gradient of its formula", transposed_product)];

/// [m, k] · [k, n]
fn times(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    (0..m * n).map(|i| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum()).collect()
}

fn transposed_product(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let h: Tensor<2> = bench.leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    let w: Tensor<2> = bench.leaf(&[0.5, -1.0, 2.0, 1.0, 0.0, -3.0], [2, 3]);
    let out = h.clone().matmul(w.clone().transpose()); // [2, 2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[4.5, -8.0, 9.0, -14.0]);
    let gradients = (out * bench.constant(&[1.0, 0.0, 0.0, 2.0], [2, 2])).sum().backward();
    seen.vector("gradient of the left", &leaf_gradient(&h, &gradients)?, &[0.5, -1.0, 2.0, 2.0, 0.0, -6.0]);
    seen.vector("gradient of the right", &leaf_gradient(&w, &gradients)?, &[1.0, 2.0, 3.0, 8.0, 10.0, 12.0]);
    Ok(())
}
