//! logits.json

use burn::Tensor;
use burn::tensor::{Device, Int, TensorData};
use grpo_core::loss::StepStats;
use grpo_core::{
    Batch, BoxError, CausalLogits, OldLogProbs, Reference, ReferenceLogProbs, ScoreRequest, Scores, score_from_logits, to_host,
};

use super::bench::gradient_at;
use super::config::{trl, trl_step};
use super::losses::run;
use super::{Bench, Check, Golden, Library, Step, Stop};
use crate::cases::{Cube, LogitsCase, LogitsResult};
use crate::compare::Compare;
use crate::reference::{Dual, gradient, softmax};

/// A model that says the same whatever it reads: logits `[N, Tc, V]` of each completion token.
pub(crate) struct Fixed(pub Tensor<3>);

impl CausalLogits for Fixed {
    fn logits(&self, _tokens: Tensor<2, Int>) -> Result<Tensor<3>, BoxError> {
        let [n, _, v] = self.0.dims();
        // Behind one prompt token, what predicts completion token k stands at place k; the last place predicts nothing.
        let last = Tensor::zeros([n, 1, v], (&self.0.device(), self.0.dtype())); // [N, 1, V]
        Ok(Tensor::cat(vec![self.0.clone(), last], 1)) // [N, Tc + 1, V]
    }

    fn device(&self) -> Device {
        self.0.device()
    }
}

impl Golden for LogitsCase {
    fn validate(&self) -> Result<(), String> {
        LogitsCase::validate(self)?;
        self.mask.same_shape("logp", &self.logp)?;
        self.mask.same_shape("entropy", &self.entropy)?;
        let fits = |cube: &Cube| {
            if cube.shape() == self.logits.shape() { Ok(()) } else { Err("a gradient by logits has another shape than they".to_owned()) }
        };
        fits(&self.grad_of_masked_logp_sum)?;
        fits(&self.grad_of_masked_entropy_sum)?;
        self.expected.iter().try_for_each(|result| fits(&result.grad_logits))
    }

    fn checks(&self) -> Vec<Check<'_>> {
        let mut checks = vec![
            Check {
                variant: "log-probs".to_owned(),
                reference: Box::new(|seen| {
                    seen.matrix("logp", self.mask.cols, &values(&self.score(&self.at()).0), &self.logp.data);
                    self.gradient("grad_of_masked_logp_sum", &self.grad_of_masked_logp_sum, seen, |z| {
                        Ok(softmax::masked_sum(&self.mask, &self.score(z).0))
                    })
                }),
                library: Library::Tensors(Box::new(|bench, seen| {
                    let (leaf, _, scores) = self.scored(bench)?;
                    seen.matrix("logp", self.mask.cols, &to_host(scores.log_probs.clone(), "log-probs")?, &self.logp.data);
                    self.backward("grad_of_masked_logp_sum", bench, scores.log_probs, &leaf, &self.grad_of_masked_logp_sum, seen)
                })),
            },
            Check {
                variant: "entropies".to_owned(),
                reference: Box::new(|seen| {
                    seen.matrix("entropy", self.mask.cols, &values(&self.score(&self.at()).1), &self.entropy.data);
                    self.gradient("grad_of_masked_entropy_sum", &self.grad_of_masked_entropy_sum, seen, |z| {
                        Ok(softmax::masked_sum(&self.mask, &self.score(z).1))
                    })
                }),
                library: Library::Tensors(Box::new(|bench, seen| {
                    let (leaf, _, scores) = self.scored(bench)?;
                    let entropies = scores.entropies.ok_or_else(|| "scores hold no entropies".to_owned())?;
                    seen.matrix("entropy", self.mask.cols, &to_host(entropies.clone(), "entropies")?, &self.entropy.data);
                    self.backward("grad_of_masked_entropy_sum", bench, entropies, &leaf, &self.grad_of_masked_entropy_sum, seen)
                })),
            },
        ];
        checks.extend(self.expected.iter().map(|result| Check {
            variant: result.variant.clone(),
            reference: Box::new(move |seen| self.loss_on_reference(result, seen)),
            library: Library::Tensors(Box::new(move |bench, seen| self.loss_on_tensors(result, bench, seen))),
        }));
        checks
    }
}

