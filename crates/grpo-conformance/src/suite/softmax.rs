//! Distributions: the library's own log-softmax, masked rows, large vocabularies.

use burn::Tensor;
use burn::tensor::activation::softmax;
use grpo_core::{log_softmax_at, to_host};

use super::op::{Half, Op};
use super::tools::{int, seeded, slope};
use super::{Behaviour, Compare, all, wide};
use crate::runner::{Bench, Step, leaf_gradient};

pub(super) const OPS: &[Op] = &[
    Op {
        name: "log-softmax at a temperature",
        inputs: &[4 * 37],
        tensors: |_, x| log_softmax_at(x[0].clone().reshape([4, 37]), 0.7).reshape([148]),
        loops: |x| x[0].chunks(37).flat_map(|row| log_softmax(row, 0.7)).collect(),
        half: Half::Never,
    },
    Op {
        name: "entropy",
        inputs: &[3 * 37],
        tensors: |_, x| {
            let log_probs = log_softmax_at(x[0].clone().reshape([3, 37]) * 4.0, 1.0); // [3, 37]
            (log_probs.clone().exp() * log_probs).sum_dim(1).neg().reshape([3])
        },
        loops: |x| {
            let entropy = |row: &[f64]| log_softmax(row, 0.25).iter().map(|l| -l.exp() * l).sum();
            x[0].chunks(37).map(entropy).collect()
        },
        half: Half::Never,
    },
    Op {
        name: "softmax under an additive causal mask",
        inputs: &[5 * 5],
        tensors: |bench, x| {
            let bias: Vec<f64> = (0..25).map(|i| if i % 5 <= i / 5 { 0.0 } else { MASKED }).collect();
            soft(x[0].clone().reshape([5, 5]) + bench.constant(&bias, [5, 5])).reshape([25])
        },
        loops: |x| {
            let row = |(i, row): (usize, &[f64])| {
                let total: f64 = row[..=i].iter().map(|x| x.exp()).sum();
                row.iter().enumerate().map(|(j, x)| if j <= i { x.exp() / total } else { 0.0 }).collect::<Vec<_>>()
            };
            x[0].chunks(5).enumerate().flat_map(row).collect()
        },
        half: Half::Too,
    },
];

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    all("log-softmax of huge logits does not overflow", huge_logits),
    wide("log-softmax of illegal actions has finite gradients", illegal_actions),
    all("a row in which every key is masked is finite, and so is its gradient [B10]", all_masked),
    wide("rows of a masked softmax of 96 by 96 sum to 1 [B08]", rows_sum_to_one),
    wide("a vocabulary of 50,257", large_vocabulary),
];

/// As attention masks: far below any score, and a number of every float type.
const MASKED: f64 = -3e4;

/// Softmax over the last axis, as attention composes it.
fn soft(scores: Tensor<2>) -> Tensor<2> {
    let weights = (scores.clone() - scores.detach().max_dim(1)).exp();
    weights.clone() / weights.sum_dim(1)
}

fn log_softmax(row: &[f64], temperature: f64) -> Vec<f64> {
    let total: f64 = row.iter().map(|x| (x / temperature).exp()).sum();
    row.iter().map(|x| x / temperature - total.ln()).collect()
}

fn all_masked(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.leaf(&[0.5, -0.25, 0.75, 1.0, -1.0, 0.0], [2, 3]);
    let bias = bench.constant(&[MASKED, MASKED, MASKED, 0.0, MASKED, 0.0], [2, 3]);
    let out = soft(x.clone() + bias); // [2, 3]
    let value = to_host(out.clone(), "value")?;
    seen.number("sum of the masked row", value[..3].iter().sum(), 1.0);
    seen.number("hidden key", value[4], 0.0);
    let gradient = slope(out.square(), &x)?;
    let finite = gradient.iter().all(|g| g.is_finite());
    seen.number("gradient is finite", f64::from(u8::from(finite)), 1.0);
    Ok(())
}

fn rows_sum_to_one(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let scores: Tensor<3> = bench.leaf(&seeded(3, 6 * 96 * 96), [6, 96, 96]);
    let bias: Vec<f64> = (0..96 * 96).map(|i| if i % 96 <= i / 96 { 0.0 } else { -1e4 }).collect();
    let scores = scores + bench.constant(&bias, [1, 96, 96]);
    for (name, out) in [("composed", log_softmax_at(scores.clone(), 1.0).exp()), ("burn's", softmax(scores, 2))] {
        seen.vector(name, &to_host(out.sum_dim(2), "sums")?, &[1.0; 6 * 96]);
    }
    Ok(())
}

fn large_vocabulary(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    const V: usize = 50_257;
    let logits: Vec<f64> = seeded(5, 2 * V).iter().map(|x| 8.0 * x).collect();
    let z: Tensor<2> = bench.leaf(&logits, [2, V]);
    let log_probs = log_softmax_at(z.clone(), 1.0); // [2, V]
    let targets = [V - 1, 0];
    let chosen = log_probs.gather(1, int(bench, &targets.map(|t| t as i64), [2, 1])); // [2, 1]
    let rows: Vec<Vec<f64>> = logits.chunks(V).map(|row| log_softmax(row, 1.0)).collect();
    let want: Vec<f64> = rows.iter().zip(targets).map(|(row, target)| row[target]).collect();
    seen.vector("log-probability", &to_host(chosen.clone(), "value")?, &want);
    let gradient = leaf_gradient(&z, &chosen.sum().backward())?;
    for (r, (row, target)) in rows.iter().zip(targets).enumerate() {
        let want: Vec<f64> = row.iter().enumerate().map(|(v, l)| f64::from(u8::from(v == target)) - l.exp()).collect();
        seen.vector("gradient", &gradient[r * V..(r + 1) * V], &want);
    }
    Ok(())
}

fn huge_logits(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let z: Tensor<2> = bench.leaf(&[1e4, 1e4, -1e4, 1e4], [2, 2]);
    let log_probs = log_softmax_at(z.clone(), 1.0); // [2, 2]
    let half = 0.5f64.ln();
    seen.vector("value", &to_host(log_probs.clone(), "value")?, &[half, half, -2e4, 0.0]);
    let first = bench.constant(&[1.0, 0.0, 1.0, 0.0], [2, 2]);
    seen.vector("gradient", &slope(log_probs * first, &z)?, &[0.5, -0.5, 1.0, -1.0]);
    Ok(())
}

fn illegal_actions(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let z: Tensor<2> = bench.leaf(&[0.0, f64::NEG_INFINITY, 3f64.ln()], [1, 3]);
    let log_probs = log_softmax_at(z.clone(), 1.0); // [1, 3]
    let probs = log_probs.clone().exp();
    seen.vector("probabilities", &to_host(probs, "probabilities")?, &[0.25, 0.0, 0.75]);
    let chosen = log_probs.gather(1, int(bench, &[2], [1, 1])); // [1, 1]
    seen.vector("gradient", &slope(chosen, &z)?, &[-0.25, 0.0, 0.25]);
    Ok(())
}
