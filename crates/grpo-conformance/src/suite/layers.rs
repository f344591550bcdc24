//! The parts of a language model, composed as `grpo-lm` composes them, and the fused operations of `grpo-kernels`.

use burn::Tensor;
use grpo_core::to_host;
use grpo_kernels::{Ask, LinearRows, RowRequest, gated_silu, linear_row_stats, plain_row_stats};

use super::op::{Half, Op};
use super::tools::{int, seeded};
use super::{Behaviour, Compare, wide};
use crate::runner::{Bench, Step, Stop, leaf_gradient};

pub(super) const OPS: &[Op] = &[
    Op {
        name: "RMS norm with a weight",
        inputs: &[4 * 6, 6],
        tensors: |_, x| {
            let rows = x[0].clone().reshape([4, 6]);
            let scale = rows.clone().square().mean_dim(1).add_scalar(1e-3).sqrt().recip(); // [4, 1]
            (rows * scale * x[1].clone().reshape([1, 6])).reshape([24])
        },
        loops: |x| {
            let row = |row: &[f64]| {
                let root = (row.iter().map(|x| x * x).sum::<f64>() / 6.0 + 1e-3).sqrt();
                row.iter().zip(&x[1]).map(|(v, w)| v / root * w).collect::<Vec<_>>()
            };
            x[0].chunks(6).flat_map(row).collect()
        },
        half: Half::Too,
    },
    Op {
        name: "rotation of halves by position",
        inputs: &[3 * 2 * 4],
        tensors: |bench, x| {
            let x = x[0].clone().reshape([3, 2, 4]); // three rows of two heads
            let table = |f: fn(f64) -> f64| bench.constant(&ANGLES.map(f), [3, 1, 2]);
            let (cos, sin) = (table(f64::cos), table(f64::sin));
            let (first, second) = (x.clone().narrow(2, 0, 2), x.narrow(2, 2, 2));
            let turned = first.clone() * cos.clone() - second.clone() * sin.clone();
            Tensor::cat(vec![turned, second * cos + first * sin], 2).reshape([24])
        },
        loops: |x| {
            let at = |i: usize| {
                let (row, head, pair) = (i / 8, i / 4 % 2, i % 2);
                let (sin, cos) = ANGLES[row * 2 + pair].sin_cos();
                let base = row * 8 + head * 4 + pair;
                let (a, b) = (x[0][base], x[0][base + 2]);
                if i % 4 < 2 { a * cos - b * sin } else { b * cos + a * sin }
            };
            (0..24).map(at).collect()
        },
        half: Half::Too,
    },
    Op {
        name: "attention of four query heads on two key heads, with a causal bias [B23, B24]",
        inputs: &[4 * 3 * 2, 2 * 5 * 2, 2 * 5 * 2],
        tensors: |bench, x| {
            // Queries [2 key heads, 2 of each, 3 places, d 2]; keys and values [2, 1, 5 places, 2]. Query i stands at place i + 2.
            let (keys, values) = (x[1].clone().reshape([2, 1, 5, 2]), x[2].clone().reshape([2, 1, 5, 2]));
            let bias: Vec<f64> = (0..30).map(|i| if i % 5 <= i / 5 % 3 + 2 { 0.0 } else { -3e4 }).collect();
            let queries = x[0].clone().reshape([2, 1, 6, 2]);
            let scores = queries.matmul(keys.transpose()).reshape([2, 2, 3, 5]) + bench.constant(&bias, [1, 2, 3, 5]);
            let weights = (scores.clone() - scores.detach().max_dim(3)).exp(); // [2, 2, 3, 5]
            let mixed = weights.clone().reshape([2, 1, 6, 5]).matmul(values).reshape([2, 2, 3, 2]);
            (mixed / weights.sum_dim(3)).reshape([24])
        },
        loops: |x| {
            let row = |i: usize| {
                let (head, place) = (i / 6, i % 3);
                let query = &x[0][i * 2..];
                let weight = |s: usize| {
                    let key = &x[1][head * 10 + s * 2..];
                    (query[0] * key[0] + query[1] * key[1]).exp()
                };
                let total: f64 = (0..place + 3).map(weight).sum();
                [0, 1].map(|c| (0..place + 3).map(|s| weight(s) * x[2][head * 10 + s * 2 + c]).sum::<f64>() / total)
            };
            (0..12).flat_map(row).collect()
        },
        half: Half::Too,
    },
    Op {
        name: "gate of an MLP, fused",
        inputs: &[7 * 9, 7 * 9],
        tensors: |_, x| gated_silu(x[0].clone().reshape([7, 9]) * 4.0, x[1].clone().reshape([7, 9])).reshape([63]),
        loops: |x| x[0].iter().zip(&x[1]).map(|(g, u)| 4.0 * g / (1.0 + (-4.0 * g).exp()) * u).collect(),
        half: Half::Too,
    },
    Op {
        name: "matrix with low-rank factors beside it",
        inputs: &[3 * 5, 4 * 5, 5 * 2, 2 * 4],
        tensors: |_, x| {
            let rows = x[0].clone().reshape([3, 5]);
            let base = rows.clone().matmul(x[1].clone().reshape([4, 5]).transpose()); // [3, 4]
            (base + rows.matmul(x[2].clone().reshape([5, 2])).matmul(x[3].clone().reshape([2, 4])) * 2.0).reshape([12])
        },
        loops: |x| {
            let at = |i: usize| {
                let row = &x[0][i / 4 * 5..i / 4 * 5 + 5];
                let base: f64 = row.iter().enumerate().map(|(k, v)| v * x[1][i % 4 * 5 + k]).sum();
                let factor = |r: usize| row.iter().enumerate().map(|(k, v)| v * x[2][k * 2 + r]).sum::<f64>();
                base + 2.0 * (0..2).map(|r| factor(r) * x[3][r * 4 + i % 4]).sum::<f64>()
            };
            (0..12).map(at).collect()
        },
        half: Half::Too,
    },
    Op {
        name: "tied embedding and head share one gradient [B37]",
        inputs: &[7 * 3],
        tensors: |bench, x| {
            let table = x[0].clone().reshape([7, 3]);
            let hidden = table.clone().select(0, int(bench, &[6, 0, 3, 6], [4])); // [4, 3]
            let logits = hidden.matmul(table.transpose()); // [4, 7]
            grpo_core::log_softmax_at(logits, 1.0).gather(1, int(bench, &[0, 6, 3, 5], [4, 1])).reshape([4])
        },
        loops: |x| {
            let logit = |a: usize, b: usize| (0..3).map(|k| x[0][a * 3 + k] * x[0][b * 3 + k]).sum::<f64>();
            let log_prob = |(id, target): (usize, usize)| logit(id, target) - (0..7).map(|v| logit(id, v).exp()).sum::<f64>().ln();
            [(6, 0), (0, 6), (3, 3), (6, 5)].map(log_prob).to_vec()
        },
        half: Half::Never,
    },
    Op {
        name: "statistics of next-token distributions, fused",
        inputs: &[5 * 3, 37 * 3],
        tensors: |bench, x| statistics(bench, x, linear_row_stats),
        loops: |x| row_statistics(x),
        half: Half::Never,
    },
    Op {
        name: "statistics of next-token distributions, composed",
        inputs: &[5 * 3, 37 * 3],
        tensors: |bench, x| statistics(bench, x, plain_row_stats),
        loops: |x| row_statistics(x),
        half: Half::Never,
    },
];

