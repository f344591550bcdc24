//! Dense decoders of the Llama, Qwen2 and Qwen3 families: weights, and the passes over them.

mod attention;
mod block;
mod layout;
mod linear;
mod norm;
mod plan;
mod rope;
mod weights;

use burn::Tensor;
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, TensorData};
use grpo_core::{Padded, TokenBatch, TokenId};

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::lora::LoraConfig;

pub(crate) use attention::{KeyBlock, Projected, attend, causal_bias, length_bias};
pub(crate) use block::Block;
pub(crate) use layout::{Layout, index};
pub(crate) use linear::{Factors, Linear};
use plan::check_lengths;
pub(crate) use plan::{Plan, check_tokens};
pub(crate) use rope::Angles;
pub(crate) use weights::to_host;

/// A language model: a dense decoder with tied or untied output matrix.
///
/// It is a [`Policy`](grpo_core::Policy) and a burn [`Module`], so it can be trained as it is; on an autodiff device every weight is
/// tracked, with [LoRA](Decoder::with_lora) only the factors. Matrices are `[out, in]`, as Hugging Face stores them, and the names of
/// the parameters are Hugging Face's. `clone` is cheap: weights are shared until one of the two is stepped.
///
/// Prompts are read once, however many completions continue them: for P prompts and N completions a pass costs P·Tp + N·(Tc − 1)
/// tokens, without padding, and gradients flow into the prompt once.
///
/// ```
/// use burn::tensor::Device;
/// use grpo_core::{Padded, Policy, ScoreRequest, TokenBatch};
/// use grpo_lm::{config::ModelConfig, decoder::Decoder};
///
/// let decoder = Decoder::random(&ModelConfig::default(), 7, &Device::flex())?;
/// // Two answers to one prompt: the prompt stands here once.
/// let batch = TokenBatch::new(Padded::new(&[[1, 2, 3]])?, Padded::new(&[vec![4, 5], vec![6]])?, vec![0, 0])?;
/// let scores = decoder.score(&batch, &ScoreRequest::at(1.0))?;
/// assert_eq!(scores.log_probs.dims(), [2, 2]);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Module, Debug)]
pub struct Decoder {
    /// `[V, H]`; the output matrix too if that is tied.
    embed_tokens: Param<Tensor<2>>,
    pub(crate) layers: Vec<Block>,
    norm: norm::RmsNorm,
    /// `[V, H]`
    lm_head: Option<Param<Tensor<2>>>,
    #[module(skip)]
    config: ModelConfig,
    #[module(skip)]
    pub(crate) lora: Option<LoraConfig>,
}

impl Decoder {
    /// Sizes and switches.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The device of the weights.
    pub fn device(&self) -> Device {
        self.embed_tokens.val().device()
    }

    /// The element type of the weights.
    pub fn dtype(&self) -> DType {
        self.embed_tokens.val().dtype()
    }

