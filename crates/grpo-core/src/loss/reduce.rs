//! Reductions: the weight of each token in the loss.

use super::stats::StepStats;
use crate::batch::Batch;
use crate::config::{CountedRows, GrpoConfig, Reduction};

/// w: what each token's loss is multiplied by before it is summed, `[N · Tc]`, 0 where a token does not take part.
///
/// | reduction | w of a token of completion i |
/// |---|---|
/// | sequence mean | 1 / (N · L_i) |
/// | token mean | 1 / Σ_j L_j, over the step |
/// | token mean of the micro-batch | 1 / (M · Σ_j L_j), over the micro-batch, M micro-batches |
/// | prompt token mean | 1 / (P · Σ_j L_j), over the group, P groups with tokens |
/// | constant length | 1 / (N · L) |
/// | sequence sum | 1 / N |
/// | token sum | 1 |
///
/// N counts the completions of the step, those without a token of the loss only under [`CountedRows::All`]. Where nothing takes part, every w is 0.
pub fn weights(config: &GrpoConfig, batch: &Batch, step: &StepStats) -> Vec<f64> {
    let counts = batch.token_counts();
    let here: usize = counts.iter().sum();
    let n = match config.counted_rows {
        CountedRows::All => step.completions,
        CountedRows::NonEmpty => step.non_empty,
    } as f64;
    let width = batch.shape()[1];
    let group_tokens = |row: usize| step.group_tokens.get(&batch.groups()[row]).copied().unwrap_or(0);
    let per_row = counts.iter().enumerate().map(|(row, &len)| match config.reduction {
        Reduction::SequenceMean => 1.0 / (n * (len as f64 + config.length_epsilon)),
        Reduction::TokenMean => 1.0 / step.tokens as f64,
        Reduction::MicroBatchTokenMean => 1.0 / (step.micro_batches * here) as f64,
        Reduction::PromptTokenMean => 1.0 / (step.group_tokens.len() * group_tokens(row)) as f64,
        Reduction::ConstantLength(length) => 1.0 / (n * length as f64),
        Reduction::SequenceSum => 1.0 / n,
        Reduction::TokenSum => 1.0,
    });
    let tokens = per_row.flat_map(|w| std::iter::repeat_n(w, width));
    tokens.zip(batch.mask_host()).map(|(w, &counts)| if counts { w } else { 0.0 }).collect()
}
