//! bandit.json

use burn::module::Module;
use burn::optim::SgdConfig;
use grpo_core::testing::Table;
use grpo_core::{
    Batch, ClipRange, Estimator, GroupId, GrpoConfig, KlEstimator, KlPenalty, Objective, Policy, Reduction, Reference, ReferenceRows,
    ScoreRequest, Standardise, StepStats, gradients, to_host,
};

use super::{Bench, Check, Golden, Library, Step, Stop};
use crate::cases::{BanditCase, Matrix, fits};
use crate::compare::Compare;
use crate::reference;

impl Golden for BanditCase {
    fn validate(&self) -> Result<(), String> {
        BanditCase::validate(self)?;
        fits("advantages", self.advantages.len(), self.tokens.len())
    }

    fn checks(&self) -> Vec<Check<'_>> {
        vec![Check {
            variant: String::new(),
            reference: Box::new(|seen| self.on_reference(seen)),
            library: Library::Tensors(Box::new(|bench, seen| self.on_tensors(bench, seen))),
        }]
    }
}

impl BanditCase {
    fn on_reference(&self, seen: &mut Compare) -> Step {
        seen.vector("advantages", &reference::bandit::advantages(self), &self.advantages);
        let steps = reference::bandit::replay(self);
        for (k, (got, want)) in steps.iter().zip(&self.steps).enumerate() {
            seen.number(&format!("loss, step {k}"), got.loss, want.loss);
            seen.number(&format!("kl, step {k}"), got.kl, want.kl);
            seen.vector(&format!("grad, step {k}"), &got.grad, &want.grad);
            seen.vector(&format!("logits_after, step {k}"), &got.logits_after, &want.logits_after);
        }
        let last = steps.last().ok_or_else(|| "no step".to_owned())?;
        let probability = reference::bandit::probability(&last.logits_after, self.params.good_token);
        seen.number("final_probability_of_good", probability, self.final_probability_of_good);
        Ok(())
    }

    /// The loop that a user writes: rewards, advantages, batch, gradients, step.
    fn on_tensors(&self, bench: &Bench<'_>, seen: &mut Compare) -> Step {
        let p = &self.params;
        let rewards: Vec<Option<f64>> = self.rewards.iter().map(|&r| Some(r)).collect();
        let estimator =
            Estimator::Standardise(Standardise { ddof: super::advantages::ddof(p.ddof), epsilon: p.eps, ..Standardise::default() });
        let advantages = super::advantages::per_completion(estimator.advantages(&rewards, &vec![GroupId(0); rewards.len()])?)?;
        seen.vector("advantages", &advantages, &self.advantages);

        let mask = Matrix { rows: self.tokens.len(), cols: 1, data: vec![1.0; self.tokens.len()] };
        let mut batch = bench.batch(&mask, self.tokens.len(), |row, _| advantages[row], |row, _| self.tokens[row], 1.0)?;
        let mut policy = Table::from_logits(bench.leaf(&self.logits, [self.logits.len()]));
        batch.score_old(&policy.valid())?;
        batch.score_reference(&Table::from_logits(bench.constant(&self.ref_logits, [self.logits.len()])), KlEstimator::Exact)?;
        let config = GrpoConfig {
            objective: Objective::clipped(ClipRange { low: p.clip_low, high: p.clip_high }),
            kl: Some(KlPenalty::exact(p.beta)),
            reduction: Reduction::TokenMean,
            updates_per_rollout: self.steps.len(),
            max_grad_norm: None,
            ..GrpoConfig::default()
        };
        let mut optimizer = SgdConfig::new().init();
        for (k, want) in self.steps.iter().enumerate() {
            seen.number(&format!("kl, step {k}"), divergence(&policy.valid(), &batch)?, want.kl);
            let step = StepStats::of([&batch]);
            let update = gradients(&policy, std::slice::from_ref(&batch), &step, &config)?;
            let loss = update.metrics.get("loss").ok_or_else(|| "no metric `loss`".to_owned())?;
            seen.number(&format!("loss, step {k}"), loss, want.loss);
            let grad = update.gradients().get::<1>(policy.logits.id).ok_or_else(|| format!("step {k}: no gradient"))?;
            seen.vector(&format!("grad, step {k}"), &to_host(grad, "gradient")?, &want.grad);
            policy = update.apply(&mut optimizer, p.lr, policy);
            let logits = to_host(policy.logits.val().inner(), "logits")?;
            seen.vector(&format!("logits_after, step {k}"), &logits, &want.logits_after);
        }
        let logits = to_host(policy.logits.val().inner(), "logits")?;
        let probability = reference::bandit::probability(&logits, p.good_token);
        seen.number("final_probability_of_good", probability, self.final_probability_of_good);
        Ok(())
    }
}

/// KL(π ‖ π_ref), the same at every place: the mean over the batch.
fn divergence(policy: &Table, batch: &Batch) -> Result<f64, Stop> {
    let Some(Reference::Rows(rows @ ReferenceRows::LogProbs(_))) = batch.reference() else {
        return Err(Stop::Broken("the batch holds no reference rows".to_owned()));
    };
    let scores = policy.score(batch.tokens(), &ScoreRequest::at(batch.temperature()).with_kl_to(rows))?;
    let kl = to_host(scores.kl.ok_or_else(|| "scores hold no KL".to_owned())?, "KL")?;
    Ok(kl.iter().sum::<f64>() / kl.len() as f64)
}
