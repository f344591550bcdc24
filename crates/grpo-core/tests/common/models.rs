//! Small trainable policies, and completions that a sampler might have drawn.

use burn::Tensor;
use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Int, TensorData};
use grpo_core::{
    Advantages, Batch, BoxError, CausalLogits, Completion, FinishReason, Group, GroupId, LogProbKind, Policy, Prompt, Sample, ScoreRequest,
    Scores, TokenBatch, score_from_logits,
};

/// Logits that depend on the token before: the smallest policy with a context. Plus a shift that only long inputs use, whose gradient is
/// NaN on very long ones though its value is finite.
#[derive(Module, Debug)]
pub struct Bigram {
    /// `[V, V]`
    pub table: Param<Tensor<2>>,
    /// `[V]`
    pub shift: Param<Tensor<1>>,
}

/// Inputs longer than this use the shift.
pub const LONG: usize = 5;
/// Inputs longer than this poison its gradient.
pub const POISON: usize = 8;

impl Bigram {
    pub fn new(vocabulary: usize, seed: u64, dtype: DType, device: &Device) -> Self {
        let mut dice = super::Dice(seed);
        let mut values = |n: usize| (0..n).map(|_| dice.between(-1.0, 1.0)).collect::<Vec<f64>>();
        let (table, shift) = (values(vocabulary * vocabulary), values(vocabulary));
        Self {
            table: Param::from_tensor(Tensor::from_data(TensorData::new(table, [vocabulary, vocabulary]), (device, dtype))),
            shift: Param::from_tensor(Tensor::from_data(TensorData::new(shift, [vocabulary]), (device, dtype))),
        }
    }
}

impl CausalLogits for Bigram {
    fn logits(&self, tokens: Tensor<2, Int>) -> Result<Tensor<3>, BoxError> {
        let [rows, width] = tokens.dims();
        let v = self.shift.dims()[0];
        let logits = self.table.val().select(0, tokens.reshape([rows * width])).reshape([rows, width, v]); // [R, T, V]
        Ok(match width {
            w if w > POISON => logits + (self.shift.val() * 0.0).sqrt().reshape([1, 1, v]), // √0 has an infinite derivative; times 0: NaN
            w if w > LONG => logits + self.shift.val().reshape([1, 1, v]),
            _ => logits,
        })
    }

    fn device(&self) -> Device {
        self.table.val().device()
    }
}

impl Policy for Bigram {
    fn score(&self, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> Result<Scores, BoxError> {
        score_from_logits(self, batch, ask)
    }
}

pub fn sample(tokens: &[u32]) -> Sample {
    Sample {
        tokens: tokens.to_vec(),
        log_probs: vec![-0.5; tokens.len()],
        log_prob_kind: LogProbKind::Tempered,
        temperature: 1.0,
        finish: FinishReason::EndToken,
        text: String::new(),
        policy_version: None,
    }
}

pub fn completion(tokens: &[u32]) -> Completion {
    Completion::from_sample(sample(tokens), 0).unwrap()
}

pub fn group<T>(id: u64, prompt: &[u32], task: T, completions: &[&[u32]]) -> Group<T> {
    Group::new(GroupId(id), Prompt::new(prompt.to_vec(), task), completions.iter().map(|c| completion(c)).collect()).unwrap()
}

pub fn device() -> Device {
    Device::flex().autodiff()
}

pub fn policy(seed: u64, dtype: DType) -> Bigram {
    Bigram::new(6, seed, dtype, &device())
}

/// Three groups; the completions of the last are long enough for the shift.
pub fn groups() -> Vec<Group<()>> {
    vec![
        group(1, &[0, 1], (), &[&[2, 3], &[4], &[1, 1, 5]]),
        group(2, &[3], (), &[&[5, 5], &[0, 2]]),
        group(3, &[2, 2], (), &[&[1, 2, 3, 4], &[5]]),
    ]
}

pub fn advantages() -> Advantages {
    Advantages::PerCompletion(vec![1.0, -0.5, 0.25, 0.75, -0.75, -1.0, 0.5])
}

/// One micro-batch a group.
pub fn cut() -> Vec<Batch> {
    Batch::split(&groups(), &advantages(), 1, 0, &device()).unwrap()
}

/// One token of the loss with an advantage; `len` tokens altogether.
pub fn short(len: usize) -> Vec<Batch> {
    let tokens = vec![1; len];
    vec![Batch::new(&[group(1, &[0], (), &[&tokens, &[2]])], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &device()).unwrap()]
}

pub fn batch_of(groups: &[Group<()>]) -> Batch {
    let n = groups.iter().map(|g| g.completions.len()).sum();
    Batch::new(groups, &Advantages::PerCompletion(vec![0.0; n]), 0, &device()).unwrap()
}
