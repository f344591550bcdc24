//! kl_estimators.json, kl_exact.json

use burn::Tensor;
use grpo_core::loss::kl_estimate;
use grpo_core::{KlEstimator, KlGradient, KlPenalty, KlPlace, ReferenceRows, ScoreRequest, log_softmax_at, score_from_logits, to_host};

use super::bench::gradient_at;
use super::logits::Fixed;
use super::{Bench, Check, Golden, Library, Step, Stop};
use crate::cases::{Estimator, EstimatorCase, EstimatorResult, ExactCase, Matrix, fits};
use crate::compare::Compare;
use crate::reference::{self, Dual, gradient};

impl Golden for EstimatorCase {
    fn validate(&self) -> Result<(), String> {
        EstimatorCase::validate(self)?;
        self.expected.iter().try_for_each(|result| {
            fits("value", result.value.len(), self.logp.len())?;
            fits("grad_logp", result.grad_logp.len(), self.logp.len())
        })
    }

    fn checks(&self) -> Vec<Check<'_>> {
        let check = |result: &'_ EstimatorResult| {
            let clamp = if result.clamp { " clamped" } else { "" };
            format!("{:?}{clamp}", result.estimator)
        };
        self.expected
            .iter()
            .map(|result| Check {
                variant: check(result),
                reference: Box::new(move |seen| self.on_reference(result, seen)),
                library: Library::Tensors(Box::new(move |bench, seen| self.on_tensors(result, bench, seen))),
            })
            .collect()
    }
}

impl EstimatorCase {
    fn on_reference(&self, result: &EstimatorResult, seen: &mut Compare) -> Step {
        for (i, (&logp, &ref_logp)) in self.logp.iter().zip(&self.ref_logp).enumerate() {
            let out = reference::kl::estimate(result, Dual { value: logp, slope: 1.0 }, ref_logp);
            seen.number(&format!("value[{i}]"), out.value, result.value[i]);
            seen.number(&format!("grad_logp[{i}]"), out.slope, result.grad_logp[i]);
        }
        Ok(())
    }

    fn on_tensors(&self, result: &EstimatorResult, bench: &Bench<'_>, seen: &mut Compare) -> Step {
        let (estimator, gradient) = match result.estimator {
            Estimator::K1 => (KlEstimator::K1, KlGradient::Plain),
            Estimator::Abs => (KlEstimator::Abs, KlGradient::Plain),
            Estimator::K2 => (KlEstimator::K2, KlGradient::Plain),
            Estimator::K3 => (KlEstimator::K3, KlGradient::Plain),
            Estimator::K3WithK2Gradient => (KlEstimator::K3, KlGradient::StraightThrough),
        };
        let when_clamped = |bound: Option<f64>| bound.filter(|_| result.clamp);
        let penalty =
            KlPenalty { coefficient: 1.0, estimator, gradient, place: KlPlace::Loss, value_bound: when_clamped(result.clamp_value) };
        let shape = [1, self.logp.len()];
        let logp: Tensor<2> = bench.leaf(&self.logp, shape);
        let reference = bench.constant(&self.ref_logp, shape);
        let ratio = bench.constant(&vec![1.0; self.logp.len()], shape);
        let term = kl_estimate(&penalty, logp.clone(), reference, &ratio, when_clamped(result.clamp_log_ratio))?;
        let gradients = term.value.clone().sum().backward();
        seen.vector("value", &to_host(term.value, "KL")?, &result.value);
        seen.vector("grad_logp", &gradient_at(&logp, &gradients)?, &result.grad_logp);
        Ok(())
    }
}

impl Golden for ExactCase {
    fn validate(&self) -> Result<(), String> {
        ExactCase::validate(self)?;
        self.policy_logits.same_shape("grad_policy_logits_of_sum", &self.grad_policy_logits_of_sum)?;
        fits("kl_policy_ref", self.kl_policy_ref.len(), self.policy_logits.rows)?;
        fits("kl_ref_policy", self.kl_ref_policy.len(), self.policy_logits.rows)
    }

    fn checks(&self) -> Vec<Check<'_>> {
        vec![
            Check {
                variant: "policy to reference".to_owned(),
                reference: Box::new(|seen| {
                    let (p, q) = (&self.policy_logits, &self.ref_logits);
                    seen.vector("kl_policy_ref", &self.on_reference(p, q), &self.kl_policy_ref);
                    let q = duals(&q.data);
                    let total = |p: &[Dual]| -> Result<Dual, String> {
                        let rows = p.chunks(self.policy_logits.cols).zip(q.chunks(self.policy_logits.cols));
                        Ok(rows.map(|(p, q)| reference::kl::exact(p, q, self.temperature)).sum())
                    };
                    let grad = gradient(&p.data, total)?;
                    seen.matrix("grad_policy_logits_of_sum", p.cols, &grad, &self.grad_policy_logits_of_sum.data);
                    Ok(())
                }),
                library: Library::Tensors(Box::new(|bench, seen| {
                    let (leaf, kl) = self.on_tensors(&self.policy_logits, &self.ref_logits, bench)?;
                    let gradients = kl.clone().sum().backward();
                    seen.vector("kl_policy_ref", &to_host(kl, "KL")?, &self.kl_policy_ref);
                    let grad = gradient_at(&leaf, &gradients)?;
                    seen.matrix("grad_policy_logits_of_sum", self.policy_logits.cols, &grad, &self.grad_policy_logits_of_sum.data);
                    Ok(())
                })),
            },
            Check {
                variant: "reference to policy".to_owned(),
                reference: Box::new(|seen| {
                    seen.vector("kl_ref_policy", &self.on_reference(&self.ref_logits, &self.policy_logits), &self.kl_ref_policy);
                    Ok(())
                }),
                library: Library::Tensors(Box::new(|bench, seen| {
                    let (_, kl) = self.on_tensors(&self.ref_logits, &self.policy_logits, bench)?;
                    seen.vector("kl_ref_policy", &to_host(kl, "KL")?, &self.kl_ref_policy);
                    Ok(())
                })),
            },
        ]
    }
}

fn duals(values: &[f64]) -> Vec<Dual> {
    values.iter().map(|&v| Dual::constant(v)).collect()
}

impl ExactCase {
    fn on_reference(&self, p: &Matrix, q: &Matrix) -> Vec<f64> {
        (0..p.rows).map(|row| reference::kl::exact(&duals(p.row(row)), &duals(q.row(row)), self.temperature).value).collect()
    }

    /// One completion of one token a row, through the library's scoring: the logits as a leaf, and the KL `[N, 1]`.
    fn on_tensors(&self, p: &Matrix, q: &Matrix, bench: &Bench<'_>) -> Result<(Tensor<3>, Tensor<2>), Stop> {
        let shape = [p.rows, 1, p.cols];
        let leaf: Tensor<3> = bench.leaf(&p.data, shape);
        let rows = ReferenceRows::LogProbs(log_softmax_at(bench.constant(&q.data, shape), self.temperature)); // [N, 1, V]
        let mask = Matrix { rows: p.rows, cols: 1, data: vec![1.0; p.rows] };
        let batch = bench.batch(&mask, p.rows, |_, _| 0.0, |_, _| 0, self.temperature)?;
        let ask = ScoreRequest::at(self.temperature);
        let scores = score_from_logits(&Fixed(leaf.clone()), batch.tokens(), &ask.with_kl_to(&rows))?;
        Ok((leaf, scores.kl.ok_or_else(|| "scores hold no KL".to_owned())?))
    }
}
