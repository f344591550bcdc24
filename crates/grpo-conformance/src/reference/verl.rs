//! The losses of the convention `verl`.

use std::collections::BTreeMap;

use super::{Data, Dual, Loss, need};
use crate::cases::{Aggregate, PolicyLoss, VerlParams};

/// Log-ratios are clamped to ± this where r is used; beyond, the gradient is 0.
const BOUND: f64 = 20.0;
/// Added to counts that are divided by.
const TINY: f64 = 1e-8;

/// One counted token.
struct Token {
    row: usize,
    logp: Dual,
    /// x = log π − log π_old, not clamped.
    x: Dual,
    advantage: f64,
}

/// The loss.
pub(crate) fn loss(kind: PolicyLoss, p: &VerlParams, data: &Data<'_>, logp: &[Dual]) -> Result<Loss, String> {
    let mask = data.mask;
    let tokens: Vec<Token> = mask
        .places()
        .map(|(row, col)| Token {
            row,
            logp: logp[row * mask.cols + col],
            x: data.log_ratio(logp, row, col),
            advantage: data.token_advantages.map_or(data.advantages[row], |a| a.at(row, col)),
        })
        .collect();
    let lengths: Vec<usize> = (0..mask.rows).map(|row| mask.counted(row).count()).collect();
    let count = tokens.len() as f64 + TINY;
    let mut metrics = BTreeMap::new();
    let ppo_kl = tokens.iter().map(|t| -t.x.clamp(-BOUND, BOUND).value).sum::<f64>() / count;
    let (mut clipped, mut cut) = (0.0, 0.0);
    let per_token: Vec<Dual> = match kind {
        PolicyLoss::GeoMean => return geo_mean(p, &tokens, &lengths),
        // max(−A·r, −A·clip(r)); where A < 0 at most −A·c.
        PolicyLoss::Vanilla => {
            let c = need(p.clip_ratio_c, "clip_ratio_c")?;
            let clip = clip_range(p)?;
            let term = |t: &Token| {
                let (larger, was_clipped) = clipped_term(t.x.clamp(-BOUND, BOUND).exp(), t.advantage, clip);
                clipped += was_clipped;
                let cap = Dual::constant(-t.advantage * c);
                if t.advantage < 0.0 {
                    cut += if larger.value > cap.value { 1.0 } else { 0.0 };
                    larger.min(cap)
                } else {
                    larger
                }
            };
            tokens.iter().map(term).collect()
        }
        // s = exp(const(mean x of the row) + log π − const(log π)), the exponent at most 10: the row's value, the token's gradient.
        PolicyLoss::Gspo => {
            let clip = clip_range(p)?;
            let mut mean = vec![0.0; mask.rows];
            for t in &tokens {
                mean[t.row] += t.x.value / lengths[t.row] as f64;
            }
            let term = |t: &Token| {
                let s = (Dual::constant(mean[t.row]) + t.logp - t.logp.held()).min(Dual::constant(10.0)).exp();
                let (larger, was_clipped) = clipped_term(s, t.advantage, clip);
                clipped += was_clipped;
                larger
            };
            tokens.iter().map(term).collect()
        }
        // −A · 4/τ · σ(τ·(r − 1))
        PolicyLoss::Sapo => {
            let (pos, neg) = (need(p.tau_pos, "tau_pos")?, need(p.tau_neg, "tau_neg")?);
            let term = |t: &Token| {
                let tau = if t.advantage > 0.0 { pos } else { neg };
                -((t.x.clamp(-BOUND, BOUND).exp() - 1.0) * tau).sigmoid() * (4.0 / tau * t.advantage)
            };
            tokens.iter().map(term).collect()
        }
        // −const(clip(r))·A·log π: two-sided, offsets from 1.
        PolicyLoss::Cispo => {
            let (low, high) = clip_range(p)?;
            let term = |t: &Token| {
                let r = t.x.value.clamp(-BOUND, BOUND).exp();
                let weight = r.clamp(1.0 - low, 1.0 + high);
                clipped += if weight == r { 0.0 } else { 1.0 };
                -t.logp * (weight * t.advantage)
            };
            tokens.iter().map(term).collect()
        }
        // −A·log π
        PolicyLoss::Gpg => tokens.iter().map(|t| -t.logp * t.advantage).collect(),
        // −(A·log π − β/2·x²)
        PolicyLoss::Dro => {
            let beta = need(p.dro_beta, "dro_beta")?;
            tokens.iter().map(|t| t.x * t.x * (beta / 2.0) - t.logp * t.advantage).collect()
        }
    };
    metrics.insert("ppo_kl", ppo_kl);
    metrics.insert("pg_clipfrac", clipped / count);
    metrics.insert("pg_clipfrac_lower", cut / count);
    let loss = aggregate(p, mask.cols, &tokens, &per_token, &lengths)?;
    Ok(Loss { loss, metrics })
}

fn clip_range(p: &VerlParams) -> Result<(f64, f64), String> {
    Ok((need(p.clip_ratio_low, "clip_ratio_low")?, need(p.clip_ratio_high, "clip_ratio_high")?))
}

/// The larger of −A·r and −A·clip(r), and 1 where that is the clipped one.
fn clipped_term(ratio: Dual, a: f64, (low, high): (f64, f64)) -> (Dual, f64) {
    let (plain, clipped) = (-ratio * a, -ratio.clamp(1.0 - low, 1.0 + high) * a);
    (plain.max(clipped), if clipped.value > plain.value { 1.0 } else { 0.0 })
}

/// −exp(Σ q / (L + 1e-8)) · mean A, averaged over rows: q is x clipped on the side where the sign of A would push it.
fn geo_mean(p: &VerlParams, tokens: &[Token], lengths: &[usize]) -> Result<Loss, String> {
    let (low, high) = clip_range(p)?;
    let mut total = Dual::ZERO;
    for (row, &length) in lengths.iter().enumerate() {
        let length = length as f64 + TINY;
        let (mut q, mut advantage) = (Dual::ZERO, 0.0);
        for t in tokens.iter().filter(|t| t.row == row) {
            let clipped = t.x.clamp(-low, high);
            // sgn(A) · min(sgn(A) · x, sgn(A) · clip(x)): token by token, and nothing where A is 0.
            if t.advantage > 0.0 {
                q = q + t.x.min(clipped);
            } else if t.advantage < 0.0 {
                q = q + t.x.max(clipped);
            }
            advantage += t.advantage;
        }
        total = total - (q / length).exp() * (advantage / length);
    }
    Ok(Loss { loss: total / lengths.len() as f64, metrics: BTreeMap::new() })
}

/// From tokens to one number. Only `seq-…` modes look at rows, and only at those that have tokens.
fn aggregate(p: &VerlParams, cols: usize, tokens: &[Token], per_token: &[Dual], lengths: &[usize]) -> Result<Dual, String> {
    let total: Dual = per_token.iter().copied().sum();
    let rows = lengths.iter().filter(|l| **l > 0).count().max(1) as f64;
    Ok(match p.loss_agg_mode {
        Aggregate::TokenMean => total / (tokens.len().max(1) as f64),
        Aggregate::TokenSum => total,
        Aggregate::SeqMeanTokenSum => total / rows,
        Aggregate::SeqMeanTokenMean => tokens.iter().zip(per_token).map(|(t, &l)| l / (lengths[t.row] as f64 + TINY)).sum::<Dual>() / rows,
        Aggregate::SeqMeanTokenSumNorm => total / (rows * p.loss_scale_factor.unwrap_or(cols as f64)),
        Aggregate::Sequences => return Err("`mean over sequences` belongs to geo_mean alone".to_owned()),
    })
}
