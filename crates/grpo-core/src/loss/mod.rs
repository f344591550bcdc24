//! The loss: one masked, normalised path for every variant.
//!
//! ```text
//! x_{i,t} = log π_θ − log π_old                      ratio.rs        masked and bounded before exp, taken to its level
//! ℓ_{i,t} = policy term(x, Â)                        objective/      one function an objective
//!         × factor                                   correction.rs   sampler weight, rejection, off-policy and top-entropy masks
//!         + β · KL + κ · x²                          kl.rs           neither weighted nor masked by the factor
//! loss    = Σ_{i,t} w_{i,t} · ℓ_{i,t}                reduce.rs       w is 0 where a token does not take part
//!         − c · mean entropy + μ · mean −log π       here            over the step's tokens, over its chosen tokens
//! ```
//!
//! Every reduction is a choice of weights w, made on the host from counts of the whole optimiser step ([`StepStats`]): so cutting a
//! step into micro-batches, or ranks, changes neither the loss nor the gradient.

mod correction;
mod kl;
pub mod objective;
mod ratio;
mod reduce;
mod stats;
mod terms;

use burn::Tensor;

use crate::batch::Batch;
use crate::config::{Addition, GrpoConfig};
use crate::error::{Error, Result};
use crate::metrics::{Metrics, Normaliser};
use crate::policy::Scores;

pub use correction::{Correction, correction};
use kl::kl_seen;
pub use kl::{KlTerm, kl_estimate, kl_term};
pub use objective::{PolicyTerm, policy_term};
pub use ratio::{LogRatio, at_level, log_ratio};
pub use reduce::weights;
pub use stats::{CovarianceStats, StepStats};
pub(crate) use terms::precision;
pub use terms::{Event, Terms};

/// The loss of one micro-batch, and what it saw.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LossOutput {
    /// `[1]`: this micro-batch's share of the step's loss. Tracked if the scores are. Shares add up.
    pub loss: Tensor<1>,
    /// Sums behind the step's metrics, still on the device: read them with [`metrics`](Self::metrics), after the backward pass.
    sums: Vec<Sum>,
}

/// A sum of so many values, `[1]`; for an effective share the sum and the sum of squares, `[2]`.
#[derive(Debug, Clone)]
struct Sum {
    name: &'static str,
    value: Tensor<1>,
    count: usize,
    over: Normaliser,
}

impl LossOutput {
    /// Reads the sums back, in one transfer.
    ///
    /// # Errors
    /// A device that failed.
    pub fn metrics(&self) -> Result<Metrics> {
        let values = crate::read::to_host(Tensor::cat(self.sums.iter().map(|s| s.value.clone()).collect(), 0), "step metrics")?;
        let mut metrics = Metrics::default();
        let mut rest = values.as_slice();
        for &Sum { name, ref value, count, over } in &self.sums {
            let (mine, others) = rest.split_at(value.dims()[0]);
            rest = others;
            match (over, mine) {
                (Normaliser::EffectiveShare, &[sum, squares]) => metrics.effective_share(name, sum, squares, count as f64),
                (Normaliser::Step, &[value]) => metrics.sum(name, value, over),
                // Over no token there is no largest value.
                (Normaliser::Max | Normaliser::Min, _) if count == 0 => {}
                (Normaliser::Max | Normaliser::Min, &[value]) => metrics.extreme(name, value, over),
                (_, &[value]) => metrics.mean(name, value, count as f64, over),
                _ => {}
            }
        }
        Ok(metrics)
    }
}

