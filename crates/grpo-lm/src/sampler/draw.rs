//! One token from one row of logits.

use grpo_core::{LogProbKind, SamplingParams, TokenId, filter};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};

/// A drawn token and its log-probability over the whole vocabulary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drawn {
    pub(super) token: TokenId,
    pub(super) log_prob: f32,
}

/// What the stored log-probabilities mean under these parameters: log softmax(z / T), or log softmax(z) where the draw is greedy.
/// Filters change what is drawn, never what is stored.
pub(super) fn kind(params: &SamplingParams) -> LogProbKind {
    if params.temperature == 0.0 { LogProbKind::Raw } else { LogProbKind::Tempered }
}

/// Draws from a row of logits. `previous` is everything before the token, and is read only under a repetition penalty.
pub(super) fn draw(
    logits: &[f32],
    previous: impl FnOnce() -> Vec<TokenId>,
    params: &SamplingParams,
    rng: &mut ChaCha8Rng,
) -> Result<Drawn> {
    let greedy = params.temperature == 0.0;
    let scale = if greedy { 1.0 } else { params.temperature.recip() };
    let row = Row::new(logits, scale)?;
    let token = if params.is_truncating() {
        let previous = if params.repetition_penalty == 1.0 { Vec::new() } else { previous() };
        let probs = filter(logits, &previous, params)?.probs;
        // One uniform number a token, whatever the filters.
        pick(probs.iter().copied(), rng.random::<f64>())
    } else if greedy {
        argmax(logits)
    } else {
        row.pick(rng.random::<f64>() * row.total)
    };
    Ok(Drawn { token: token as TokenId, log_prob: row.log_prob(token) as f32 })
}

/// softmax(z·scale) of a row: the same distribution as [`filter`] gives without filters, at a fraction of its cost: single-precision
/// exponentials, and no list of probabilities.
struct Row<'a> {
    logits: &'a [f32],
    scale: f64,
    highest: f64,
    /// Σ exp(z·scale − highest)
    total: f64,
    /// The same for each chunk.
    chunks: Vec<f64>,
}

const CHUNK: usize = 256;

impl<'a> Row<'a> {
    fn new(logits: &'a [f32], scale: f64) -> Result<Self> {
        let highest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max)) * scale;
        let mut row = Self { logits, scale, highest, total: 0.0, chunks: Vec::with_capacity(logits.len().div_ceil(CHUNK)) };
        row.chunks.extend(logits.chunks(CHUNK).map(|chunk| chunk.iter().map(|&z| weight(z, scale, highest)).sum::<f64>()));
        row.total = row.chunks.iter().sum();
        // The highest logit has weight 1, so a total below 1 means that there is none; one NaN or +inf makes the total NaN.
        if row.total >= 1.0 {
            return Ok(row);
        }
        let problem = match logits.iter().position(|z| z.is_nan() || *z == f32::INFINITY) {
            Some(token) => format!("token {token} has {}, must be finite or -inf", logits[token]),
            None => "none is above -inf, must be at least one".to_owned(),
        };
        Err(Error::input("logits", problem))
    }

    fn weight(&self, token: usize) -> f64 {
        weight(self.logits[token], self.scale, self.highest)
    }

    fn log_prob(&self, token: usize) -> f64 {
        f64::from(self.logits[token]) * self.scale - self.highest - self.total.ln()
    }

    /// The first token at which the cumulative weight exceeds `target`.
    fn pick(&self, target: f64) -> usize {
        let mut left = target;
        let mut last = 0;
        for (number, (&sum, chunk)) in self.chunks.iter().zip(self.logits.chunks(CHUNK)).enumerate() {
            if left >= sum {
                left -= sum;
                continue;
            }
            for token in number * CHUNK..number * CHUNK + chunk.len() {
                let weight = self.weight(token);
                if weight > 0.0 {
                    last = token;
                }
                if left < weight {
                    return token;
                }
                left -= weight;
            }
            // Rounding: the chunk's sum was a little more than its parts one by one.
            return last;
        }
        argmax(self.logits)
    }
}

/// exp(z·scale − highest): the difference in f64, so that no digit is lost before the exponential.
fn weight(z: f32, scale: f64, highest: f64) -> f64 {
    f64::from(((f64::from(z) * scale - highest) as f32).exp())
}

/// The position of the highest logit, the first on a tie.
fn argmax(logits: &[f32]) -> usize {
    let mut best = (0, f32::NEG_INFINITY);
    for (position, &z) in logits.iter().enumerate() {
        if z > best.1 {
            best = (position, z);
        }
    }
    best.0
}

/// The first position at which the cumulative probability exceeds `target`. A position of probability 0 is never picked.
fn pick(probs: impl Iterator<Item = f64>, target: f64) -> usize {
    let mut left = target;
    let mut last = 0;
    for (position, p) in probs.enumerate() {
        if p > 0.0 {
            last = position;
        }
        if left < p {
            return position;
        }
        left -= p;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_core::stream;

    fn draws(logits: &[f32], params: &SamplingParams) -> Vec<Drawn> {
        let mut rng = stream(3, 0);
        (0..2000).map(|_| draw(logits, Vec::new, params, &mut rng).unwrap()).collect()
    }

    #[test]
    fn without_filters_it_draws_what_the_filtered_path_draws() {
        // Over several chunks, with tokens that are far too unlikely and tokens that cannot be.
        let logits: Vec<f32> =
            (0..700).map(|i| if i % 9 == 4 { f32::NEG_INFINITY } else { ((i * 37) % 101) as f32 * 0.4 - 20.0 }).collect();
        for temperature in [0.0, 0.5, 1.0, 3.0] {
            let plain = SamplingParams { temperature, ..SamplingParams::default() };
            let all_kept = SamplingParams { top_k: Some(700), ..plain.clone() };
            assert_eq!(draws(&logits, &plain), draws(&logits, &all_kept));
        }
    }

    #[test]
    fn log_probs_are_those_of_the_whole_row_whatever_the_filters() {
        let logits = [0f32, 3f32.ln(), 4f32.ln(), f32::NEG_INFINITY];
        let params = SamplingParams { top_k: Some(1), ..SamplingParams::default() };
        for drawn in draws(&logits, &params) {
            assert_eq!(drawn.token, 2);
            approx::assert_relative_eq!(drawn.log_prob, 0.5f32.ln(), epsilon = 1e-6);
        }
    }

    #[test]
    fn logits_that_nothing_can_be_drawn_from_are_errors_that_name_the_token() {
        let message = |logits: &[f32]| draw(logits, Vec::new, &SamplingParams::default(), &mut stream(3, 0)).unwrap_err().to_string();
        assert_eq!(message(&[0.0, f32::NAN]), "logits: token 1 has NaN, must be finite or -inf");
        assert_eq!(message(&[0.0, f32::INFINITY, 1.0]), "logits: token 1 has inf, must be finite or -inf");
        assert_eq!(message(&[f32::NEG_INFINITY; 2]), "logits: none is above -inf, must be at least one");
    }
}