fn values(duals: &[Dual]) -> Vec<f64> {
    duals.iter().map(|d| d.value).collect()
}

impl LogitsCase {
    fn at(&self) -> Vec<Dual> {
        self.logits.data.iter().map(|&z| Dual::constant(z)).collect()
    }

    fn score(&self, logits: &[Dual]) -> (Vec<Dual>, Vec<Dual>) {
        softmax::score(self, logits)
    }

    fn gradient(&self, what: &str, want: &Cube, seen: &mut Compare, f: impl Fn(&[Dual]) -> Result<Dual, String>) -> Step {
        seen.matrix(what, self.logits.depth, &gradient(&self.logits.data, f)?, &want.data);
        Ok(())
    }

    fn loss_on_reference(&self, result: &LogitsResult, seen: &mut Compare) -> Step {
        let loss = |z: &[Dual]| softmax::loss(self, result, z).map(|l| l.loss);
        seen.number("loss", loss(&self.at())?.value, result.loss);
        if let (Some(mask), Some(q)) = (&result.entropy_mask, result.params.top_entropy_quantile) {
            let kept = softmax::top_entropy_mask(&self.mask, &values(&self.score(&self.at()).1), q);
            seen.matrix("entropy_mask", self.mask.cols, &kept.data, &mask.data);
        }
        self.gradient("grad_logits", &result.grad_logits, seen, loss)
    }

    /// The logits as a leaf, the batch, and what the library's scoring makes of them.
    fn scored(&self, bench: &Bench<'_>) -> Result<(Tensor<3>, Batch, Scores), Stop> {
        let leaf: Tensor<3> = bench.leaf(&self.logits.data, self.logits.shape());
        let action = |row, col| u32::try_from(self.action(row, col)).unwrap_or(u32::MAX);
        let batch = bench.batch(&self.mask, self.mask.rows, |row, _| self.advantages[row], action, self.temperature)?;
        let scores = score_from_logits(&Fixed(leaf.clone()), batch.tokens(), &ScoreRequest::at(self.temperature).with_entropies())?;
        Ok((leaf, batch, scores))
    }

    fn backward(&self, what: &str, bench: &Bench<'_>, summands: Tensor<2>, leaf: &Tensor<3>, want: &Cube, seen: &mut Compare) -> Step {
        let ignored: Vec<bool> = self.mask.data.iter().map(|m| *m == 0.0).collect();
        let ignored = Tensor::from_data(TensorData::new(ignored, self.mask.shape()), &bench.device.clone().inner()); // [N, Tc]
        let gradients = summands.mask_fill(ignored, 0.0).sum().backward();
        seen.matrix(what, self.logits.depth, &gradient_at(leaf, &gradients)?, &want.data);
        Ok(())
    }

    fn loss_on_tensors(&self, result: &LogitsResult, bench: &Bench<'_>, seen: &mut Compare) -> Step {
        let config = trl(&result.params)?;
        let (leaf, mut batch, scores) = self.scored(bench)?;
        batch.set_old(OldLogProbs::new(bench.constant_matrix(&self.old_logp))?)?;
        batch.set_reference(Reference::LogProbs(ReferenceLogProbs::new(bench.constant_matrix(&self.ref_logp))?))?;
        let mut step = StepStats::of([&batch]);
        if config.needs_step() {
            step.observe(&batch, &scores, &config)?;
            step.finish(&config);
        }
        trl_step(&result.params, &mut step)?;
        let got = run(&scores, &batch, &step, &config, &leaf)?;
        seen.number("loss", got.loss, result.loss);
        seen.matrix("grad_logits", self.logits.depth, &got.gradient, &result.grad_logits.data);
        if let Some(mask) = &result.entropy_mask {
            let kept = mask.data.iter().sum::<f64>() / self.mask.places().count().max(1) as f64;
            seen.number("share of tokens kept", got.metrics.get("entropy/kept_ratio").unwrap_or(f64::NAN), kept);
        }
        Ok(())
    }
}
