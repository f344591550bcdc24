//! The losses of the convention `trl`.

use super::{Data, Dual, Loss, need, share};
use crate::cases::{Level, LossType, Matrix, TrlParams};

/// One row: a completion.
struct Row<'a> {
    /// Columns that count, with x = log π − log π_old.
    tokens: Vec<(usize, Dual)>,
    logp: &'a [Dual],
    advantage: f64,
}

impl Row<'_> {
    /// exp(mean x): one ratio for all tokens.
    fn sequence_ratio(&self) -> Dual {
        let total: Dual = self.tokens.iter().map(|&(_, x)| x).sum();
        (total / self.tokens.len().max(1) as f64).exp()
    }

    /// w = Σ x, each x clamped to ±20, clamped to [ln 1e-8, 20]; φ = exp(λ + k·w − λ·eʷ).
    fn vespo_weight(&self, p: &TrlParams) -> Result<f64, String> {
        let (k, lambda) = if self.advantage >= 0.0 {
            (need(p.vespo_k_pos, "vespo_k_pos")?, need(p.vespo_lambda_pos, "vespo_lambda_pos")?)
        } else {
            (need(p.vespo_k_neg, "vespo_k_neg")?, need(p.vespo_lambda_neg, "vespo_lambda_neg")?)
        };
        let w = self.tokens.iter().map(|(_, x)| x.value.clamp(-20.0, 20.0)).sum::<f64>().clamp(1e-8f64.ln(), 20.0);
        Ok((lambda + k * w - lambda * w.exp()).exp())
    }

    /// The policy term of one token, and the ratio its clip counts look at.
    fn policy(&self, p: &TrlParams, col: usize, ratio: Dual, phi: f64) -> Result<(Dual, f64), String> {
        let a = self.advantage;
        Ok(match p.loss_type {
            // −min(min(r, δ)·A, clip(r, 1 − ε_low, 1 + ε_high)·A)
            LossType::Grpo | LossType::Bnpo | LossType::Dapo | LossType::DrGrpo | LossType::Luspo => {
                let (low, high) = (need(p.epsilon_low, "epsilon_low")?, need(p.epsilon_high, "epsilon_high")?);
                let capped = p.delta.map_or(ratio, |delta| ratio.min(Dual::constant(delta)));
                (-(capped * a).min(ratio.clamp(1.0 - low, 1.0 + high) * a), capped.value)
            }
            // −const(min(r, cap))·A·log π
            LossType::Cispo => {
                let cap = need(p.epsilon_high, "epsilon_high")?;
                (-self.logp[col] * (ratio.value.min(cap) * a), ratio.value)
            }
            // −A · 4/t · σ(t·(r − 1))
            LossType::Sapo => {
                let t = if a > 0.0 {
                    need(p.sapo_temperature_pos, "sapo_temperature_pos")?
                } else {
                    need(p.sapo_temperature_neg, "sapo_temperature_neg")?
                };
                (-((ratio - 1.0) * t).sigmoid() * (4.0 / t * a), ratio.value)
            }
            // −const(φ)·A·log π
            LossType::Vespo => (-self.logp[col] * (phi * a), ratio.value),
        })
    }
}

#[derive(Default)]
struct Counts {
    low: f64,
    high: f64,
    cispo: f64,
    kl: f64,
    phi: f64,
}

