//! Small policies for tests and first steps.

use burn::Tensor;
use burn::module::{Module, Param};
use burn::tensor::{Device, Int};

use crate::causal::{CausalLogits, score_from_logits};
use crate::error::BoxError;
use crate::policy::{Policy, ScoreRequest, Scores, TokenBatch};

/// A policy that is one row of logits over V tokens, whatever stands before: the smallest thing that can be trained.
#[derive(Module, Debug)]
pub struct Table {
    /// `[V]`
    pub logits: Param<Tensor<1>>,
}

impl Table {
    /// A uniform policy over `vocabulary` tokens.
    pub fn new(vocabulary: usize, device: &Device) -> Self {
        Self::from_logits(Tensor::zeros([vocabulary], device))
    }

    /// A policy with these logits, `[V]`.
    pub fn from_logits(logits: Tensor<1>) -> Self {
        Self { logits: Param::from_tensor(logits) }
    }
}

impl CausalLogits for Table {
    fn logits(&self, tokens: Tensor<2, Int>) -> Result<Tensor<3>, BoxError> {
        let [rows, width] = tokens.dims();
        let v = self.logits.dims()[0];
        Ok(self.logits.val().reshape([1, 1, v]).expand([rows, width, v])) // [R, T, V]
    }

    fn device(&self) -> Device {
        self.logits.val().device()
    }
}

impl Policy for Table {
    fn score(&self, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> Result<Scores, BoxError> {
        score_from_logits(self, batch, ask)
    }
}
