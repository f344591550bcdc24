//! For whoever has plain next-token logits: joins completions to prompts and scores. Toy policies are three lines with it.

use burn::Tensor;
use burn::tensor::{Device, Int, TensorData};

use crate::error::{BoxError, Error};
use crate::policy::{Padded, ReferenceRows, ScoreRequest, Scores, TokenBatch, Want};

/// A causal model: the logits of the token after each position.
pub trait CausalLogits: Send + Sync {
    /// Tokens `[R, T]`, right-padded, to logits `[R, T, V]`: entry t is about token t + 1. Padding stands behind, so a causal model never reads it.
    ///
    /// # Errors
    /// Whatever keeps the model from computing.
    fn logits(&self, tokens: Tensor<2, Int>) -> Result<Tensor<3>, BoxError>;

    /// The device the tokens should be on.
    fn device(&self) -> Device;
}

/// Scores completions with plain logits: one row a completion, prompt and completion joined.
///
/// Everything is held, `[N, Tp + Tc, V]`: for small models. Logits may be −∞ (illegal actions): 0 · log 0 counts as 0.
///
/// # Errors
/// A model that fails, logits of another shape than `[N, T, V]`, a token outside the vocabulary, a reference in a form that does not fit.
pub fn score_from_logits<M: CausalLogits + ?Sized>(model: &M, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> Result<Scores, BoxError> {
    let (prompts, completions) = (batch.prompts(), batch.completions());
    let joined: Vec<Vec<u32>> = batch.prompt_of().iter().enumerate().map(|(n, &p)| [prompts.row(p), completions.row(n)].concat()).collect();
    let joined = Padded::new(&joined)?;
    let device = model.device();
    let logits = model.logits(joined.to_tensor(&device))?; // [N, T, V]
    let [n, t, v] = logits.dims();
    Error::check_shape("logits", &[n, t], &[joined.rows(), joined.width()])?;
    if let Some(bad) = completions.tokens().iter().find(|&&token| token as usize >= v) {
        return Err(Error::invalid("token", format!("{bad}, must be below the vocabulary's {v}")).into());
    }
    let width = completions.width();
    // The logits that predict completion token k of row n stand at prompt length + k − 1; padding points at the last position.
    let positions: Vec<i64> = batch
        .prompt_of()
        .iter()
        .flat_map(|&p| (0..width).map(move |k| (prompts.lengths()[p] + k - 1).min(t - 1) as i64))
        .zip((0..n * width).map(|i| i / width))
        .map(|(position, row)| (row * t) as i64 + position)
        .collect();
    let positions = Tensor::<1, Int>::from_data(TensorData::new(positions, [n * width]), &device); // [N·Tc]
    let logits = logits.reshape([n * t, v]).select(0, positions).reshape([n, width, v]); // [N, Tc, V]
    let log_probs = log_softmax_at(logits, ask.temperature); // [N, Tc, V]
    let tokens = completions.to_tensor(&device).reshape([n, width, 1]); // [N, Tc, 1]
    let mut scores = Scores::new(log_probs.clone().gather(2, tokens).reshape([n, width])); // [N, Tc]
    if ask.entropies != Want::No {
        scores.entropies = Some(expected(&log_probs, log_probs.clone()).neg());
    }
    if let Some(reference) = ask.kl_to {
        let ReferenceRows::LogProbs(rows) = reference else {
            return Err("reference rows are hidden states, must be log-probabilities for a model of plain logits".into());
        };
        Error::check_shape("reference rows", &rows.dims(), &[n, width, v])?;
        scores.kl = Some(expected(&log_probs, log_probs.clone() - rows.clone().inner()));
    }
    if ask.rows != Want::No {
        scores.rows = Some(ReferenceRows::LogProbs(log_probs));
    }
    Ok(scores)
}

/// log softmax(z / T) over the last dimension, from max, exp, sum and log alone, so that every backend and autodiff compute the same.
pub fn log_softmax_at<const D: usize>(logits: Tensor<D>, temperature: f64) -> Tensor<D> {
    let z = if temperature == 1.0 { logits } else { logits * temperature.recip() }; // burn differentiates a division by a scalar in f32
    let z = z.clone() - z.detach().max_dim(D - 1);
    z.clone() - z.exp().sum_dim(D - 1).log()
}

/// Σ_v p_v · f_v: `[N, Tc, V]` to `[N, Tc]`. Where p_v = 0 the term is 0, also for f_v = ±∞.
fn expected(log_probs: &Tensor<3>, values: Tensor<3>) -> Tensor<2> {
    let [n, t, _] = log_probs.dims();
    let impossible = log_probs.clone().equal_elem(f64::NEG_INFINITY);
    (log_probs.clone().exp() * values.mask_fill(impossible, 0.0)).sum_dim(2).reshape([n, t])
}
