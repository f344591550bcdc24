//! Advantages from one number a token. Each function gives matrices like the mask, 0 where a token does not count.

use super::advantages::{mean, scalar};
use crate::cases::{Matrix, Method, ScalarParams, Singleton, TokenCase, TokenParams};

fn zeros(mask: &Matrix) -> Matrix {
    Matrix { data: vec![0.0; mask.data.len()], ..*mask }
}

/// One number a row, at each of its counted tokens.
fn spread(mask: &Matrix, rows: &[f64]) -> Matrix {
    let mut out = zeros(mask);
    for (row, col) in mask.places() {
        out.data[row * mask.cols + col] = rows[row];
    }
    out
}

/// Σ of a row's rewards.
fn scores(case: &TokenCase) -> Vec<f64> {
    (0..case.mask.rows).map(|row| case.mask.counted(row).map(|col| case.token_rewards.at(row, col)).sum()).collect()
}

/// (x − μ) / √(var + 1e-8) over counted tokens: μ and the raw variance are divided by (count + 1e-8), then n / (n − 1).
pub(crate) fn whiten(mask: &Matrix, x: &Matrix) -> Matrix {
    let values: Vec<f64> = mask.places().map(|(row, col)| x.at(row, col)).collect();
    let (n, count) = (values.len() as f64, values.len() as f64 + 1e-8);
    let mu = values.iter().sum::<f64>() / count;
    let var = values.iter().map(|v| (v - mu) * (v - mu)).sum::<f64>() / count * (n / (n - 1.0));
    let mut out = zeros(mask);
    for (row, col) in mask.places() {
        out.data[row * mask.cols + col] = (x.at(row, col) - mu) / (var + 1e-8).sqrt();
    }
    out
}

/// δ = r + γ V′ − V, a = δ + γ λ a′, backwards over counted tokens: advantages before whitening, and returns a + V.
pub(crate) fn gae(case: &TokenCase, p: &TokenParams) -> (Matrix, Matrix) {
    let mask = &case.mask;
    let (mut advantages, mut returns) = (zeros(mask), zeros(mask));
    for row in 0..mask.rows {
        let (mut next_value, mut next) = (0.0, 0.0);
        for col in mask.counted(row).collect::<Vec<_>>().into_iter().rev() {
            let value = case.values.at(row, col);
            let delta = case.token_rewards.at(row, col) + p.gamma * next_value - value;
            let a = delta + p.gamma * p.lambda * next;
            advantages.data[row * mask.cols + col] = a;
            returns.data[row * mask.cols + col] = a + value;
            (next_value, next) = (value, a);
        }
    }
    (advantages, returns)
}

/// R_t = r_t + γ R_{t+1} over counted tokens.
pub(crate) fn returns(case: &TokenCase, gamma: f64) -> Matrix {
    let mask = &case.mask;
    let mut out = zeros(mask);
    for row in 0..mask.rows {
        let mut later = 0.0;
        for col in mask.counted(row).collect::<Vec<_>>().into_iter().rev() {
            later = case.token_rewards.at(row, col) + gamma * later;
            out.data[row * mask.cols + col] = later;
        }
    }
    out
}

/// Row sum − group mean, spread over the tokens, whitened over all of them.
pub(crate) fn reinforce_baseline(case: &TokenCase, p: &TokenParams) -> Matrix {
    let sums = scores(case);
    let centred = sums.chunks(case.group_size).flat_map(|group| {
        let raw = group.len() == 1 && p.singleton == Singleton::Raw;
        let baseline = if raw { 0.0 } else { mean(group) };
        group.iter().map(move |r| r - baseline).collect::<Vec<_>>()
    });
    let centred: Vec<f64> = centred.collect();
    whiten(&case.mask, &spread(&case.mask, &centred))
}

/// Row sum − Σ_j L_j R_j / Σ_j L_j. A group of one keeps its sum.
pub(crate) fn opo(case: &TokenCase) -> Matrix {
    let sums = scores(case);
    let mut rows = Vec::with_capacity(sums.len());
    for (g, group) in sums.chunks(case.group_size).enumerate() {
        let length = |k: usize| case.mask.counted(g * case.group_size + k).count() as f64;
        let lengths: f64 = (0..group.len()).map(length).sum();
        let weighted: f64 = group.iter().enumerate().map(|(k, r)| length(k) * r).sum();
        let baseline = if group.len() == 1 { 0.0 } else { weighted / lengths };
        rows.extend(group.iter().map(|r| r - baseline));
    }
    spread(&case.mask, &rows)
}

/// R_t − the row's baseline, undiscounted.
pub(crate) fn remax(case: &TokenCase) -> (Matrix, Matrix) {
    let returns = returns(case, 1.0);
    let mut advantages = returns.clone();
    for (row, col) in case.mask.places() {
        advantages.data[row * case.mask.cols + col] -= case.remax_baseline[row];
    }
    (advantages, returns)
}

/// Row sums through `grpo`, spread over the tokens.
pub(crate) fn grpo(case: &TokenCase, p: &TokenParams) -> Matrix {
    let params = ScalarParams { scale: p.scale, eps: p.eps, ddof: p.ddof, singleton: p.singleton, normalize_by_std: false };
    spread(&case.mask, &scalar(Method::Grpo, &params, &scores(case), case.group_size))
}