pub(super) const BEHAVIOURS: &[Behaviour] = &[wide("the fused head over 32,003 tokens", large_head)];

/// Of three positions and two pairs.
const ANGLES: [f64; 6] = [0.0, 0.0, 1.0, 0.1, 5.0, 0.5];
const TARGETS: [usize; 5] = [0, 36, 36, 17, 31];
const TEMPERATURE: f64 = 0.8;

type Statistics = fn(LinearRows, Tensor<1, burn::tensor::Int>, &RowRequest) -> Result<grpo_kernels::RowStats, grpo_kernels::KernelError>;

/// Log-probabilities, entropies and KL of five rows, two at a time, all with gradients. NaN where they are refused.
fn statistics(bench: &Bench<'_>, x: &[Tensor<1>], of: Statistics) -> Tensor<1> {
    let rows = LinearRows { hidden: x[0].clone().reshape([5, 3]), weight: x[1].clone().reshape([37, 3]) };
    let (hidden, weight) = reference();
    let reference = LinearRows { hidden: bench.constant(&hidden, [5, 3]), weight: bench.constant(&weight, [37, 3]) };
    let mut request = RowRequest::new(TEMPERATURE).with_entropy(Ask::Gradient).with_kl(reference, Ask::Gradient);
    if let Some(two) = std::num::NonZeroUsize::new(2) {
        request = request.with_chunk_rows(two);
    }
    match of(rows, int(bench, &TARGETS.map(|t| t as i64), [5]), &request) {
        Ok(stats) => Tensor::cat([Some(stats.log_probs), stats.entropies, stats.kl].into_iter().flatten().collect(), 0),
        Err(_) => x[0].clone() * f64::NAN,
    }
}

