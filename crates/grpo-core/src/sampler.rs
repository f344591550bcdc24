//! Sampling: how completions come out of a policy.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use crate::error::{BoxError, Error, Result};
use crate::group::{GroupId, Sample};
use crate::token::TokenId;

/// How tokens are drawn.
///
/// Filters apply in this order: repetition penalty, temperature, top-k, top-p, min-p.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingParams {
    /// T > 0 draws from softmax(z / T); 0 is greedy.
    pub temperature: f64,
    /// At most this many tokens a completion. At least 1.
    pub max_tokens: usize,
    /// Keep the k most likely tokens. `None`: all.
    pub top_k: Option<usize>,
    /// Keep the smallest set of tokens whose mass reaches p, in (0, 1]. 1: all.
    pub top_p: f64,
    /// Keep tokens of at least this share of the most likely one's probability, in [0, 1]. 0: all.
    pub min_p: f64,
    /// Divide positive logits and multiply negative ones of tokens that stand in the prefix. 1: off.
    pub repetition_penalty: f64,
    /// Tokens that end a completion. They are part of it.
    pub end_tokens: Vec<TokenId>,
    /// Texts that end a completion.
    pub stop_strings: Vec<String>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            max_tokens: 512,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            end_tokens: Vec::new(),
            stop_strings: Vec::new(),
        }
    }
}

impl SamplingParams {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        let finite = |v: f64, ok: bool| v.is_finite() && ok;
        // Below this, logits divided by it leave what f32 can hold.
        if !finite(self.temperature, self.temperature == 0.0 || self.temperature >= 1e-6) {
            return Err(Error::config("temperature", self.temperature, "0 for greedy, or finite and at least 0.000001"));
        }
        if self.max_tokens == 0 {
            return Err(Error::config("max_tokens", 0, "at least 1"));
        }
        if self.top_k == Some(0) {
            return Err(Error::config("top_k", 0, "at least 1, or none"));
        }
        if !finite(self.top_p, self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(Error::config("top_p", self.top_p, "above 0 and at most 1"));
        }
        if !finite(self.min_p, (0.0..=1.0).contains(&self.min_p)) {
            return Err(Error::config("min_p", self.min_p, "between 0 and 1"));
        }
        if !finite(self.repetition_penalty, self.repetition_penalty > 0.0) {
            return Err(Error::config("repetition_penalty", self.repetition_penalty, "above 0"));
        }
        if self.stop_strings.iter().any(String::is_empty) {
            return Err(Error::config("stop_strings", "\"\"", "texts of at least one character"));
        }
        Ok(())
    }

    /// The same, drawing the most likely token each time.
    pub fn greedy(mut self) -> Self {
        self.temperature = 0.0;
        self
    }

    /// Whether some tokens are excluded or reweighted, so that the sampler's log-probability would not be the policy's.
    pub fn is_truncating(&self) -> bool {
        self.top_k.is_some() || self.top_p < 1.0 || self.min_p > 0.0 || self.repetition_penalty != 1.0
    }
}

/// One group to sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRequest<'a> {
    /// The group it is for.
    pub group: GroupId,
    /// What stands before the first sampled token.
    pub prefix: &'a [TokenId],
    /// How many samples.
    pub samples: usize,
    /// The seed of this group; sample k draws from [`stream`]`(seed, k)`.
    pub seed: u64,
}

/// The random stream of one sample of one group. What is drawn does not depend on how rows are batched,
/// and a fixed seed never makes a group's samples identical.
pub fn stream(seed: u64, sample: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(sample as u64);
    rng
}

/// The seed of a group: a function of the run's seed, the step and the group's position.
pub fn group_seed(run_seed: u64, step: u64, group: u64) -> u64 {
    // SplitMix64's finaliser over each word in turn: neighbouring steps and groups get unrelated seeds.
    [step, group].into_iter().fold(mix(run_seed), |state, word| mix(state ^ mix(word.wrapping_add(0x9e37_79b9_7f4a_7c15))))
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Draws completions from a policy.
///
/// **If you implement it**: answer in the order asked, `samples` each; draw sample k of a request from
/// [`stream`]`(request.seed, k)` and nothing else. **If you call it**: the sampler borrows the policy on each call,
/// so a stale sampler cannot be written; hand it the policy without autodiff (`policy.valid()`), or each forward pass keeps a graph.
pub trait Sampler<P: ?Sized>: Send {
    /// Samples every request.
    ///
    /// # Errors
    /// Parameters the sampler cannot serve, prompts that do not fit, whatever keeps it from sampling.
    fn sample(
        &mut self,
        policy: &P,
        requests: &[SampleRequest<'_>],
        params: &SamplingParams,
    ) -> std::result::Result<Vec<Vec<Sample>>, BoxError>;
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        impl<P: ?Sized, S: Sampler<P> + ?Sized> Sampler<P> for $pointer {
            fn sample(
                &mut self,
                policy: &P,
                requests: &[SampleRequest<'_>],
                params: &SamplingParams,
            ) -> std::result::Result<Vec<Vec<Sample>>, BoxError> {
                (**self).sample(policy, requests, params)
            }
        }
    )*};
}
forward!(&mut S, Box<S>);
