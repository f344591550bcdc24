//! The policy: whatever gives completion tokens log-probabilities.

use burn::Tensor;
use burn::tensor::{Device, Int, TensorData};

use crate::error::{BoxError, Error, Result};
use crate::token::TokenId;

/// Token rows of unequal length, right-padded. Host data: a policy moves what it needs to its device.
#[derive(Debug, Clone, PartialEq)]
pub struct Padded {
    tokens: Vec<TokenId>,
    lengths: Vec<usize>,
    width: usize,
}

impl Padded {
    /// Pads rows on the right with token 0. What stands there is never read: masks come from lengths.
    ///
    /// # Errors
    /// No row, or a row without tokens.
    pub fn new<R: AsRef<[TokenId]>>(rows: &[R]) -> Result<Self> {
        let lengths: Vec<usize> = rows.iter().map(|r| r.as_ref().len()).collect();
        let width = lengths.iter().copied().max().unwrap_or(0);
        if lengths.is_empty() || lengths.contains(&0) {
            return Err(Error::invalid("token rows", "must be at least one row of at least one token"));
        }
        let mut tokens = vec![0; rows.len() * width];
        for (row, padded) in rows.iter().zip(tokens.chunks_mut(width)) {
            padded[..row.as_ref().len()].copy_from_slice(row.as_ref());
        }
        Ok(Self { tokens, lengths, width })
    }

    /// The number of rows R.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// The padded width T.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Each row's number of tokens.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Row `row` without its padding.
    pub fn row(&self, row: usize) -> &[TokenId] {
        &self.tokens[row * self.width..row * self.width + self.lengths[row]]
    }

    /// All tokens, row after row, padding included: R·T of them.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The tokens on a device: `[R, T]`.
    pub fn to_tensor(&self, device: &Device) -> Tensor<2, Int> {
        let tokens: Vec<i64> = self.tokens.iter().map(|&t| i64::from(t)).collect();
        Tensor::from_data(TensorData::new(tokens, [self.rows(), self.width]), device) // [R, T]
    }
}

/// P prompts and the N completions that continue them. A group stays a group: a prompt stands here once,
/// however many completions continue it, so that a model can read it once.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenBatch {
    prompts: Padded,
    completions: Padded,
    prompt_of: Vec<usize>,
}

impl TokenBatch {
    /// Prompts `[P, Tp]`, completions `[N, Tc]`, and for each completion the prompt it continues.
    ///
    /// # Errors
    /// `prompt_of` that has not N entries or names a prompt that is not there.
    pub fn new(prompts: Padded, completions: Padded, prompt_of: Vec<usize>) -> Result<Self> {
        Error::check_shape("prompt_of", &[prompt_of.len()], &[completions.rows()])?;
        if let Some(bad) = prompt_of.iter().find(|&&p| p >= prompts.rows()) {
            return Err(Error::invalid("prompt_of", format!("names prompt {bad}, must be below {}", prompts.rows())));
        }
        Ok(Self { prompts, completions, prompt_of })
    }

    /// The prompts, `[P, Tp]`.
    pub fn prompts(&self) -> &Padded {
        &self.prompts
    }

    /// The completions, `[N, Tc]`.
    pub fn completions(&self) -> &Padded {
        &self.completions
    }

    /// For each of the N completions the prompt it continues.
    pub fn prompt_of(&self) -> &[usize] {
        &self.prompt_of
    }
}

/// What is asked of a policy about the completion tokens.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScoreRequest<'a> {
    /// The temperature T: log-probabilities are of softmax(z / T). Above 0.
    pub temperature: f64,
    /// Whether entropies are wanted.
    pub entropies: Want,
    /// Whether the rows themselves are wanted, as values: what [`kl_to`](Self::kl_to) of another policy takes.
    pub rows: Want,
    /// The reference's rows, where the exact KL over the vocabulary is wanted.
    pub kl_to: Option<&'a ReferenceRows>,
}

/// Whether something that costs time is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Want {
    /// It is not looked at: leave it out.
    #[default]
    No,
    /// Its value is looked at, as a metric or a threshold: no gradient needs to flow back.
    Value,
    /// It stands in the loss: its gradient is needed, too.
    Gradient,
}

impl ScoreRequest<'_> {
    /// Log-probabilities only, at this temperature.
    pub fn at(temperature: f64) -> Self {
        Self { temperature, entropies: Want::No, rows: Want::No, kl_to: None }
    }
}

impl<'a> ScoreRequest<'a> {
    /// Entropies too, as values.
    pub fn with_entropies(mut self) -> Self {
        self.entropies = Want::Value;
        self
    }

    /// Entropies too, with their gradient.
    pub fn with_entropy_gradient(mut self) -> Self {
        self.entropies = Want::Gradient;
        self
    }

    /// The rows too.
    pub fn with_rows(mut self) -> Self {
        self.rows = Want::Value;
        self
    }

    /// The exact KL to these rows too.
    pub fn with_kl_to<'b>(self, reference: &'b ReferenceRows) -> ScoreRequest<'b>
    where
        'a: 'b,
    {
        ScoreRequest { kl_to: Some(reference), ..self }
    }
}

/// A policy's whole next-token distribution at each completion position, in one of two forms.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "one a batch: nothing to gain from a box")]
pub enum ReferenceRows {
    /// log softmax(z / T): `[N, Tc, V]`. For tiny vocabularies.
    LogProbs(Tensor<3>),
    /// The last hidden states `[N, Tc, H]` and the output matrix `[V, H]`: z = hidden · headᵀ. Nothing of size V per token is kept.
    Hidden {
        /// `[N, Tc, H]`
        hidden: Tensor<3>,
        /// `[V, H]`
        head: Tensor<2>,
    },
}

/// What a policy says of completion tokens. Each tensor is `[N, Tc]`; what stands at padded places is never read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Scores {
    /// log π(token | prefix) at the temperature.
    pub log_probs: Tensor<2>,
    /// H = −Σ_v p_v log p_v at the temperature, if asked for.
    pub entropies: Option<Tensor<2>>,
    /// KL(π ‖ reference) = Σ_v p_v (log p_v − log q_v), if asked for.
    pub kl: Option<Tensor<2>>,
    /// The rows, if asked for.
    pub rows: Option<ReferenceRows>,
}

impl Scores {
    /// Log-probabilities only.
    pub fn new(log_probs: Tensor<2>) -> Self {
        Self { log_probs, entropies: None, kl: None, rows: None }
    }
}

/// Gives completion tokens log-probabilities.
///
/// **If you implement it**: answer what is asked, at the temperature asked for, for completion positions only; on an
/// autodiff device and with trainable parameters the result is tracked. Old, reference and new log-probabilities must come
/// from this one function, so that the ratio of an unchanged policy is exactly 1. Models with plain logits implement
/// [`CausalLogits`](crate::CausalLogits) and call [`score_from_logits`](crate::score_from_logits).
/// **If you call it**: the shape of everything is `[N, Tc]`.
///
/// A policy needs no parameters: a table, a cache or a remote service is one too. Only
/// [`gradients`](crate::gradients) asks for a module as well.
pub trait Policy: Send + Sync {
    /// Scores the completions of a batch.
    ///
    /// # Errors
    /// Whatever keeps the policy from scoring, such as a prompt longer than the context.
    fn score(&self, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> std::result::Result<Scores, BoxError>;
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        impl<P: Policy + ?Sized> Policy for $pointer {
            fn score(&self, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> std::result::Result<Scores, BoxError> {
                (**self).score(batch, ask)
            }
        }
    )*};
}
forward!(&P, Box<P>, std::sync::Arc<P>);
