//! From logits to the distribution a token is drawn from.

use grpo_core::{SamplingParams, TokenId};

/// A distribution over the vocabulary after the filters.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The probability of each token; 0 for those that were filtered out.
    pub probs: Vec<f64>,
    /// Whether each token survived the filters.
    pub kept: Vec<bool>,
}

/// Applies the filters of `params` to a row of logits, in this order: repetition penalty, temperature, top-k, top-p, min-p.
///
/// - The penalty r divides the positive logits and multiplies the negative ones of every token in `previous`, once each.
/// - Then z / T. At T = 0 the likeliest token has probability 1, the lowest id on a tie, and the other filters do not matter.
/// - top-k keeps the k highest, and whatever ties with the last of them.
/// - top-p keeps the smallest set whose mass reaches p: from the least likely upwards, tokens go while their cumulative mass is at most
///   1 − p; at least one stays. On a tie the higher id goes first.
/// - min-p keeps tokens of at least that share of the likeliest one's probability.
///
/// Everything is in f64; the probabilities are the softmax over what is kept.
///
/// ```
/// use grpo_core::SamplingParams;
/// use grpo_lm::sampler::filter;
///
/// let logits = [0.0, 3f64.ln(), 4f64.ln()]; // probabilities 1/8, 3/8, 4/8
/// let params = SamplingParams { top_p: 0.5, ..SamplingParams::default() };
/// // The likeliest token alone reaches the mass of 0.5.
/// assert_eq!(filter(&logits, &[], &params).kept, [false, false, true]);
/// ```
pub fn filter(logits: &[f64], previous: &[TokenId], params: &SamplingParams) -> Distribution {
    let mut z = logits.to_vec();
    penalise(&mut z, previous, params.repetition_penalty);
    if params.temperature == 0.0 {
        let best = argmax(z.iter().copied());
        let kept: Vec<bool> = (0..z.len()).map(|id| id == best).collect();
        return Distribution { probs: kept.iter().map(|&k| f64::from(u8::from(k))).collect(), kept };
    }
    z.iter_mut().for_each(|z| *z /= params.temperature);
    let mut kept: Vec<bool> = z.iter().map(|&z| z > f64::NEG_INFINITY).collect();
    if let Some(k) = params.top_k.filter(|&k| k < z.len()) {
        let mut sorted = z.clone();
        let (_, &mut last, _) = sorted.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
        kept.iter_mut().zip(&z).for_each(|(kept, &z)| *kept &= z >= last);
    }
    if params.top_p < 1.0 {
        keep_mass(&mut kept, &z, params.top_p);
    }
    let probs = softmax(&z, &kept);
    if params.min_p > 0.0 {
        let low = params.min_p * probs.iter().copied().fold(0.0, f64::max);
        kept.iter_mut().zip(&probs).for_each(|(kept, &p)| *kept &= p >= low);
        let probs = softmax(&z, &kept);
        return Distribution { probs, kept };
    }
    Distribution { probs, kept }
}

fn penalise(z: &mut [f64], previous: &[TokenId], penalty: f64) {
    if penalty == 1.0 {
        return;
    }
    let mut ids: Vec<usize> = previous.iter().map(|&id| id as usize).filter(|&id| id < z.len()).collect();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        z[id] = if z[id] > 0.0 { z[id] / penalty } else { z[id] * penalty };
    }
}

fn keep_mass(kept: &mut [bool], z: &[f64], top_p: f64) {
    let probs = softmax(z, kept);
    let mut order: Vec<usize> = (0..z.len()).filter(|&id| kept[id]).collect();
    // The least likely first, and of equals the higher id.
    order.sort_unstable_by(|&a, &b| probs[a].total_cmp(&probs[b]).then(b.cmp(&a)));
    let mut mass = 0.0;
    // The last, the likeliest, always stays.
    for &id in order.iter().rev().skip(1).rev() {
        mass += probs[id];
        if mass > 1.0 - top_p {
            break;
        }
        kept[id] = false;
    }
}

fn softmax(z: &[f64], kept: &[bool]) -> Vec<f64> {
    let highest = z.iter().zip(kept).filter(|(_, kept)| **kept).map(|(&z, _)| z).fold(f64::NEG_INFINITY, f64::max);
    let mut probs: Vec<f64> = z.iter().zip(kept).map(|(&z, &kept)| if kept { (z - highest).exp() } else { 0.0 }).collect();
    let total: f64 = probs.iter().sum();
    probs.iter_mut().for_each(|p| *p /= total);
    probs
}

/// The position of the highest value, the first on a tie.
pub(super) fn argmax(values: impl Iterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (position, value) in values.enumerate() {
        if value > best.1 {
            best = (position, value);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probabilities(p: &[f64]) -> Vec<f64> {
        p.iter().map(|p| p.ln()).collect()
    }

    #[test]
    fn the_penalty_counts_a_token_once_and_pushes_down_whatever_its_sign() {
        let params = SamplingParams { repetition_penalty: 2.0, ..SamplingParams::default() };
        let d = filter(&[2.0, -1.0, 1.0], &[0, 0, 1], &params);
        let expected = softmax(&[1.0, -2.0, 1.0], &[true; 3]);
        assert_eq!(d.probs, expected);
    }

    #[test]
    fn top_k_then_top_p_then_min_p() {
        let logits = probabilities(&[0.4, 0.3, 0.2, 0.1]);
        let top_k = SamplingParams { top_k: Some(3), ..SamplingParams::default() };
        assert_eq!(filter(&logits, &[], &top_k).kept, [true, true, true, false]);
        // Among 4/9, 3/9, 2/9 the last goes: 2/9 ≤ 1 − 0.7; 5/9 would not.
        let top_p = SamplingParams { top_p: 0.7, ..top_k.clone() };
        assert_eq!(filter(&logits, &[], &top_p).kept, [true, true, false, false]);
        let min_p = SamplingParams { min_p: 0.8, ..top_p };
        let d = filter(&logits, &[], &min_p);
        assert_eq!(d.kept, [true, false, false, false]);
        assert_eq!(d.probs, [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn greedy_takes_the_lowest_id_of_equals() {
        let params = SamplingParams::default().greedy();
        assert_eq!(filter(&[1.0, 5.0, 5.0], &[], &params).kept, [false, true, false]);
    }
}
