//! The filters between logits and a draw: repetition penalty, temperature, top-k, top-p, min-p, in this order. Host arithmetic in f64.

use crate::error::{Error, Result};
use crate::sampler::SamplingParams;
use crate::token::TokenId;

/// What is drawn from after the filters.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Filtered {
    /// `[V]`: the probability of each token, 0 where a filter excluded it. They add up to 1.
    pub probs: Vec<f64>,
}

/// Filters one row of logits z and renormalises what is left.
///
/// | filter | formula |
/// |---|---|
/// | repetition penalty ρ | z_v / ρ where z_v > 0, z_v · ρ where z_v < 0, once for each token of `previous` |
/// | temperature T | softmax(z / T); T = 0: the most likely token, the first of equals |
/// | top-k | tokens no less likely than the k-th; ties of the k-th stay |
/// | top-p | the smallest set of likeliest tokens whose mass reaches p, counted after top-k |
/// | min-p | tokens of at least p times the likeliest one's probability |
///
/// At least one token stays. Logits `[V]` may be −∞ (illegal actions): their probability is 0. Without filters the cost is one `exp` a token;
/// top-k and top-p select, they sort no more than they keep.
///
/// ```
/// use grpo_core::{SamplingParams, filter};
/// let params = SamplingParams { top_p: 0.6, ..SamplingParams::default() };
/// let filtered = filter(&[0.6f64.ln(), 0.3f64.ln(), 0.1f64.ln()], &[], &params)?;
/// assert_eq!(filtered.probs, [1.0, 0.0, 0.0]); // 0.6 reaches 0.6: the second token is not needed
/// # Ok::<(), grpo_core::Error>(())
/// ```
///
/// # Errors
/// Parameters out of range; no logit; a logit that is NaN or +∞; no logit above −∞; a previous token outside the vocabulary.
///
/// # Source
/// The order and the edges are those of `transformers`' logits processors.
pub fn filter<L: Copy + Into<f64>>(logits: &[L], previous: &[TokenId], params: &SamplingParams) -> Result<Filtered> {
    params.validate()?;
    let mut z: Vec<f64> = logits.iter().map(|&l| l.into()).collect(); // [V]
    if let Some((token, bad)) = z.iter().enumerate().find(|(_, l)| l.is_nan() || **l == f64::INFINITY) {
        return Err(Error::invalid("logits", format!("token {token} has {bad}, must be finite or -inf")));
    }
    if params.repetition_penalty != 1.0 {
        for &token in previous {
            let index = token as usize;
            let Some(&logit) = logits.get(index) else {
                return Err(Error::invalid("previous token", format!("{token}, must be below the vocabulary's {}", logits.len())));
            };
            // From the logit as it was given: a token that stands there twice is penalised once.
            let logit: f64 = logit.into();
            z[index] = if logit < 0.0 { logit * params.repetition_penalty } else { logit / params.repetition_penalty };
        }
    }
    let (best, max) = z.iter().enumerate().fold((0, f64::NEG_INFINITY), |top, (i, &l)| if l > top.1 { (i, l) } else { top });
    if max == f64::NEG_INFINITY {
        return Err(Error::invalid("logits", "none is above -inf, must be at least one"));
    }
    if params.temperature == 0.0 {
        let mut probs = vec![0.0; z.len()];
        probs[best] = 1.0;
        return Ok(Filtered { probs });
    }
    let least = params.top_k.map_or(f64::NEG_INFINITY, |k| kth_largest(&z, k));
    let mut probs = z; // [V]: relative to the most likely token's, which is 1
    for p in &mut probs {
        *p = if *p < least { 0.0 } else { ((*p - max) / params.temperature).exp() };
    }
    if params.top_p < 1.0 {
        keep_mass(&mut probs, params.top_p);
    }
    if params.min_p > 0.0 {
        probs.iter_mut().filter(|p| **p < params.min_p).for_each(|p| *p = 0.0);
    }
    let total: f64 = probs.iter().sum();
    probs.iter_mut().for_each(|p| *p /= total);
    Ok(Filtered { probs })
}

/// The k-th largest value, k ≥ 1; −∞ where there are no more than k.
fn kth_largest(values: &[f64], k: usize) -> f64 {
    if k >= values.len() {
        return f64::NEG_INFINITY;
    }
    let mut values = values.to_vec();
    *values.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
}

