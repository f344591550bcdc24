//! The demo of the sources: a row of logits, one group, SGD.

use super::advantages::scalar;
use super::softmax::log_softmax;
use super::{Dual, gradient, kl};
use crate::cases::{BanditCase, Method, ScalarParams, Scale, Singleton};

/// What is known before a step and the logits after it.
pub(crate) struct Step {
    pub loss: f64,
    pub kl: f64,
    pub grad: Vec<f64>,
    pub logits_after: Vec<f64>,
}

/// (r − mean) / (std + ε)
pub(crate) fn advantages(case: &BanditCase) -> Vec<f64> {
    let params = ScalarParams {
        scale: Scale::Group,
        eps: case.params.eps,
        ddof: case.params.ddof,
        singleton: Singleton::Zero,
        normalize_by_std: false,
    };
    scalar(Method::Grpo, &params, &case.rewards, case.rewards.len())
}

/// −mean(min(ρ A, clip(ρ) A)) + β KL(π ‖ π_ref), ρ against the first policy, descended step by step.
pub(crate) fn replay(case: &BanditCase) -> Vec<Step> {
    let p = &case.params;
    let constants = |values: &[f64]| values.iter().map(|&v| Dual::constant(v)).collect::<Vec<_>>();
    let reference = constants(&case.ref_logits);
    let old = log_softmax(&constants(&case.logits), 1.0);
    let advantages = advantages(case);
    let divergence = |logits: &[Dual]| kl::exact(logits, &reference, 1.0);
    let objective = |logits: &[Dual]| {
        let new = log_softmax(logits, 1.0);
        let mut total = Dual::ZERO;
        for (&token, &a) in case.tokens.iter().zip(&advantages) {
            let ratio = (new[token as usize] - old[token as usize].held()).exp();
            total = total - (ratio * a).min(ratio.clamp(1.0 - p.clip_low, 1.0 + p.clip_high) * a);
        }
        total / case.tokens.len() as f64 + divergence(logits) * p.beta
    };
    let mut logits = case.logits.clone();
    let mut steps = Vec::with_capacity(case.steps.len());
    for _ in 0..case.steps.len() {
        let at = constants(&logits);
        let grad = gradient(&logits, |z| Ok::<_, std::convert::Infallible>(objective(z))).unwrap_or_default();
        let (loss, kl) = (objective(&at).value, divergence(&at).value);
        logits = logits.iter().zip(&grad).map(|(z, g)| z - p.lr * g).collect();
        steps.push(Step { loss, kl, grad, logits_after: logits.clone() });
    }
    steps
}

/// π(token) under logits.
pub(crate) fn probability(logits: &[f64], token: usize) -> f64 {
    let at: Vec<Dual> = logits.iter().map(|&v| Dual::constant(v)).collect();
    log_softmax(&at, 1.0)[token].value.exp()
}
