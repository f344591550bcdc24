//! optim.json

use burn::optim::{AdamWConfig, GradientsParams};
use grpo_core::testing::Table;
use grpo_core::{Schedule, clip_global_norm, to_host};

use super::{Bench, Check, Golden, Library, Step};
use crate::cases::{OptimCase, ScheduleCase, ScheduleKind};
use crate::compare::Compare;
use crate::reference;

impl Golden for OptimCase {
    fn validate(&self) -> Result<(), String> {
        OptimCase::validate(self)
    }

    fn checks(&self) -> Vec<Check<'_>> {
        vec![Check {
            variant: "adamw".to_owned(),
            reference: Box::new(|seen| {
                for (t, step) in reference::optim::adamw(self).into_iter().enumerate() {
                    self.compare(t, step.norm, &step.params, seen);
                }
                Ok(())
            }),
            library: Library::Tensors(Box::new(|bench, seen| self.on_tensors(bench, seen))),
        }]
    }
}

impl OptimCase {
    fn compare(&self, t: usize, norm: f64, params: &[f64], seen: &mut Compare) {
        seen.number(&format!("grad_norm_before_clip, step {t}"), norm, self.grad_norm_before_clip[t]);
        seen.vector(&format!("params, step {t}"), params, self.params_after_each_step.row(t));
    }

    fn on_tensors(&self, bench: &Bench<'_>, seen: &mut Compare) -> Step {
        // burn's AdamW computes its scalars (β, bias corrections) in f32, whatever the parameters are.
        seen.loosen(1e-7);
        let n = self.initial.len();
        let mut module = Table::from_logits(bench.leaf(&self.initial, [n]));
        let mut optimizer = AdamWConfig::new()
            .with_beta_1(self.beta1 as f32)
            .with_beta_2(self.beta2 as f32)
            .with_epsilon(self.eps as f32)
            .with_weight_decay(self.weight_decay as f32)
            .init();
        for t in 0..self.grads.rows {
            let mut gradients = GradientsParams::new();
            gradients.register(module.logits.id, bench.constant(self.grads.row(t), [n]));
            let norm = clip_global_norm(&module, &mut gradients, self.max_grad_norm)?;
            let norm = norm.value.ok_or_else(|| format!("step {t}: a gradient is not finite"))?;
            module = optimizer.step(self.lr, module, gradients);
            let params = to_host(module.logits.val().inner(), "parameters")?;
            self.compare(t, norm, &params, seen);
        }
        Ok(())
    }
}

impl Golden for ScheduleCase {
    fn validate(&self) -> Result<(), String> {
        if self.lr_at_step.is_empty() || self.warmup_steps > self.total_steps {
            return Err("a schedule must have steps, and no more of them in its warm-up than in all".to_owned());
        }
        Ok(())
    }

    fn checks(&self) -> Vec<Check<'_>> {
        vec![Check {
            variant: "schedule".to_owned(),
            reference: Box::new(|seen| {
                let got: Vec<f64> = (0..self.lr_at_step.len()).map(|step| reference::optim::learning_rate(self, step)).collect();
                seen.vector("lr_at_step", &got, &self.lr_at_step);
                Ok(())
            }),
            library: Library::Host(Box::new(|seen| {
                let schedule = self.schedule();
                schedule.validate()?;
                let got: Vec<f64> = (0..self.lr_at_step.len() as u64).map(|step| schedule.at(step)).collect();
                seen.vector("lr_at_step", &got, &self.lr_at_step);
                Ok(())
            })),
        }]
    }
}

impl ScheduleCase {
    fn schedule(&self) -> Schedule {
        let (peak, end, warmup_steps, total_steps) = (self.lr, 0.0, self.warmup_steps as u64, self.total_steps as u64);
        match self.kind {
            ScheduleKind::Cosine => Schedule::Cosine { peak, end, warmup_steps, total_steps },
            ScheduleKind::Linear => Schedule::Linear { peak, end, warmup_steps, total_steps },
            ScheduleKind::ConstantWithWarmup => Schedule::Constant { peak, warmup_steps },
        }
    }
}
