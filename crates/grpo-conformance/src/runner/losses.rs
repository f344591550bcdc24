//! losses.json

use std::collections::BTreeMap;

use burn::Tensor;
use grpo_core::loss::StepStats;
use grpo_core::{Batch, GrpoConfig, Metrics, OldLogProbs, Reference, ReferenceLogProbs, Scores, grpo_loss};

use super::bench::gradient_at;
use super::config::{TINY, trl, trl_step, verl};
use super::{Bench, Check, Golden, Library, Step, Stop};
use crate::cases::{Level, LossCase, LossResult, Matrix};
use crate::compare::Compare;
use crate::reference::{self, Data, Dual, Loss, gradient};

/// What is expected of one loss.
struct Want<'a> {
    loss: f64,
    grad: &'a Matrix,
    metrics: &'a BTreeMap<String, f64>,
}

impl LossResult {
    fn want(&self) -> Want<'_> {
        match self {
            Self::Trl { loss, grad_logp, metrics, .. } | Self::Verl { loss, grad_logp, metrics, .. } => {
                Want { loss: *loss, grad: grad_logp, metrics }
            }
        }
    }

    fn variant(&self) -> String {
        match self {
            Self::Trl { variant, .. } => format!("trl {variant}"),
            Self::Verl { variant, .. } => format!("verl {variant}"),
        }
    }
}

impl Golden for LossCase {
    fn validate(&self) -> Result<(), String> {
        LossCase::validate(self)?;
        self.expected.iter().try_for_each(|result| self.mask.same_shape("grad_logp", result.want().grad))
    }

    fn checks(&self) -> Vec<Check<'_>> {
        let check = |result| Check {
            variant: LossResult::variant(result),
            reference: Box::new(move |seen| self.on_reference(result, seen)),
            library: Library::Tensors(Box::new(move |bench, seen| self.on_tensors(result, bench, seen))),
        };
        self.expected.iter().map(check).collect()
    }
}

impl LossCase {
    fn on_reference(&self, result: &LossResult, seen: &mut Compare) -> Step {
        let data = |token_advantages| Data {
            old: self.old_logp.as_ref(),
            reference: self.ref_logp.as_ref(),
            mask: &self.mask,
            advantages: &self.advantages,
            token_advantages,
        };
        let loss = |logp: &[Dual]| -> Result<Loss, String> {
            match result {
                LossResult::Trl { params, .. } => reference::trl::loss(params, &data(None), logp, None),
                LossResult::Verl { policy_loss, params, .. } => {
                    reference::verl::loss(*policy_loss, params, &data(self.token_advantages.as_ref()), logp)
                }
            }
        };
        let at: Vec<Dual> = self.logp.data.iter().map(|&lp| Dual::constant(lp)).collect();
        let (out, want) = (loss(&at)?, result.want());
        seen.number("loss", out.loss.value, want.loss);
        seen.matrix("grad_logp", self.mask.cols, &gradient(&self.logp.data, |logp| loss(logp).map(|l| l.loss))?, &want.grad.data);
        for (name, &value) in want.metrics {
            let got = out.metrics.get(name.as_str()).copied().ok_or_else(|| format!("no metric `{name}`"))?;
            seen.number(name, got, value);
        }
        Ok(())
    }

    fn on_tensors(&self, result: &LossResult, bench: &Bench<'_>, seen: &mut Compare) -> Step {
        let (config, tokens) = match result {
            LossResult::Trl { params, .. } => (trl(params)?, None),
            LossResult::Verl { policy_loss, params, .. } => (verl(*policy_loss, params, self.mask.cols)?, self.token_advantages.as_ref()),
        };
        let advantage = |row: usize, col: usize| tokens.map_or(self.advantages[row], |a| a.at(row, col));
        let mut batch = bench.batch(&self.mask, self.group_size, advantage, |_, _| 0, 1.0)?;
        if let Some(old) = &self.old_logp {
            batch.set_old(OldLogProbs::new(bench.constant_matrix(old))?)?;
        }
        if let Some(reference) = &self.ref_logp {
            batch.set_reference(Reference::LogProbs(ReferenceLogProbs::new(bench.constant_matrix(reference))?))?;
        }
        let mut step = StepStats::of([&batch]);
        if let LossResult::Trl { params, .. } = result {
            trl_step(params, &mut step)?;
        }
        let logp: Tensor<2> = bench.leaf(&self.logp.data, self.logp.shape());
        let got = run(&Scores::new(logp.clone()), &batch, &step, &config, &logp)?;
        let want = result.want();
        seen.number("loss", got.loss, want.loss);
        seen.matrix("grad_logp", self.mask.cols, &got.gradient, &want.grad.data);
        self.metrics(result, &got.metrics, seen)
    }

    fn metrics(&self, result: &LossResult, got: &Metrics, seen: &mut Compare) -> Step {
        let count = self.mask.places().count() as f64;
        for (name, &value) in result.want().metrics {
            let (ours, factor) = match (result, name.as_str()) {
                (LossResult::Trl { .. }, name) => (name, 1.0),
                // verl's names, and its divisor.
                (LossResult::Verl { policy_loss, .. }, "pg_clipfrac") => {
                    let two_sided = *policy_loss == crate::cases::PolicyLoss::Cispo;
                    (if two_sided { "cispo_clip_ratio" } else { "clip_ratio/region_mean" }, count / (count + TINY))
                }
                (LossResult::Verl { .. }, "pg_clipfrac_lower") => ("clip_ratio/dual_mean", count / (count + TINY)),
                (LossResult::Verl { .. }, name) => (name, count / (count + TINY)),
            };
            let per_row = matches!(result, LossResult::Trl { params, .. } if params.importance_sampling_level == Level::Sequence);
            match got.get(ours) {
                Some(_)
                    if per_row && ours.starts_with("clip_ratio/") && got.normaliser(ours) != Some(grpo_core::Normaliser::Completion) =>
                {
                    seen.leave_out("clip_ratio/* of a sequence's ratio is counted per token, not per completion");
                }
                Some(got) => seen.number(name, got * factor, value),
                None => seen.leave_out(&format!("metric `{name}` is not measured")),
            }
        }
        Ok(())
    }
}

/// What the library says of one micro-batch.
pub(crate) struct Ran {
    pub loss: f64,
    pub gradient: Vec<f64>,
    pub metrics: Metrics,
}

/// The loss, its gradient at `leaf`, and its metrics.
pub(crate) fn run<const D: usize>(
    scores: &Scores,
    batch: &Batch,
    step: &StepStats,
    config: &GrpoConfig,
    leaf: &Tensor<D>,
) -> Result<Ran, Stop> {
    let output = grpo_loss(scores, batch, step, config)?;
    let gradients = output.loss.backward();
    let gradient = gradient_at(leaf, &gradients)?;
    let metrics = output.metrics()?;
    let loss = metrics.get("loss").ok_or_else(|| "no metric `loss`".to_owned())?;
    Ok(Ran { loss, gradient, metrics })
}
