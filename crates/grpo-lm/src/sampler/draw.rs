//! One token from one row of logits.

use grpo_core::{LogProbKind, SamplingParams, TokenId};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::filter::{argmax, filter};

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
pub(super) fn draw(logits: &[f32], previous: impl FnOnce() -> Vec<TokenId>, params: &SamplingParams, rng: &mut ChaCha8Rng) -> Drawn {
    let greedy = params.temperature == 0.0;
    let scale = if greedy { 1.0 } else { params.temperature.recip() };
    let row = Row::new(logits, scale);
    let token = if params.is_truncating() {
        let previous = if params.repetition_penalty == 1.0 { Vec::new() } else { previous() };
        let wide: Vec<f64> = logits.iter().map(|&z| f64::from(z)).collect();
        let probs = filter(&wide, &previous, params).probs;
        // One uniform number a token, whatever the filters.
        pick(probs.iter().copied(), rng.random::<f64>())
    } else if greedy {
        argmax(logits.iter().map(|&z| f64::from(z)))
    } else {
        row.pick(rng.random::<f64>() * row.total)
    };
    Drawn { token: token as TokenId, log_prob: row.log_prob(token) as f32 }
}

/// softmax(z·scale) of a row, summed in f64.
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
    fn new(logits: &'a [f32], scale: f64) -> Self {
        let highest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max)) * scale;
        let weight = |&z: &f32| (f64::from(z) * scale - highest).exp();
        let chunks: Vec<f64> = logits.chunks(CHUNK).map(|chunk| chunk.iter().map(weight).sum()).collect();
        Self { logits, scale, highest, total: chunks.iter().sum(), chunks }
    }

    fn weight(&self, token: usize) -> f64 {
        (f64::from(self.logits[token]) * self.scale - self.highest).exp()
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
        argmax(self.logits.iter().map(|&z| f64::from(z)))
    }
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