/// Sets to 0 what is not in the smallest set of largest weights that reaches the share `p` of their sum.
fn keep_mass(weights: &mut [f64], p: f64) {
    let wanted = p * weights.iter().sum::<f64>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let descending = |&a: &usize, &b: &usize| weights[b].total_cmp(&weights[a]).then(a.cmp(&b));
    // A few tokens hold most of the mass: find a head that reaches it, by doubling, and sort only that.
    let mut head = order.len().min(64);
    loop {
        if head < order.len() {
            order.select_nth_unstable_by(head - 1, descending);
        }
        if head == order.len() || order[..head].iter().map(|&i| weights[i]).sum::<f64>() >= wanted {
            break;
        }
        head = (head * 8).min(order.len());
    }
    order[..head].sort_unstable_by(descending);
    let mut mass = 0.0;
    let mut kept = head;
    for (rank, &index) in order[..head].iter().enumerate() {
        if mass >= wanted {
            kept = rank;
            break;
        }
        mass += weights[index];
    }
    // The likeliest token always stays, however small p is.
    order[kept.max(1)..].iter().for_each(|&index| weights[index] = 0.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probs(logits: &[f64], previous: &[TokenId], params: SamplingParams) -> Vec<f64> {
        filter(logits, previous, &params).unwrap().probs
    }

    fn logs(p: &[f64]) -> Vec<f64> {
        p.iter().map(|p| p.ln()).collect()
    }

    #[test]
    fn without_filters_it_is_the_softmax_at_the_temperature() {
        let p = probs(&[0.0, 2.0 * 3f64.ln()], &[], SamplingParams { temperature: 2.0, ..SamplingParams::default() });
        assert!((p[0] - 0.25).abs() < 1e-15 && (p[1] - 0.75).abs() < 1e-15);
    }

    #[test]
    fn temperature_zero_gives_all_to_the_first_of_the_likeliest() {
        assert_eq!(probs(&[1.0, 3.0, 3.0], &[], SamplingParams::default().greedy()), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn a_token_that_was_said_twice_is_penalised_once_and_away_from_zero_on_either_side() {
        let params = SamplingParams { repetition_penalty: 2.0, ..SamplingParams::default() };
        let p = probs(&[2.0, -1.0, 0.0], &[0, 0, 1], params);
        assert!(((p[0] / p[2]).ln() - 1.0).abs() < 1e-12 && ((p[1] / p[2]).ln() + 2.0).abs() < 1e-12);
    }

    #[test]
    fn top_k_keeps_ties_of_the_kth() {
        let p = probs(&[1.0, 2.0, 1.0, 0.0], &[], SamplingParams { top_k: Some(2), ..SamplingParams::default() });
        assert!(p[0] > 0.0 && p[0] == p[2] && p[3] == 0.0);
        assert_eq!(
            probs(&[1.0, 2.0], &[], SamplingParams { top_k: Some(9), ..SamplingParams::default() }).iter().filter(|p| **p > 0.0).count(),
            2
        );
    }

    #[test]
    fn top_p_counts_the_mass_that_top_k_left() {
        let params = SamplingParams { top_k: Some(2), top_p: 0.7, ..SamplingParams::default() };
        // Of 0.4, 0.1 the first holds 0.8: alone it reaches 0.7, though of everything it is 0.4.
        assert_eq!(probs(&logs(&[0.1, 0.4, 0.1 - 1e-9, 0.1 - 1e-9]), &[], params), [0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn top_p_keeps_one_token_however_small_it_is_and_finds_a_long_head() {
        assert_eq!(probs(&[0.0, 1.0], &[], SamplingParams { top_p: 1e-9, ..SamplingParams::default() }), [0.0, 1.0]);
        let flat = vec![0.0; 1000];
        let p = probs(&flat, &[], SamplingParams { top_p: 0.5, ..SamplingParams::default() });
        assert_eq!(p.iter().filter(|p| **p > 0.0).count(), 500);
    }

    #[test]
    fn min_p_is_relative_to_the_likeliest() {
        let p = probs(&logs(&[0.5, 0.26, 0.24]), &[], SamplingParams { min_p: 0.5, ..SamplingParams::default() });
        assert!(p[1] > 0.0 && p[2] == 0.0);
    }

    #[test]
    fn illegal_actions_have_probability_zero_and_broken_logits_are_refused() {
        let params = SamplingParams::default();
        assert_eq!(probs(&[f64::NEG_INFINITY, 5.0], &[], params.clone()), [0.0, 1.0]);
        for bad in [vec![f32::NAN, 0.0], vec![f32::INFINITY], vec![f32::NEG_INFINITY; 2], vec![]] {
            assert!(filter(&bad, &[], &params).is_err(), "{bad:?}");
        }
        assert!(filter(&[0.0f32], &[1], &SamplingParams { repetition_penalty: 1.1, ..params }).is_err());
    }
}