fn reference() -> (Vec<f64>, Vec<f64>) {
    (seeded(7, 15), seeded(9, 111))
}

fn row_statistics(x: &[Vec<f64>]) -> Vec<f64> {
    let log_probs = |hidden: &[f64], weight: &[f64]| {
        let logits: Vec<f64> = weight.chunks(3).map(|w| w.iter().zip(hidden).map(|(w, h)| w * h).sum::<f64>() / TEMPERATURE).collect();
        let total = logits.iter().map(|z| z.exp()).sum::<f64>().ln();
        logits.into_iter().map(|z| z - total).collect::<Vec<_>>()
    };
    let (hidden, weight) = reference();
    let mut out = [Vec::new(), Vec::new(), Vec::new()];
    for (row, target) in TARGETS.into_iter().enumerate() {
        let p = log_probs(&x[0][row * 3..row * 3 + 3], &x[1]);
        let q = log_probs(&hidden[row * 3..row * 3 + 3], &weight);
        out[0].push(p[target]);
        out[1].push(p.iter().map(|l| -l.exp() * l).sum());
        out[2].push(p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum());
    }
    out.concat()
}

/// Fused and composed agree where there are many tokens, in values and in both gradients.
fn large_head(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    const V: usize = 32_003;
    let (hidden, weight) = (seeded(1, 6 * 8), seeded(2, V * 8));
    let mut found = Vec::new();
    for of in [linear_row_stats as Statistics, plain_row_stats] {
        let (h, w): (Tensor<2>, Tensor<2>) = (bench.leaf(&hidden, [6, 8]), bench.leaf(&weight, [V, 8]));
        let targets = int(bench, &[0, 32_002, 32_000, 31_999, 5, 0], [6]);
        let rows = LinearRows { hidden: h.clone(), weight: w.clone() };
        let stats = of(rows, targets, &RowRequest::new(1.0)).map_err(|e| Stop::Broken(e.to_string()))?;
        let values = to_host(stats.log_probs.clone(), "value")?;
        let gradients = stats.log_probs.sum().backward();
        found.push([values, leaf_gradient(&h, &gradients)?, leaf_gradient(&w, &gradients)?]);
    }
    let [fused, composed] = &found[..] else { return Err(Stop::Broken("two ways were to be compared".to_owned())) };
    for (what, (got, want)) in ["value", "gradient of the rows", "gradient of the head"].iter().zip(fused.iter().zip(composed)) {
        seen.vector(what, got, want);
    }
    let uniform = -(V as f64).ln();
    let near = fused[0].iter().all(|l| (l - uniform).abs() < 8.0);
    seen.number("log-probabilities are in range", f64::from(u8::from(near)), 1.0);
    Ok(())
}
