//! Reductions: the weight of each token in the loss.

use crate::batch::Batch;
use crate::config::Reduction;

/// Counts of a whole optimiser step, over all its micro-batches and ranks. They are the normaliser of every reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StepStats {
    /// Completions, those without a token of the loss included.
    pub completions: usize,
    /// Tokens of the loss.
    pub tokens: usize,
}

impl StepStats {
    /// Counts the micro-batches of a step.
    pub fn of<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Self {
        batches.into_iter().fold(Self::default(), |stats, batch| Self {
            completions: stats.completions + batch.shape()[0],
            tokens: stats.tokens + batch.token_counts().iter().sum::<usize>(),
        })
    }

    /// Counts of two shares of a step (two ranks) together.
    pub fn merge(self, other: Self) -> Self {
        Self { completions: self.completions + other.completions, tokens: self.tokens + other.tokens }
    }
}

/// w: what each token's loss is multiplied by before it is summed, `[N · Tc]`, 0 where a token does not take part.
///
/// | reduction | w of a token of completion i |
/// |---|---|
/// | sequence mean | 1 / (N · L_i) |
/// | token mean | 1 / Σ_j L_j, over the step |
/// | token mean of the micro-batch | 1 / Σ_j L_j, over the micro-batch |
/// | constant length | 1 / (N · L) |
///
/// N counts all completions of the step, also those without a token of the loss. Where nothing takes part, every w is 0.
pub fn weights(reduction: Reduction, batch: &Batch, step: &StepStats) -> Vec<f64> {
    let counts = batch.token_counts();
    let here: usize = counts.iter().sum();
    let n = step.completions as f64;
    let width = batch.shape()[1];
    let per_row = counts.iter().map(|&len| match reduction {
        Reduction::SequenceMean => 1.0 / (n * len as f64),
        Reduction::TokenMean => 1.0 / step.tokens as f64,
        Reduction::MicroBatchTokenMean => 1.0 / here as f64,
        Reduction::ConstantLength(length) => 1.0 / (n * length as f64),
    });
    let tokens = per_row.flat_map(|w| std::iter::repeat_n(w, width));
    tokens.zip(batch.mask_host()).map(|(w, &counts)| if counts { w } else { 0.0 }).collect()
}
