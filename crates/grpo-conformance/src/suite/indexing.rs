//! Rows and entries picked by index: embeddings, targets, the last position of each row.

use burn::Tensor;
use burn::tensor::IndexingUpdateOp;
use grpo_core::to_host;

use super::op::{Half, Op};
use super::tools::{int, slope};
use super::{Behaviour, Compare, all};
use crate::runner::{Bench, Step};

/// Repeated, first and last row of 37: no multiple of 32.
const ROWS: [usize; 9] = [36, 0, 5, 36, 35, 0, 12, 36, 31];
/// Repeated and edge columns of 37 for each of three rows.
const COLUMNS: [usize; 15] = [0, 36, 36, 7, 36, 1, 0, 0, 0, 35, 31, 32, 33, 31, 36];

pub(super) const OPS: &[Op] = &[
    Op {
        name: "gather along the last axis, edge and repeated indices [B14]",
        inputs: &[3 * 37],
        tensors: |bench, x| x[0].clone().reshape([3, 37]).gather(1, index(bench, &COLUMNS, [3, 5])).reshape([15]),
        loops: |x| COLUMNS.iter().enumerate().map(|(i, column)| x[0][i / 5 * 37 + column]).collect(),
        half: Half::Too,
    },
    Op {
        name: "gather along the first axis",
        inputs: &[4 * 3],
        tensors: |bench, x| x[0].clone().reshape([4, 3]).gather(0, index(bench, &[3, 0, 3, 1, 0, 3], [2, 3])).reshape([6]),
        loops: |x| [3, 0, 3, 1, 0, 3].iter().enumerate().map(|(i, row)| x[0][row * 3 + i % 3]).collect(),
        half: Half::Too,
    },
    Op {
        name: "gather of one entry of each row of three axes",
        inputs: &[2 * 3 * 7],
        tensors: |bench, x| x[0].clone().reshape([2, 3, 7]).gather(2, index(bench, &[6, 0, 3, 3, 6, 1], [2, 3, 1])).reshape([6]),
        loops: |x| [6, 0, 3, 3, 6, 1].iter().enumerate().map(|(i, column)| x[0][i * 7 + column]).collect(),
        half: Half::Too,
    },
    Op {
        name: "gather from a transposed view",
        inputs: &[5 * 3],
        tensors: |bench, x| x[0].clone().reshape([5, 3]).transpose().gather(1, index(bench, &[4, 0, 2, 2, 1, 4], [3, 2])).reshape([6]),
        loops: |x| [4, 0, 2, 2, 1, 4].iter().enumerate().map(|(i, column)| x[0][column * 3 + i / 2]).collect(),
        half: Half::Too,
    },
    Op {
        name: "embedding of 37 rows, edge and repeated ids [B35]",
        inputs: &[37 * 5],
        tensors: |bench, x| x[0].clone().reshape([37, 5]).select(0, index(bench, &ROWS, [9])).reshape([45]),
        loops: |x| ROWS.iter().flat_map(|row| x[0][row * 5..row * 5 + 5].to_vec()).collect(),
        half: Half::Too,
    },
    Op {
        name: "embedding of 1,003 rows",
        inputs: &[1003 * 3],
        tensors: |bench, x| x[0].clone().reshape([1003, 3]).select(0, index(bench, &[1002, 0, 1000, 1002, 511, 512], [6])).reshape([18]),
        loops: |x| [1002, 0, 1000, 1002, 511, 512].iter().flat_map(|row: &usize| x[0][row * 3..row * 3 + 3].to_vec()).collect(),
        half: Half::Too,
    },
    Op {
        name: "columns picked by index",
        inputs: &[4 * 6],
        tensors: |bench, x| x[0].clone().reshape([4, 6]).select(1, index(bench, &[5, 0, 5, 2], [4])).reshape([16]),
        loops: |x| (0..4).flat_map(|row| [5, 0, 5, 2].map(|column| x[0][row * 6 + column])).collect(),
        half: Half::Too,
    },
    Op {
        name: "scatter adds up at repeated indices",
        inputs: &[2 * 5, 2 * 3],
        tensors: |bench, x| {
            let at = index(bench, &[4, 4, 0, 1, 4, 1], [2, 3]);
            x[0].clone().reshape([2, 5]).scatter(1, at, x[1].clone().reshape([2, 3]), IndexingUpdateOp::Add).reshape([10])
        },
        loops: |x| {
            let mut out = x[0].clone();
            [4, 4, 0, 1, 4, 1].iter().enumerate().for_each(|(i, column)| out[i / 3 * 5 + column] += x[1][i]);
            out
        },
        half: Half::Too,
    },
];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    all("gather with repeated indices adds up gradients", gather_adds_up),
    all("select with repeated indices adds up gradients", select_adds_up),
];

fn index<const D: usize>(bench: &Bench<'_>, values: &[usize], shape: [usize; D]) -> Tensor<D, burn::tensor::Int> {
    int(bench, &values.iter().map(|&value| value as i64).collect::<Vec<_>>(), shape)
}

fn gather_adds_up(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    let out = x.clone().gather(1, int(bench, &[2, 2, 0, 1, 1, 1], [2, 3])); // [2, 3]
    seen.vector("value", &to_host(out.clone(), "value")?, &[3.0, 3.0, 1.0, 5.0, 5.0, 5.0]);
    seen.vector("gradient", &slope(out, &x)?, &[1.0, 0.0, 2.0, 0.0, 3.0, 0.0]);
    Ok(())
}

fn select_adds_up(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.leaf(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2]);
    let out = x.clone().select(0, int(bench, &[2, 0, 2], [3])); // [3, 2]
    seen.vector("value", &to_host(out.clone(), "value")?, &[5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    seen.vector("gradient", &slope(out, &x)?, &[1.0, 1.0, 0.0, 0.0, 2.0, 2.0]);
    Ok(())
}
