//! AdamW, clipping by the global norm, schedules.

use crate::cases::{OptimCase, ScheduleCase, ScheduleKind};

/// One step's result.
pub(crate) struct Step {
    pub norm: f64,
    pub params: Vec<f64>,
}

/// ```text
/// g ← g · min(1, max / (‖g‖ + 1e-6))
/// m ← β₁ m + (1 − β₁) g        v ← β₂ v + (1 − β₂) g²
/// θ ← θ − lr · wd · θ − lr · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
/// ```
pub(crate) fn adamw(case: &OptimCase) -> Vec<Step> {
    let mut theta = case.initial.clone();
    let (mut m, mut v) = (vec![0.0; theta.len()], vec![0.0; theta.len()]);
    let mut steps = Vec::with_capacity(case.grads.rows);
    for t in 0..case.grads.rows {
        let g = case.grads.row(t);
        let norm = g.iter().map(|g| g * g).sum::<f64>().sqrt();
        let scale = case.max_grad_norm.map_or(1.0, |max| (max / (norm + 1e-6)).min(1.0));
        let power = (t + 1) as i32;
        let (c1, c2) = (1.0 - case.beta1.powi(power), 1.0 - case.beta2.powi(power));
        for i in 0..theta.len() {
            let g = g[i] * scale;
            m[i] = case.beta1 * m[i] + (1.0 - case.beta1) * g;
            v[i] = case.beta2 * v[i] + (1.0 - case.beta2) * g * g;
            theta[i] -= case.lr * case.weight_decay * theta[i];
            theta[i] -= case.lr * (m[i] / c1) / ((v[i] / c2).sqrt() + case.eps);
        }
        steps.push(Step { norm, params: theta.clone() });
    }
    steps
}

/// Linear from 0 over the warm-up; then with s = (step − warmup) / (total − warmup):
/// cosine lr · (1 + cos π s) / 2, linear lr · (1 − s), constant lr.
pub(crate) fn learning_rate(case: &ScheduleCase, step: usize) -> f64 {
    if step < case.warmup_steps {
        return case.lr * step as f64 / case.warmup_steps as f64;
    }
    let s = (step - case.warmup_steps) as f64 / (case.total_steps.saturating_sub(case.warmup_steps)).max(1) as f64;
    match case.kind {
        ScheduleKind::Cosine => case.lr * (1.0 + (std::f64::consts::PI * s).cos()) / 2.0,
        ScheduleKind::Linear => case.lr * (1.0 - s).max(0.0),
        ScheduleKind::ConstantWithWarmup => case.lr,
    }
}
