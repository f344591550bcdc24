//! Sampling from a decoder: prompts read once, completions decoded together.

mod draw;
mod stop;

use burn::Tensor;
use grpo_core::{BoxError, FinishReason, Sample, SampleRequest, Sampler, SamplingParams, TokenId, stream};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::cache::Cache;
use crate::decoder::{Decoder, check_tokens};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

/// Samples completions of a [`Decoder`] with a key/value cache.
///
/// Each request's prefix is read once for all its samples; then every completion of every request decodes in one batch, and leaves it when
/// it ends. Tokens are drawn on the host from the stream of their sample: what is drawn does not hang on how rows are batched
/// (up to the rounding of the logits).
///
/// Stored log-probabilities are log softmax(z / T) over the whole vocabulary, whatever the filters, so they are the policy's own at the
/// sampling temperature; greedy ones (T = 0) are log softmax(z). [`LogProbKind`](grpo_core::LogProbKind) says which.
///
/// With a tokenizer each sample has its text: without special tokens, cut where a stop string begins. The tokens stay as sampled, with the
/// ones that spelled the stop string.
///
/// A policy on an autodiff device is sampled without its graph, one with LoRA factors from a copy of its matrices with the factors
/// multiplied in, made at each call: hand the policy over as it is. For 135 M parameters the copy costs 0.1 CPU seconds and the memory of
/// the matrices while it samples, and saves 10 milliseconds on every token after.
#[derive(Debug, Clone, Default)]
pub struct LmSampler {
    tokenizer: Option<Tokenizer>,
}

impl LmSampler {
    /// A sampler that gives tokens without text, and knows no stop strings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A sampler that gives text, too, and can stop at strings.
    #[must_use]
    pub fn with_tokenizer(tokenizer: Tokenizer) -> Self {
        Self { tokenizer: Some(tokenizer) }
    }
}

impl Sampler<Decoder> for LmSampler {
    fn sample(
        &mut self,
        policy: &Decoder,
        requests: &[SampleRequest<'_>],
        params: &SamplingParams,
    ) -> std::result::Result<Vec<Vec<Sample>>, BoxError> {
        params.validate()?;
        check(policy, requests, params, self.tokenizer.is_some())?;
        // Also the policy without its graph: a forward pass on an autodiff device that no backward pass follows would keep it.
        let policy = policy.merged();
        Ok(generate(&policy, requests, params, self.tokenizer.as_ref())?)
    }
}

fn check(policy: &Decoder, requests: &[SampleRequest<'_>], params: &SamplingParams, has_tokenizer: bool) -> Result<()> {
    let limit = policy.config().max_position_embeddings;
    if !params.stop_strings.is_empty() && !has_tokenizer {
        return Err(Error::input("stop strings", "need a tokenizer: make the sampler with one"));
    }
    check_tokens("prompt", requests.iter().map(|r| r.prefix), policy.config())?;
    for (row, request) in requests.iter().enumerate() {
        let length = request.prefix.len();
        if length == 0 {
            return Err(Error::input("prompt", format!("request {row} has no token, must have at least one")));
        }
        if length + params.max_tokens > limit {
            let max = params.max_tokens;
            let problem =
                format!("request {row} has {length} tokens and max_tokens = {max}, together they must be at most the context of {limit}");
            return Err(Error::input("prompt", problem));
        }
    }
    Ok(())
}

/// One completion on its way.
struct Row<'a> {
    request: usize,
    sample: usize,
    prefix: &'a [TokenId],
    rng: ChaCha8Rng,
    tokens: Vec<TokenId>,
    log_probs: Vec<f32>,
    finish: Option<FinishReason>,
    text: String,
}

impl Row<'_> {
    fn advance(&mut self, logits: &[f32], params: &SamplingParams, tokenizer: Option<&Tokenizer>) -> Result<()> {
        let (prefix, tokens) = (self.prefix, &self.tokens);
        let drawn = draw::draw(logits, || [prefix, tokens].concat(), params, &mut self.rng)?;
        self.tokens.push(drawn.token);
        self.log_probs.push(drawn.log_prob);
        if params.end_tokens.contains(&drawn.token) {
            self.finish = Some(FinishReason::EndToken);
        } else if let Some(tokenizer) = tokenizer.filter(|_| !params.stop_strings.is_empty()) {
            let mut text = tokenizer.decode(&self.tokens)?;
            if let Some(end) = stop::find_stop(&text, &params.stop_strings) {
                text.truncate(end);
                self.text = text;
                self.finish = Some(FinishReason::StopString);
            }
        }
        if self.finish.is_none() && self.tokens.len() == params.max_tokens {
            self.finish = Some(FinishReason::Length);
        }
        match (self.finish, tokenizer) {
            (Some(FinishReason::EndToken), Some(tokenizer)) => self.text = tokenizer.decode(&self.tokens[..self.tokens.len() - 1])?,
            (Some(FinishReason::Length), Some(tokenizer)) => self.text = tokenizer.decode(&self.tokens)?,
            _ => {}
        }
        Ok(())
    }
}

