//! The loss: one masked, normalised path for every variant.
//!
//! ```text
//! x_{i,t} = log π_θ − log π_old                      ratio.rs      masked and bounded before exp
//! ℓ_{i,t} = policy term(x, Â)                        objective.rs
//!         + β · KL term                              kl.rs
//! loss    = Σ_{i,t} w_{i,t} · ℓ_{i,t}                reduce.rs     w is 0 where a token does not take part
//! ```
//!
//! Every reduction is a choice of weights w, made on the host from counts of the whole optimiser step: so cutting a step into
//! micro-batches, or ranks, changes neither the loss nor the gradient.

mod kl;
mod objective;
mod ratio;
mod reduce;

use burn::Tensor;
use burn::tensor::TensorData;

use crate::batch::{Batch, host_f64};
use crate::config::{GrpoConfig, Objective};
use crate::error::{Error, Result};
use crate::metrics::{Metrics, Normaliser};
use crate::policy::Scores;

pub use kl::{KlTerm, kl_term};
pub use objective::{PolicyTerm, clipped};
pub use ratio::{LogRatio, log_ratio};
pub use reduce::{StepStats, weights};

/// The loss of one micro-batch, and what it saw.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LossOutput {
    /// `[1]`: this micro-batch's share of the step's loss. Tracked if the scores are. Shares add up.
    pub loss: Tensor<1>,
    /// Sums behind the step's metrics, still on the device: read them with [`metrics`](Self::metrics), after the backward pass.
    sums: Vec<(&'static str, Tensor<1>)>,
    tokens: usize,
}

impl LossOutput {
    /// Reads the sums back, in one transfer.
    ///
    /// # Errors
    /// A device that failed.
    pub fn metrics(&self) -> Result<Metrics> {
        let values = crate::read::to_host(Tensor::cat(self.sums.iter().map(|(_, s)| s.clone()).collect(), 0), "step metrics")?;
        let mut metrics = Metrics::default();
        for ((name, _), value) in self.sums.iter().zip(values) {
            match *name {
                "loss" => metrics.sum("loss", value, Normaliser::Step),
                name => metrics.mean(name, value, self.tokens as f64, Normaliser::Token),
            }
        }
        Ok(metrics)
    }
}

/// The loss of a micro-batch under the normaliser of its whole step.
///
/// `new` holds `[N, Tc]` log-probabilities of the current policy, in any float type; everything else follows them.
/// Without old log-probabilities, the policy's own, detached, take their place: the ratio is then 1 and has a gradient.
///
/// # Errors
/// A configuration out of range; shapes that do not fit; no old log-probabilities where the rollout is stale or serves
/// several updates; β > 0 and no reference; exact KL and no exact KL in the scores.
///
/// # Source
/// DeepSeekMath (arXiv 2402.03300) eq. 3.
pub fn grpo_loss(new: &Scores, batch: &Batch, step: &StepStats, config: &GrpoConfig) -> Result<LossOutput> {
    config.validate()?;
    let [n, width] = batch.shape();
    Error::check_shape("new log-probs", &new.log_probs.dims(), &[n, width])?;
    if batch.old().is_none() && (batch.is_stale() || config.updates_per_rollout > 1) {
        let why = if batch.is_stale() { "the rollout is older than the policy" } else { "updates_per_rollout is above 1" };
        return Err(Error::invalid("old log-probs", format!("missing, though {why}: call Batch::score_old before the first update")));
    }
    let dtype = new.log_probs.dtype();
    let device = new.log_probs.device().inner();
    let ignored = batch.mask().bool_not(); // [N, Tc]
    let log_probs = new.log_probs.clone().mask_fill(ignored.clone(), 0.0); // [N, Tc]
    let old = match batch.old() {
        Some(old) => old.tensor().cast(dtype).mask_fill(ignored.clone(), 0.0), // [N, Tc]
        None => log_probs.clone().inner(),                                     // [N, Tc]
    };
    let advantages = batch.advantages().cast(dtype); // [N, Tc]

    let x = log_ratio(log_probs.clone() - old, config.log_ratio_bound); // [N, Tc]
    let term = match config.objective {
        Objective::Clipped(clip) => clipped(&x.ratio, &advantages, clip), // [N, Tc]
    };
    let mut per_token = term.loss; // [N, Tc]
    let weight = Tensor::<1>::from_data(TensorData::new(vec![1.0f64], [1]), (&device, dtype)); // [1]
    let counted = |t: Tensor<2>| (t.inner().mask_fill(ignored.clone(), 0.0)).sum() * weight.clone(); // [1]
    let mut sums = vec![
        ("clip_ratio/low_mean", counted(term.clipped_low)),
        ("clip_ratio/high_mean", counted(term.clipped_high)),
        ("importance_ratio/mean", counted(x.ratio.clone())),
        ("importance_ratio/bounded", counted(x.bounded.clone())),
    ];
    if let Some(kl) = config.active_kl() {
        let term = kl_term(kl, new, &log_probs, &x, batch, config.log_ratio_bound)?;
        let value = term.value.mask_fill(ignored.clone(), 0.0); // [N, Tc]
        sums.push(("kl", counted(value.clone())));
        sums.push(("kl/bounded", counted(term.bounded)));
        per_token = per_token + value * kl.coefficient; // [N, Tc]
    }
    if let Some(entropies) = &new.entropies {
        Error::check_shape("entropies", &entropies.dims(), &[n, width])?;
        sums.push(("entropy", counted(entropies.clone())));
    }

    let weights = host_f64(&weights(config.reduction, batch, step), [n, width], &device).cast(dtype); // [N, Tc]
    let loss = (per_token * weights).sum(); // [1]
    sums.push(("loss", loss.clone().inner()));
    Ok(LossOutput { loss, sums, tokens: batch.token_counts().iter().sum() })
}
