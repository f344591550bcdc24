//! A batch of tokens, checked and laid out.

use std::collections::HashMap;

use burn::tensor::{DType, Device};
use grpo_core::{TokenBatch, TokenId};

use super::attention::{causal_bias, length_bias};
use super::layout::{Layout, index};
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
    /// The packed rows that predict the M tokens, row after row. Completions of one prompt that begin with the same token share the first.
    pub(crate) predictors: Vec<i64>,
    /// The M tokens.
    pub(crate) targets: Vec<i64>,
    /// A place of each of the M in `[N·Tc]`.
    pub(crate) places: Vec<i64>,
    /// Which of the M stands at each of the N·Tc places; M itself where a completion has ended.
    pub(crate) at: Vec<i64>,
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
        let mut at = vec![None; completions.rows() * completions.width()];
        let mut firsts = HashMap::new();
        for n in 0..completions.rows() {
            for (t, &token) in completions.row(n).iter().enumerate() {
                let predictor = if t == 0 { last_of_prompt[batch.prompt_of()[n]] } else { first_of[n] + t - 1 };
                let place = n * completions.width() + t;
                let m = predictors.len() as i64;
                let known = if t == 0 { *firsts.entry((predictor, token)).or_insert(m) } else { m };
                if known == m {
                    predictors.push(predictor as i64);
                    targets.push(i64::from(token));
                    places.push(place as i64);
                }
                at[place] = Some(known);
            }
        }
        let ended = predictors.len() as i64;
        let at = at.into_iter().map(|m| m.unwrap_or(ended)).collect();

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
            at,
        })
    }

    /// What stands at each of the N·Tc places, `[M, ..]` to `[N·Tc, ..]`: zeros where it is none of the M.
    pub(crate) fn spread<const D: usize>(&self, rows: Tensor<D>) -> Tensor<D> {
        if self.at.iter().copied().eq(0..rows.dims()[0] as i64) {
            return rows;
        }
        let mut shape = rows.dims();
        shape[0] = 1;
        let device = rows.device();
        let zero = Tensor::zeros(shape, (&device, rows.dtype()));
        Tensor::cat(vec![rows, zero], 0).select(0, index(self.at.clone(), &device)) // [N·Tc, ..]
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use grpo_core::Padded;

    use super::*;

    #[test]
    fn what_completions_of_a_prompt_have_in_common_is_asked_once() {
        let prompts = Padded::new(&[[1, 2], [3, 4]]).unwrap();
        let completions = Padded::new(&[vec![5, 6], vec![5], vec![7, 6], vec![5, 8]]).unwrap();
        let batch = TokenBatch::new(prompts, completions, vec![0, 0, 0, 1]).unwrap();
        let plan = Plan::new(&batch, &ModelConfig::default(), &Device::flex(), DType::F32).unwrap();
        // The prompts' last rows are 1 and 3; the completions' first tokens are rows 4, 5, 6.
        assert_eq!(plan.predictors, [1, 4, 1, 5, 3, 6]);
        assert_eq!(plan.targets, [5, 6, 7, 6, 5, 8]);
        assert_eq!(plan.places, [0, 1, 4, 5, 6, 7]);
        assert_eq!(plan.at, [0, 1, 0, 6, 2, 3, 4, 5]);
    }
}