    /// The state as it is now, as a reference policy: without autodiff, nothing trainable, equal in every bit.
    ///
    /// With LoRA the factors are part of it, at their present values. No weight is copied: the storage is shared until the policy is
    /// stepped, and what is frozen stays shared.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        self.valid().no_grad()
    }

    /// The output matrix, `[V, H]`.
    pub(crate) fn head(&self) -> Tensor<2> {
        self.lm_head.as_ref().unwrap_or(&self.embed_tokens).val()
    }

    /// Embeddings of packed tokens, `[R, H]`.
    pub(crate) fn embed(&self, tokens: Vec<i64>) -> Tensor<2> {
        let device = self.device();
        self.embed_tokens.val().select(0, index(tokens, &device)) // [R, H]
    }

    /// The final norm, `[R, H]` to `[R, H]`.
    pub(crate) fn finish(&self, x: Tensor<2>) -> Tensor<2> {
        self.norm.forward(x)
    }

    /// The hidden states that predict each of the plan's M tokens, `[M, H]`.
    pub(crate) fn hidden(&self, plan: &Plan) -> Tensor<2> {
        let config = &self.config;
        let mut x = self.embed(plan.tokens.clone()); // [R, H]
        for layer in &self.layers {
            x = layer.forward(x, &plan.angles, config, |projected| read(projected, plan, config)); // [R, H]
        }
        self.finish(x.select(0, index(plan.predictors.clone(), &self.device()))) // [M, H]
    }

    /// The hidden states of the last token of each row, `[N, H]`: what all rows begin with is computed once.
    pub(crate) fn last_hidden(&self, rows: &[&[TokenId]]) -> Result<Tensor<2>> {
        check_tokens("row", rows.iter().copied(), &self.config)?;
        let limit = self.config.max_position_embeddings;
        if let Some((row, tokens)) = rows.iter().enumerate().find(|(_, tokens)| tokens.is_empty() || tokens.len() > limit) {
            return Err(Error::input("row", format!("{row} has {} tokens, must be from 1 to the context of {limit}", tokens.len())));
        }
        let [first, others @ ..] = rows else { return Err(Error::input("rows", "none, must be at least one")) };
        let common = others.iter().fold(first.len(), |common, row| first[..common].iter().zip(*row).take_while(|(a, b)| a == b).count());
        // A completion's last token is not read, for nobody asks what follows it. Here somebody does: one more, never looked at, follows it.
        let ended = |rest: &[TokenId]| rest.iter().copied().chain([0]).collect::<Vec<_>>();
        let batch = if common == 0 {
            TokenBatch::new(Padded::new(rows)?, Padded::new(&vec![[0]; rows.len()])?, (0..rows.len()).collect())?
        } else {
            let rest: Vec<_> = rows.iter().map(|row| ended(&row[common..])).collect();
            TokenBatch::new(Padded::new(&[&first[..common]])?, Padded::new(&rest)?, vec![0; rows.len()])?
        };
        let mut plan = Plan::new(&batch, &self.config, &self.device(), self.dtype())?;
        let width = batch.completions().width();
        let ends = batch.completions().lengths().iter().enumerate().map(|(row, &length)| plan.at[row * width + length - 1]);
        plan.predictors = ends.map(|m| plan.predictors[m as usize]).collect();
        Ok(self.hidden(&plan)) // [N, H]
    }

    /// Next-token logits at every position of right-padded rows, `[R, T]` to `[R, T, V]`. What stands at padded positions means nothing.
    ///
    /// For inspection and comparison: training never makes logits of this size.
    ///
    /// # Errors
    /// A token without an embedding, or a row longer than the context.
    pub fn logits(&self, rows: &Padded) -> Result<Tensor<3>> {
        let [r, t] = [rows.rows(), rows.width()];
        // The padded rows as prompts, each with one completion of one token that is not looked at.
        let whole: Vec<Vec<u32>> = rows.tokens().chunks(t).map(<[u32]>::to_vec).collect();
        let lengths = vec![vec![t]; r];
        check_tokens("row", whole.iter().map(Vec::as_slice), &self.config)?;
        if t > self.config.max_position_embeddings {
            let problem = format!("{t} tokens, must be at most the context of {}", self.config.max_position_embeddings);
            return Err(Error::input("row", problem));
        }
        let (device, dtype, config) = (self.device(), self.dtype(), &self.config);
        let positions: Vec<usize> = (0..r).flat_map(|_| 0..t).collect();
        let angles = Angles::new(config, &positions, &device, dtype);
        let layout = Layout::new(0, &lengths, &device);
        let bias = (t > 1).then(|| causal_bias(config.num_attention_heads / config.num_key_value_heads, t, &device, dtype));
        let mut x = self.embed(whole.iter().flatten().map(|&t| i64::from(t)).collect()); // [R·T, H]
        for layer in &self.layers {
            x = layer.forward(x, &angles, config, |p| {
                let block = block_of(&p, &layout, bias.clone(), config);
                layout.rows(attend(layout.queries(p.queries, config.num_key_value_heads, config.head_dim), &[block]))
            }); // [R·T, H]
        }
        Ok(self.logits_of(self.finish(x)).reshape([r, t, config.vocab_size])) // [R, T, V]
    }

    /// Logits of final hidden states, `[R, H]` to `[R, V]`.
    pub(crate) fn logits_of(&self, hidden: Tensor<2>) -> Tensor<2> {
        hidden.matmul(self.head().transpose()) // [R, V]
    }

    /// Checks a batch and lays it out.
    pub(crate) fn plan(&self, batch: &TokenBatch) -> Result<Plan> {
        check_lengths(batch, &self.config)?;
        Plan::new(batch, &self.config, &self.device(), self.dtype())
    }
}

/// The keys and values of projected rows as one block.
pub(crate) fn block_of(projected: &Projected, layout: &Layout, bias: Option<Tensor<5>>, config: &ModelConfig) -> KeyBlock {
    let (k, d) = (config.num_key_value_heads, config.head_dim);
    KeyBlock { keys: layout.keys(projected.keys.clone(), k, d), values: layout.keys(projected.values.clone(), k, d), bias }
}

/// What prompt rows read from their own prompt, and completion rows from their prompt and from themselves: `[R, query heads · d]`.
fn read(projected: Projected, plan: &Plan, config: &ModelConfig) -> Tensor<2> {
    let (k, d) = (config.num_key_value_heads, config.head_dim);
    let mut prompt = block_of(&projected, &plan.prompts, plan.prompt_bias.clone(), config);
    let of_prompts = attend(plan.prompts.queries(projected.queries.clone(), k, d), std::slice::from_ref(&prompt));
    let of_prompts = plan.prompts.rows(of_prompts); // [prompt rows, query heads·d]
    let Some(completions) = &plan.completions else { return of_prompts };
    prompt.bias = completions.shared_bias.clone();
    let layout = &completions.layout;
    let own = block_of(&projected, layout, completions.own_bias.clone(), config);
    let of_completions = layout.rows(attend(layout.queries(projected.queries, k, d), &[prompt, own])); // [completion rows, query heads·d]
    Tensor::cat(vec![of_prompts, of_completions], 0) // [R, query heads·d]
}

/// A float tensor of host values in a given element type.
pub(crate) fn upload<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), (device, DType::F32))
}