/// The loss. `kept` = 0 takes a token's policy term away (not its KL term, and not its place in a denominator).
pub(crate) fn loss(p: &TrlParams, data: &Data<'_>, logp: &[Dual], kept: Option<&Matrix>) -> Result<Loss, String> {
    let mask = data.mask;
    let beta = p.beta.unwrap_or(0.0);
    let mut counts = Counts::default();
    let mut per_row: Vec<(Dual, usize)> = Vec::with_capacity(mask.rows); // Σ of a row's tokens, L
    for i in 0..mask.rows {
        let tokens: Vec<(usize, Dual)> = mask.counted(i).map(|col| (col, data.log_ratio(logp, i, col))).collect();
        let row = Row { tokens, logp: &logp[i * mask.cols..(i + 1) * mask.cols], advantage: data.advantages[i] };
        let count = row.tokens.len();
        let phi = if p.loss_type == LossType::Vespo { row.vespo_weight(p)? } else { 0.0 };
        counts.phi += phi;
        let drift = row.tokens.iter().map(|(_, x)| -x.value).sum::<f64>() / count.max(1) as f64;
        let off_policy = p.off_policy_mask_threshold.is_some_and(|threshold| row.advantage < 0.0 && drift > threshold);
        let sequence = row.sequence_ratio();
        let mut sum = Dual::ZERO;
        for &(col, x) in &row.tokens {
            let ratio = if p.importance_sampling_level == Level::Sequence { sequence } else { x.exp() };
            let (policy, seen) = row.policy(p, col, ratio, phi)?;
            // A sequence's ratio is counted once for the sequence: here each of its L tokens counts 1/L.
            let weight = if p.importance_sampling_level == Level::Sequence { 1.0 / count as f64 } else { 1.0 };
            counts.add(p, row.advantage, seen, weight);
            if !off_policy && kept.is_none_or(|kept| kept.at(i, col) != 0.0) {
                sum = sum + policy;
            }
            if beta != 0.0 {
                let reference = data.reference.ok_or("beta is not 0, but there is no ref_logp")?;
                // k3 = eᵈ − d − 1 with d = log π_ref − log π; times r where its gradient is corrected.
                let d = Dual::constant(reference.at(i, col)) - row.logp[col];
                let k3 = d.exp() - d - 1.0;
                let kl = if p.use_bias_correction_kl { k3 * ratio } else { k3 };
                counts.kl += kl.value;
                sum = sum + kl * beta;
            }
        }
        per_row.push((sum, count));
    }
    let loss = reduce(p, &per_row)?;
    Ok(Loss { loss, metrics: counts.metrics(p, beta, mask) })
}

/// From sums of rows to one number.
fn reduce(p: &TrlParams, rows: &[(Dual, usize)]) -> Result<Dual, String> {
    let n = rows.len() as f64;
    let total: Dual = rows.iter().map(|(sum, _)| *sum).sum();
    let tokens = rows.iter().map(|(_, count)| count).sum::<usize>().max(1) as f64;
    let accumulation = p.gradient_accumulation_steps.unwrap_or(1.0);
    Ok(match p.loss_type {
        // Mean over the row's tokens, then over all rows, empty ones too.
        LossType::Grpo | LossType::Sapo => rows.iter().map(|&(sum, count)| sum / count.max(1) as f64).sum::<Dual>() / (n * accumulation),
        LossType::Bnpo => total / (tokens * accumulation),
        LossType::DrGrpo => total / (n * need(p.max_completion_length, "max_completion_length")? * accumulation),
        // A value of the row counts L times.
        LossType::Luspo => total / (n * accumulation),
        LossType::Dapo | LossType::Cispo | LossType::Vespo => total / need(p.num_items_in_batch, "num_items_in_batch")?,
    })
}

impl Counts {
    fn add(&mut self, p: &TrlParams, a: f64, ratio: f64, weight: f64) {
        let (low, high) = (p.epsilon_low.unwrap_or(f64::INFINITY), p.epsilon_high.unwrap_or(f64::INFINITY));
        self.low += if ratio < 1.0 - low && a < 0.0 { weight } else { 0.0 };
        self.high += if ratio > 1.0 + high && a > 0.0 { weight } else { 0.0 };
        self.cispo += if ratio > high && a > 0.0 { weight } else { 0.0 };
    }

    fn metrics(&self, p: &TrlParams, beta: f64, mask: &Matrix) -> std::collections::BTreeMap<&'static str, f64> {
        let tokens = mask.places().count();
        let things = if p.importance_sampling_level == Level::Sequence { mask.rows } else { tokens };
        let mut metrics = std::collections::BTreeMap::new();
        if beta != 0.0 {
            metrics.insert("kl", share(self.kl, tokens));
        }
        match p.loss_type {
            LossType::Cispo => {
                metrics.insert("cispo_clip_ratio", share(self.cispo, things));
            }
            LossType::Vespo => {
                metrics.insert("vespo/phi_seq_mean", share(self.phi, mask.rows));
            }
            LossType::Sapo => {}
            LossType::Grpo | LossType::Bnpo | LossType::Dapo | LossType::DrGrpo | LossType::Luspo => {
                metrics.insert("clip_ratio/low_mean", share(self.low, things));
                metrics.insert("clip_ratio/high_mean", share(self.high, things));
                metrics.insert("clip_ratio/region_mean", share(self.low + self.high, things));
            }
        }
        metrics
    }
}
