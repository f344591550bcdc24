//! optim.json

use serde::Deserialize;

use super::{Matrix, case, fits};

case! {
    /// AdamW steps on one vector.
    OptimCase {
        lr: f64,
        beta1: f64,
        beta2: f64,
        eps: f64,
        weight_decay: f64,
        max_grad_norm: Option<f64>,
        initial: Vec<f64>,
        grads: Matrix,
        grad_norm_before_clip: Vec<f64>,
        params_after_each_step: Matrix,
    }
}

impl OptimCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        fits("a row of grads", self.grads.cols, self.initial.len())?;
        fits("grad_norm_before_clip", self.grad_norm_before_clip.len(), self.grads.rows)?;
        self.grads.same_shape("params_after_each_step", &self.params_after_each_step)
    }
}

case! {
    /// The learning rate at every step.
    ScheduleCase {
        kind: ScheduleKind,
        lr: f64,
        warmup_steps: usize,
        total_steps: usize,
        lr_at_step: Vec<f64>,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScheduleKind {
    Cosine,
    Linear,
    ConstantWithWarmup,
}
