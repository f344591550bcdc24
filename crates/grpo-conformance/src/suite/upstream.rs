//! Faults of burn that the library goes around. Whoever has one excludes the case, and hears from it when burn has mended it.

use burn::Tensor;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use grpo_core::to_host;

use super::tools::{bools, slope};
use super::{Behaviour, Compare, all, wide};
use crate::runner::{Bench, Step};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    wide("burn differentiates a division by a scalar in the tensor's own type", scalar_division),
    wide("burn computes the sigmoid in the tensor's own type", own_sigmoid),
    wide("burn's attention hides the keys that a boolean mask names", masked_attention),
    wide("burn's attention caps scores softly", capped_attention),
    wide("burn's causal attention ends at the last key", causal_attention),
    all("burn's largest k of a row of k [B36]", all_of_a_row),
];

fn scalar_division(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.leaf(&[0.5, -1.0], [2]);
    let slopes = slope(x.clone() / 0.7, &x)?;
    seen.vector("gradient", &slopes, &[1.0 / 0.7, 1.0 / 0.7]);
    Ok(())
}

fn own_sigmoid(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<1> = bench.constant(&[0.3125, -2.0], [2]);
    let want = [0.3125f64, -2.0].map(|x| 1.0 / (1.0 + (-x).exp()));
    seen.vector("value", &to_host(burn::tensor::activation::sigmoid(x), "sigmoid")?, &want);
    Ok(())
}

/// One head of one row: `queries` queries of width 1 that are 1, keys 1, 2, 3, 4 and values 1, 10, 100, 1000.
fn attended(
    bench: &Bench<'_>,
    queries: usize,
    mask: Option<[bool; 4]>,
    options: AttentionModuleOptions,
) -> Result<Vec<f64>, crate::runner::Stop> {
    let query: Tensor<4> = bench.constant(&vec![1.0; queries], [1, 1, queries, 1]);
    let key: Tensor<4> = bench.constant(&[1.0, 2.0, 3.0, 4.0], [1, 1, 4, 1]);
    let value: Tensor<4> = bench.constant(&[1.0, 10.0, 100.0, 1000.0], [1, 1, 4, 1]);
    let mask = mask.map(|mask| bools(bench, &mask, [1, 1, 1, 4]));
    Ok(to_host(attention(query, key, value, mask, None, options), "attention")?)
}

/// Σ w v / Σ w of the keys that are seen.
fn mixed(scores: &[f64]) -> f64 {
    let weights: Vec<f64> = scores.iter().map(|s| s.exp()).collect();
    let values = [1.0, 10.0, 100.0, 1000.0];
    weights.iter().zip(values).map(|(w, v)| w * v).sum::<f64>() / weights.iter().sum::<f64>()
}

fn masked_attention(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let got = attended(bench, 1, Some([false, false, true, true]), AttentionModuleOptions::default())?;
    seen.vector("value", &got, &[mixed(&[1.0, 2.0])]);
    Ok(())
}

fn capped_attention(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let got = attended(bench, 1, None, AttentionModuleOptions { softcap: Some(2.0), ..AttentionModuleOptions::default() })?;
    let scores = [1.0, 2.0, 3.0, 4.0].map(|s: f64| 2.0 * (s / 2.0).tanh());
    seen.vector("value", &got, &[mixed(&scores)]);
    Ok(())
}

fn causal_attention(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let got = attended(bench, 2, None, AttentionModuleOptions { is_causal: true, ..AttentionModuleOptions::default() })?;
    seen.vector("value", &got, &[mixed(&[1.0, 2.0, 3.0]), mixed(&[1.0, 2.0, 3.0, 4.0])]);
    Ok(())
}

fn all_of_a_row(bench: &Bench<'_>, seen: &mut Compare) -> Step {
    let x: Tensor<2> = bench.constant(&[0.5, 2.0, -1.0, 1.5, 0.0, 4.0], [2, 3]);
    seen.vector("value", &to_host(x.topk(3, 1), "largest")?, &[2.0, 0.5, -1.0, 4.0, 1.5, 0.0]);
    Ok(())
}
