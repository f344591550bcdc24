//! log p_v = z_v / T − log Σ_u exp(z_u / T), and what follows from it.

use super::{Data, Dual, Loss, trl};
use crate::cases::{LogitsCase, LogitsResult, Matrix};

/// log p of one row.
pub(crate) fn log_softmax(logits: &[Dual], temperature: f64) -> Vec<Dual> {
    let z: Vec<Dual> = logits.iter().map(|&l| l / temperature).collect();
    let max = z.iter().fold(f64::NEG_INFINITY, |m, l| m.max(l.value));
    let total: Dual = z.iter().map(|&l| (l - max).exp()).sum();
    let log_total = total.ln() + max;
    z.into_iter().map(|l| l - log_total).collect()
}

/// H = −Σ_v p_v log p_v. Where p_v underflows to 0, the term is 0.
pub(crate) fn entropy(log_probs: &[Dual]) -> Dual {
    -log_probs.iter().map(|&lp| lp.exp() * lp).sum::<Dual>()
}

/// log p of every action and the entropy of every row.
pub(crate) fn score(case: &LogitsCase, logits: &[Dual]) -> (Vec<Dual>, Vec<Dual>) {
    let [rows, cols, depth] = case.logits.shape();
    (0..rows * cols)
        .map(|place| {
            let log_probs = log_softmax(&logits[place * depth..(place + 1) * depth], case.temperature);
            (log_probs[case.action(place / cols, place % cols)], entropy(&log_probs))
        })
        .unzip()
}

/// Σ over counted tokens.
pub(crate) fn masked_sum(mask: &Matrix, values: &[Dual]) -> Dual {
    mask.places().map(|(row, col)| values[row * mask.cols + col]).sum()
}

/// 1 for tokens whose entropy is at least the (1 − q) quantile, linearly interpolated, of all counted entropies.
pub(crate) fn top_entropy_mask(mask: &Matrix, entropies: &[f64], q: f64) -> Matrix {
    let at = |(row, col): (usize, usize)| entropies[row * mask.cols + col];
    let mut counted: Vec<f64> = mask.places().map(at).collect();
    counted.sort_by(f64::total_cmp);
    let position = (1.0 - q) * (counted.len().max(1) - 1) as f64;
    let (low, high) = (position.floor() as usize, position.ceil() as usize);
    let threshold = counted.get(low).zip(counted.get(high)).map_or(0.0, |(l, h)| l + (h - l) * (position - low as f64));
    let mut kept = Matrix { data: vec![0.0; mask.data.len()], ..*mask };
    for (row, col) in mask.places().filter(|&place| at(place) >= threshold) {
        kept.data[row * mask.cols + col] = 1.0;
    }
    kept
}

/// A whole loss of the convention `trl` from logits: the loss from log-probabilities, minus coef · mean entropy.
pub(crate) fn loss(case: &LogitsCase, result: &LogitsResult, logits: &[Dual]) -> Result<Loss, String> {
    let (logp, entropies) = score(case, logits);
    let data = Data {
        old: Some(&case.old_logp),
        reference: Some(&case.ref_logp),
        mask: &case.mask,
        advantages: &case.advantages,
        token_advantages: None,
    };
    let quantile = result.params.top_entropy_quantile.filter(|q| *q < 1.0);
    let kept = quantile.map(|q| top_entropy_mask(&case.mask, &entropies.iter().map(|h| h.value).collect::<Vec<_>>(), q));
    let mut out = trl::loss(&result.params, &data, &logp, kept.as_ref())?;
    if let Some(coefficient) = result.params.entropy_coef {
        let count = case.mask.places().count().max(1) as f64;
        out.loss = out.loss - masked_sum(&case.mask, &entropies) * (coefficient / count);
    }
    Ok(out)
}