/// The loss of a micro-batch under the normaliser of its whole step.
///
/// `new` holds `[N, Tc]` log-probabilities of the current policy, in any float type; everything else follows them, in at least 32 bits.
/// Without old log-probabilities, the policy's own, detached, take their place: the ratio is then 1 and has a gradient.
///
/// # Errors
/// A configuration out of range; a batch that `step` does not count; shapes that do not fit; no old log-probabilities where the rollout is stale or serves
/// several updates; a rollout staler than allowed; β > 0 and no reference; scores that lack what was to be asked for.
///
/// # Source
/// DeepSeekMath (arXiv 2402.03300) eq. 3; the order of factors and terms is that of TRL and verl.
pub fn grpo_loss(new: &Scores, batch: &Batch, step: &StepStats, config: &GrpoConfig) -> Result<LossOutput> {
    config.validate()?;
    batch.check_fresh(config)?;
    step.check_holds(batch)?;
    let terms = Terms::new(new, batch, config)?;
    let mut sums = Sums { terms: &terms, tokens: batch.token_counts().iter().sum(), sums: Vec::new() };

    let policy = policy_term(&config.objective, &terms, batch, step)?;
    sums.extend(policy.events);
    sums.push("importance_ratio/mean", terms.token.raw.clone().inner().clamp(-60.0, 60.0).exp());
    sums.push("importance_ratio/bounded", terms.level.bounded.clone());
    sums.push("ppo_kl", terms.token.raw.clone().neg());
    sums.maximum("importance_ratio/max", terms.token.raw.clone().inner().clamp(-60.0, 60.0).exp());
    let mut per_token = policy.loss; // [N, Tc]

    if config.entropy.top_fraction.is_some_and(|fraction| fraction < 1.0) {
        let kept = terms.indicator(entropies(new)?.inner().greater_equal_elem(step.entropy_threshold()?)); // [N, Tc]
        sums.push("entropy/kept_ratio", kept.clone());
        per_token = per_token * kept;
    }
    let correction = correction(&config.off_policy, &terms, batch, step)?;
    sums.extend(correction.events);
    if let Some(factor) = correction.factor {
        per_token = per_token * factor;
    }
    if let Some(penalty) = config.kl_in_loss() {
        let kl = kl_term(&penalty, new, &terms, batch, config.log_ratio_bound)?;
        sums.push("kl", kl.value.clone());
        sums.maximum("kl/max", kl.value.clone());
        sums.push("kl/bounded", kl.bounded);
        per_token = per_token + kl.value * penalty.coefficient; // [N, Tc]
    }
    if let Some(penalty) = config.kl_outside_loss() {
        sums.push("kl", kl_seen(&penalty, &terms, batch)?);
    }
    for addition in &config.additions {
        if let Addition::SquaredDrift { coefficient } = addition {
            let drift = terms.token.raw.clone().square(); // [N, Tc]
            sums.push("squared_drift", drift.clone());
            per_token = per_token + drift * *coefficient; // [N, Tc]
        }
    }

    let weights = terms.constant(&weights(config, batch, step), batch.shape()); // [N, Tc]
    let mut loss = (per_token * weights).sum(); // [1]
    if new.entropies.is_some() || config.entropy.bonus != 0.0 {
        let entropies = entropies(new)?.mask_fill(terms.ignored.clone(), 0.0); // [N, Tc]
        sums.push("entropy", entropies.clone());
        if config.entropy.bonus != 0.0 && step.tokens > 0 {
            loss = loss - entropies.sum() * (config.entropy.bonus / step.tokens as f64);
        }
    }
    for addition in &config.additions {
        if let Addition::CrossEntropy { coefficient } = addition {
            let chosen = batch.chosen().ok_or_else(|| {
                Error::invalid(
                    "chosen tokens",
                    "not said, though additions hold cross_entropy: call Batch::choose (all false chooses none)",
                )
            })?; // [N, Tc]
            let picked = new.log_probs.clone().cast(terms.dtype()).mask_fill(chosen.bool_not(), 0.0); // [N, Tc]
            let count = batch.chosen_host().map_or(0, |chosen| chosen.iter().filter(|&&c| c).count());
            let value = picked.clone().inner().sum().neg(); // [1]
            sums.sums.push(Sum { name: "cross_entropy", value, count, over: Normaliser::Token });
            loss = loss - picked.sum() * (coefficient / step.chosen.max(1) as f64);
        }
    }
    let mut sums = sums.sums;
    sums.push(Sum { name: "loss", value: loss.clone().inner(), count: 1, over: Normaliser::Step });
    Ok(LossOutput { loss, sums })
}

fn entropies(scores: &Scores) -> Result<Tensor<2>> {
    let entropies =
        scores.entropies.clone().ok_or_else(|| Error::invalid("scores", "hold no entropies: score with ScoreRequest::with_entropies"))?;
    Error::check_shape("entropies", &entropies.dims(), &scores.log_probs.dims())?;
    Ok(entropies.cast(precision(scores.log_probs.dtype())))
}

/// Sums over the tokens of the loss, kept on the device.
struct Sums<'a> {
    terms: &'a Terms,
    tokens: usize,
    sums: Vec<Sum>,
}

impl Sums<'_> {
    fn push(&mut self, name: &'static str, values: Tensor<2>) {
        let value = values.inner().mask_fill(self.terms.ignored.clone(), 0.0).sum(); // [1]
        self.sums.push(Sum { name, value, count: self.tokens, over: Normaliser::Token });
    }

    fn effective_share(&mut self, name: &'static str, weights: Tensor<2>) {
        let weights = weights.inner().mask_fill(self.terms.ignored.clone(), 0.0); // [N, Tc]
        let value = Tensor::cat(vec![weights.clone().sum(), weights.square().sum()], 0); // [2]
        self.sums.push(Sum { name, value, count: self.tokens, over: Normaliser::EffectiveShare });
    }

    fn maximum(&mut self, name: &'static str, values: Tensor<2>) {
        // Not 0: a largest value may be negative.
        let value = values.inner().mask_fill(self.terms.ignored.clone(), f64::from(f32::MIN)).max(); // [1]
        self.sums.push(Sum { name, value, count: self.tokens, over: Normaliser::Max });
    }

    fn minimum(&mut self, name: &'static str, values: Tensor<2>) {
        let value = values.inner().mask_fill(self.terms.ignored.clone(), f64::from(f32::MAX)).min(); // [1]
        self.sums.push(Sum { name, value, count: self.tokens, over: Normaliser::Min });
    }

    fn extend(&mut self, events: Vec<Event>) {
        for Event { name, values, over } in events {
            match over {
                Normaliser::Completion => {
                    let count = values.dims()[0];
                    self.sums.push(Sum { name, value: values.inner().sum(), count, over });
                }
                Normaliser::EffectiveShare => self.effective_share(name, values),
                Normaliser::Max => self.maximum(name, values),
                Normaliser::Min => self.minimum(name, values),
                _ => self.push(name, values),
            }
        }
    }
}
