//! Advantages from one number a completion.

use crate::cases::{Aggregation, Ddof, Method, MultiCase, MultiParams, ScalarParams, Scale, Singleton};

/// Σ v / n
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// √(Σ (v − mean)² / (n − ddof)); 0 where that is undefined.
fn std(values: &[f64], ddof: Ddof) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let divisor = values.len() as f64 - f64::from(ddof.0);
    if divisor > 0.0 { (squares / divisor).sqrt() } else { 0.0 }
}

/// Rounding makes unequal numbers of equal ones: (0.1 + 0.2) and 0.3.
fn all_equal(values: &[f64]) -> bool {
    values.iter().all(|v| (v - values[0]).abs() <= 4.0 * f64::EPSILON * values[0].abs())
}

/// What a method gives for rewards that stand group after group.
pub(crate) fn scalar(method: Method, p: &ScalarParams, rewards: &[f64], group_size: usize) -> Vec<f64> {
    let everything = std(rewards, p.ddof);
    let per_group = |group: &[f64]| match method {
        Method::Grpo => grpo(group, p, everything),
        Method::DrGrpo => grpo(group, &ScalarParams { scale: Scale::None, ..*p }, everything),
        Method::Rloo => rloo(group, p.singleton),
        Method::PassAtK => pass_at_k(group, p),
    };
    rewards.chunks(group_size).flat_map(per_group).collect()
}

/// (r − mean) / (std + ε)
fn grpo(group: &[f64], p: &ScalarParams, everything: f64) -> Vec<f64> {
    let raw = group.len() == 1 && p.singleton == Singleton::Raw;
    if !raw && all_equal(group) {
        return vec![0.0; group.len()];
    }
    let (mean, std) = if raw { (0.0, 1.0) } else { (mean(group), if p.scale == Scale::Batch { everything } else { std(group, p.ddof) }) };
    let divisor = if p.scale == Scale::None { 1.0 } else { std + p.eps };
    group.iter().map(|r| (r - mean) / divisor).collect()
}

/// r − mean of the others
fn rloo(group: &[f64], singleton: Singleton) -> Vec<f64> {
    let others = group.len() as f64 - 1.0;
    if others == 0.0 {
        return vec![if singleton == Singleton::Raw { group[0] } else { 0.0 }];
    }
    let total: f64 = group.iter().sum();
    group.iter().map(|r| r - (total - r) / others).collect()
}

/// The best gets (best − second) [/ (std + ε)], all others 0.
fn pass_at_k(group: &[f64], p: &ScalarParams) -> Vec<f64> {
    let mut order: Vec<usize> = (0..group.len()).collect();
    order.sort_by(|&a, &b| group[b].total_cmp(&group[a]));
    let mut advantages = vec![0.0; group.len()];
    if let [best, second, ..] = order[..] {
        let divisor = if p.normalize_by_std { std(group, p.ddof) + p.eps } else { 1.0 };
        advantages[best] = (group[best] - group[second]) / divisor;
    }
    advantages
}

/// Several reward functions.
pub(crate) fn multi(aggregation: Aggregation, p: &MultiParams, case: &MultiCase) -> Vec<f64> {
    match aggregation {
        Aggregation::SumThenNormalize => sum_then_normalize(p, case),
        Aggregation::NormalizeThenSum => normalize_then_sum(p, case),
    }
}

/// Σ_f w_f r_f over what is there, then `grpo`; a row where nothing is there stays out and has 0.
fn sum_then_normalize(p: &MultiParams, case: &MultiCase) -> Vec<f64> {
    let sum = |row: &Vec<Option<f64>>| {
        let terms: Vec<f64> = row.iter().zip(&case.weights).filter_map(|(r, w)| r.map(|r| r * w)).collect();
        if terms.is_empty() { None } else { Some(terms.iter().sum::<f64>()) }
    };
    let sums: Vec<Option<f64>> = case.rewards.iter().map(sum).collect();
    let everything = std(&sums.iter().flatten().copied().collect::<Vec<_>>(), p.ddof);
    let params = ScalarParams { scale: p.scale, eps: p.eps, ddof: p.ddof, singleton: Singleton::Zero, normalize_by_std: false };
    let per_group = |group: &[Option<f64>]| {
        let present: Vec<f64> = group.iter().flatten().copied().collect();
        let mut advantages = if present.is_empty() { vec![] } else { grpo(&present, &params, everything) }.into_iter();
        group.iter().map(|r| r.and_then(|_| advantages.next()).unwrap_or(0.0)).collect::<Vec<_>>()
    };
    sums.chunks(case.group_size).flat_map(per_group).collect()
}

/// Each function normalised in its group, Σ_f w_f of that, then (sum − mean) / (std + ε) over the whole case.
fn normalize_then_sum(p: &MultiParams, case: &MultiCase) -> Vec<f64> {
    let mut sums = vec![0.0; case.rewards.len()];
    for (f, weight) in case.weights.iter().enumerate() {
        for (g, group) in case.rewards.chunks(case.group_size).enumerate() {
            let present: Vec<f64> = group.iter().filter_map(|row| row[f]).collect();
            // The std of fewer than two is undefined: the function drops out of this group.
            if present.len() < 2 {
                continue;
            }
            let (mean, std) = (mean(&present), std(&present, p.ddof));
            for (k, row) in group.iter().enumerate() {
                sums[g * case.group_size + k] += row[f].map_or(0.0, |r| weight * (r - mean) / (std + p.eps));
            }
        }
    }
    // A row where everything is missing takes no part.
    let scored = |i: &usize| case.rewards[*i].iter().any(Option::is_some);
    let present: Vec<f64> = (0..sums.len()).filter(scored).map(|i| sums[i]).collect();
    let (mean, std) = (mean(&present), std(&present, p.ddof));
    (0..sums.len()).map(|i| if scored(&i) { (sums[i] - mean) / (std + p.eps) } else { 0.0 }).collect()
}
