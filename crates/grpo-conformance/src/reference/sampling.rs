//! The sampling filters, one after the other.

use crate::cases::SamplingCase;

/// The probabilities of row `row` after the filters, and which tokens are left.
pub(crate) fn filter(case: &SamplingCase, row: usize) -> (Vec<f64>, Vec<bool>) {
    let mut z = case.logits.row(row).to_vec();
    let mut penalised = vec![false; z.len()];
    for &id in &case.previous_ids[row] {
        let id = id as usize;
        if !std::mem::replace(&mut penalised[id], true) {
            z[id] = if z[id] < 0.0 { z[id] * case.repetition_penalty } else { z[id] / case.repetition_penalty };
        }
    }
    z.iter_mut().for_each(|l| *l /= case.temperature);
    let mut kept = vec![true; z.len()];
    if case.top_k > 0 {
        let mut sorted = z.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let least = sorted[case.top_k.min(sorted.len()) - 1];
        kept.iter_mut().zip(&z).for_each(|(k, l)| *k &= *l >= least);
    }
    if case.top_p < 1.0 {
        // Upwards from the least likely: a token goes while the mass so far is at most 1 − p; the most likely one stays.
        let p = softmax(&z, &kept);
        let mut order: Vec<usize> = (0..z.len()).collect();
        order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
        let mut mass = 0.0;
        for &token in &order[..order.len() - 1] {
            mass += p[token];
            if mass <= 1.0 - case.top_p {
                kept[token] = false;
            }
        }
    }
    if case.min_p > 0.0 {
        let p = softmax(&z, &kept);
        let best = p.iter().copied().fold(0.0, f64::max);
        kept.iter_mut().zip(&p).for_each(|(k, p)| *k &= *p >= case.min_p * best);
    }
    (softmax(&z, &kept), kept)
}

fn softmax(z: &[f64], kept: &[bool]) -> Vec<f64> {
    let left = || z.iter().zip(kept).filter(|(_, k)| **k).map(|(l, _)| *l);
    let max = left().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = left().map(|l| (l - max).exp()).sum();
    z.iter().zip(kept).map(|(l, k)| if *k { (l - max).exp() / total } else { 0.0 }).collect()
}
