//! A batch of tokens, checked and laid out.

use burn::tensor::{DType, Device};
use grpo_core::{TokenBatch, TokenId};

use super::attention::{causal_bias, length_bias};
use super::layout::Layout;
use super::rope::Angles;
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use burn::Tensor;

/// What one pass over prompts and completions needs besides the weights.
///
/// Packed rows: first every token of every prompt that has completions, then of every completion all tokens but the last,
/// whose successor nobody asks for.
pub(crate) struct Plan {
    /// The input tokens, `[R]`.
    pub(crate) tokens: Vec<i64>,
    pub(crate) angles: Angles,
    pub(crate) prompts: Layout,
    pub(crate) prompt_bias: Option<Tensor<5>>,
    /// None if every completion is a single token.
    pub(crate) completions: Option<CompletionLayout>,
    /// For each of the M completion tokens, row after row, the packed row that predicts it.
    pub(crate) predictors: Vec<i64>,
    /// The M completion tokens.
    pub(crate) targets: Vec<i64>,
    /// The place of each of the M in `[N·Tc]`.
    pub(crate) places: Vec<i64>,
}

pub(crate) struct CompletionLayout {
    pub(crate) layout: Layout,
    /// Hides the padding of prompts from completions.
    pub(crate) shared_bias: Option<Tensor<5>>,
    /// Hides later tokens of the completion itself.
    pub(crate) own_bias: Option<Tensor<5>>,
}

impl Plan {
    pub(crate) fn new(batch: &TokenBatch, config: &ModelConfig, device: &Device, dtype: DType) -> Result<Self> {
        let (prompts, completions) = (batch.prompts(), batch.completions());
        check_tokens("prompt", (0..prompts.rows()).map(|r| prompts.row(r)), config)?;
        check_tokens("completion", (0..completions.rows()).map(|r| completions.row(r)), config)?;
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); prompts.rows()];
        for (n, &p) in batch.prompt_of().iter().enumerate() {
            members[p].push(n);
        }
        // A prompt without completions takes no part.
        let used: Vec<usize> = (0..prompts.rows()).filter(|&p| !members[p].is_empty()).collect();

        let (mut tokens, mut positions) = (Vec::new(), Vec::new());
        let mut last_of_prompt = vec![0; prompts.rows()];
        for &p in &used {
            tokens.extend(prompts.row(p).iter().map(|&t| i64::from(t)));
            positions.extend(0..prompts.lengths()[p]);
            last_of_prompt[p] = tokens.len() - 1;
        }
        let prompt_rows = tokens.len();
        let mut first_of = vec![0; completions.rows()];
        for &n in used.iter().flat_map(|&p| &members[p]) {
            let row = completions.row(n);
            first_of[n] = tokens.len();
            tokens.extend(row[..row.len() - 1].iter().map(|&t| i64::from(t)));
            let start = prompts.lengths()[batch.prompt_of()[n]];
            positions.extend(start..start + row.len() - 1);
        }

        let (mut predictors, mut targets, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..completions.rows() {
            for (t, &token) in completions.row(n).iter().enumerate() {
                let predictor = if t == 0 { last_of_prompt[batch.prompt_of()[n]] } else { first_of[n] + t - 1 };
                predictors.push(predictor as i64);
                targets.push(i64::from(token));
                places.push((n * completions.width() + t) as i64);
            }
        }

        let rep = config.num_attention_heads / config.num_key_value_heads;
        let prompt_lengths: Vec<usize> = used.iter().map(|&p| prompts.lengths()[p]).collect();
        let as_groups: Vec<Vec<usize>> = prompt_lengths.iter().map(|&l| vec![l]).collect();
        let prompt_layout = Layout::new(0, &as_groups, device);
        let prompt_width = prompt_layout.width();
        let inputs: Vec<Vec<usize>> = used.iter().map(|&p| members[p].iter().map(|&n| completions.lengths()[n] - 1).collect()).collect();
        let completion_layout = Layout::new(prompt_rows, &inputs, device);
        let width = completion_layout.width();
        Ok(Self {
            angles: Angles::new(config, &positions, device, dtype),
            tokens,
            prompts: prompt_layout,
            prompt_bias: (prompt_width > 1).then(|| causal_bias(rep, prompt_width, device, dtype)),
            completions: (width > 0).then(|| CompletionLayout {
                layout: completion_layout,
                shared_bias: length_bias(&prompt_lengths, prompt_width, device, dtype),
                own_bias: (width > 1).then(|| causal_bias(rep, width, device, dtype)),
            }),
            predictors,
            targets,
            places,
        })
    }
}

/// Every token must have an embedding: burn panics on others.
pub(crate) fn check_tokens<'a>(what: &'static str, rows: impl Iterator<Item = &'a [TokenId]>, config: &ModelConfig) -> Result<()> {
    for (row, tokens) in rows.enumerate() {
        if let Some(bad) = tokens.iter().find(|&&t| t as usize >= config.vocab_size) {
            return Err(Error::input(what, format!("row {row} has token {bad}, must be below the vocabulary's {}", config.vocab_size)));
        }
    }
    Ok(())
}

/// No prompt with its completion is longer than the context.
pub(crate) fn check_lengths(batch: &TokenBatch, config: &ModelConfig) -> Result<()> {
    let limit = config.max_position_embeddings;
    let (prompts, completions) = (batch.prompts().lengths(), batch.completions().lengths());
    for (row, (&p, &completion)) in batch.prompt_of().iter().zip(completions).enumerate() {
        let prompt = prompts[p];
        if prompt + completion > limit {
            let total = prompt + completion;
            let problem = format!(
                "row {row} has {prompt} prompt and {completion} completion tokens, {total} in all, must be at most the context of {limit}"
            );
            return Err(Error::input("completion", problem));
        }
    }
    Ok(())
}