fn generate(
    policy: &Decoder,
    requests: &[SampleRequest<'_>],
    params: &SamplingParams,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<Vec<Sample>>> {
    let mut answers: Vec<Vec<Option<Sample>>> = requests.iter().map(|r| vec![None; r.samples]).collect();
    let asked: Vec<usize> = (0..requests.len()).filter(|&r| requests[r].samples > 0).collect();
    if asked.is_empty() {
        return Ok(vec![Vec::new(); requests.len()]);
    }
    let prefixes: Vec<&[TokenId]> = asked.iter().map(|&r| requests[r].prefix).collect();
    let samples: Vec<usize> = asked.iter().map(|&r| requests[r].samples).collect();
    let mut rows: Vec<Row<'_>> = asked
        .iter()
        .flat_map(|&request| (0..requests[request].samples).map(move |sample| (request, sample)))
        .map(|(request, sample)| Row {
            request,
            sample,
            prefix: requests[request].prefix,
            rng: stream(requests[request].seed, sample),
            tokens: Vec::new(),
            log_probs: Vec::new(),
            finish: None,
            text: String::new(),
        })
        .collect();

    let vocabulary = policy.config().vocab_size;
    let (mut cache, hidden) = Cache::prefill(policy, &prefixes, samples.clone());
    let logits = read(policy.logits_of(hidden))?; // P·V numbers
    // The samples of a prompt draw their first token from one and the same row.
    let prompt_of: Vec<usize> = samples.iter().enumerate().flat_map(|(p, &n)| std::iter::repeat_n(p, n)).collect();
    rows.par_iter_mut()
        .zip(&prompt_of)
        .try_for_each(|(row, &p)| row.advance(&logits[p * vocabulary..(p + 1) * vocabulary], params, tokenizer))?;

    for step in 0.. {
        let done = rows.iter().filter(|row| row.finish.is_some()).count();
        if done == rows.len() {
            break;
        }
        // A finished row costs its share of a step, its leaving costs a copy of the others' keys: they leave by eighths.
        if done * 8 >= rows.len() {
            let alive: Vec<usize> = (0..rows.len()).filter(|&r| rows[r].finish.is_none()).collect();
            cache.keep(&alive);
            let (finished, going): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.finish.is_some());
            finished.into_iter().for_each(|row| put(&mut answers, row, params));
            rows = going;
        }
        let tokens: Vec<TokenId> = rows.iter().filter_map(|row| row.tokens.last().copied()).collect();
        let logits = read(policy.logits_of(cache.step(policy, &tokens, step)))?; // rows·V numbers
        rows.par_iter_mut().zip(logits.par_chunks(vocabulary)).try_for_each(|(row, logits)| match row.finish {
            // Still in the batch, but it has ended: its last token is read again and nothing is drawn.
            Some(_) => Ok(()),
            None => row.advance(logits, params, tokenizer),
        })?;
    }
    rows.into_iter().for_each(|row| put(&mut answers, row, params));
    Ok(answers.into_iter().map(|group| group.into_iter().flatten().collect()).collect())
}

fn put(answers: &mut [Vec<Option<Sample>>], row: Row<'_>, params: &SamplingParams) {
    answers[row.request][row.sample] = Some(Sample {
        tokens: row.tokens,
        log_probs: row.log_probs,
        log_prob_kind: draw::kind(params),
        temperature: params.temperature,
        finish: row.finish.unwrap_or(FinishReason::Abort),
        text: row.text,
        policy_version: None,
    });
}

fn read(logits: Tensor<2>) -> Result<Vec<f32>> {
    logits.try_into_vec_as::<f32>().map_err(|error| Error::Device { what: "logits".into(), problem: error.to_string() })
}
