//! One optimiser step, in two halves: [`gradients`] borrows the policy and may fail; [`Update::apply`] takes it and cannot.

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};

use crate::batch::{Batch, Reference};
use crate::config::{GrpoConfig, KlEstimator, OldSource, ZeroGradient};
use crate::error::{Error, Result};
use crate::grad::{accumulate, clip_global_norm};
use crate::loss::{StepStats, grpo_loss};
use crate::metrics::{Metrics, Normaliser};
use crate::policy::{Policy, ScoreRequest};

/// The outcome of [`gradients`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Update {
    /// The metrics of the step.
    pub metrics: Metrics,
    /// The first parameter whose gradient is not finite, if there is one. The step is then skipped.
    pub non_finite: Option<String>,
    /// Whether the step is skipped: a gradient is not finite, or all of it is 0 (no group with a spread, no token that takes part) and
    /// [`ZeroGradient`] says so.
    pub skipped: bool,
    gradients: GradientsParams,
}

impl Update {
    /// Takes the step. A skipped one gives the policy back as it was, and leaves the optimiser's moments as they are.
    pub fn apply<P: Module>(self, optimizer: &mut ModuleOptimizer, learning_rate: f64, policy: P) -> P {
        if self.skipped { policy } else { optimizer.step(learning_rate, policy, self.gradients) }
    }

    /// The gradients of each parameter, clipped: to be looked at.
    pub fn gradients(&self) -> &GradientsParams {
        &self.gradients
    }

    /// The gradients, for optimisers of one's own. Empty if the step is skipped.
    pub fn into_gradients(self) -> GradientsParams {
        if self.skipped { GradientsParams::new() } else { self.gradients }
    }
}

/// The gradients of a whole optimiser step: the sum over its micro-batches, clipped to `max_grad_norm`.
///
/// `policy` is on an autodiff device and trainable. What is shared by all micro-batches (`step`) is counted beforehand, so how
/// the step is cut changes nothing.
///
/// # Errors
/// No batch; a policy that fails or whose scores autodiff does not track; whatever [`grpo_loss`] refuses. Nothing is lost: the
/// policy is only borrowed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use burn::optim::AdamWConfig;
/// use grpo_core::testing::Table;
/// use grpo_core::{Batch, GroupId, GrpoConfig, Row, StepStats, gradients};
/// let device = burn::tensor::Device::flex();
/// let mut policy = Table::new(4, &device.clone().autodiff()); // one row of logits over four tokens
/// let row = |token: &'static [u32], advantage| Row { prompt: 0, group: GroupId(0), tokens: token, mask: vec![true], advantages: vec![advantage] };
/// let batches = [Batch::from_rows(&[&[0]], &[row(&[1], 1.0), row(&[2], -1.0)], 1.0, &device)?];
/// let mut optimizer = AdamWConfig::new().init();
/// let update = gradients(&policy, &batches, &StepStats::of(&batches), &GrpoConfig::default())?;
/// assert_eq!(update.metrics.get("loss"), Some(0.0)); // no sign of health: the gradient is not 0
/// assert!(update.metrics.get("grad_norm").unwrap() > 0.0);
/// policy = update.apply(&mut optimizer, 0.1, policy);
/// # let _ = policy; Ok(()) }
/// ```
pub fn gradients<P: Policy + Module>(policy: &P, batches: &[Batch], step: &StepStats, config: &GrpoConfig) -> Result<Update> {
    config.validate()?;
    if batches.is_empty() {
        return Err(Error::invalid("batches", "none, must be at least one"));
    }
    let (mut sum, mut metrics) = (GradientsParams::new(), Metrics::default());
    for batch in batches {
        let mut ask = ScoreRequest::at(batch.temperature()).with_entropies();
        if config.entropy.bonus != 0.0 {
            ask = ask.with_entropy_gradient();
        }
        if config.kl_in_loss().is_some_and(|kl| kl.estimator == KlEstimator::Exact) {
            let Some(Reference::Rows(rows)) = batch.reference() else {
                return Err(Error::invalid("reference rows", "missing, though the KL is exact: call Batch::score_reference"));
            };
            ask = ask.with_kl_to(rows);
        }
        let scores = policy.score(batch.tokens(), &ask).map_err(Error::Policy)?;
        if !scores.log_probs.is_tracked() {
            return Err(Error::Tracking {
                what: "new log-probs",
                tracked: true,
                hint: "put the policy on `device.autodiff()` and keep its parameters trainable",
            });
        }
        let output = grpo_loss(&scores, batch, step, config)?;
        drop(scores);
        let gradients = GradientsParams::from_grads(output.loss.backward(), policy);
        sum = accumulate(policy, sum, gradients);
        metrics.merge(&output.metrics()?);
    }
    let norm = clip_global_norm(policy, &mut sum, config.max_grad_norm)?;
    if let Some(norm) = norm.value {
        metrics.extreme("grad_norm", norm, Normaliser::Max);
    }
    let skipped = norm.value.is_none_or(|norm| norm == 0.0 && config.zero_gradient == ZeroGradient::Skip);
    metrics.extreme("skipped", f64::from(u8::from(skipped)), Normaliser::Max);
    Ok(Update { metrics, non_finite: norm.non_finite, skipped, gradients: sum })
}

/// Scores a rollout with what stays fixed while it is used, as far as `config` asks for it: old log-probabilities where several updates, a
/// stale rollout or a KL outside the loss need them, and what KL needs of the reference.
///
/// `policy` is the one that the first update will start from, without autodiff (`policy.valid()`).
///
/// # Errors
/// A policy that fails; β > 0 and no `reference`.
pub fn score_old_and_reference<P: Policy + ?Sized>(
    batches: &mut [Batch],
    policy: &P,
    reference: Option<&P>,
    config: &GrpoConfig,
) -> Result<()> {
    let several = config.updates_per_rollout > 1 || config.kl_outside_loss().is_some();
    for batch in batches {
        if config.off_policy.old == OldSource::Trainer && batch.old().is_none() && (several || batch.staleness() > 0) {
            batch.score_old(policy)?;
        }
        if let Some(kl) = config.kl.filter(|kl| kl.coefficient != 0.0) {
            let missing = || Error::invalid("reference", format!("none, though the KL coefficient is {}", kl.coefficient));
            batch.score_reference(reference.ok_or_else(missing)?, kl.estimator)?;
        }
    }
    Ok(())
}

/// The stats of a whole step: counts and, where the configuration needs it ([`GrpoConfig::needs_step`]), one untracked scoring pass
/// for thresholds and means. `policy` is the current one without autodiff (`policy.valid()`).
///
/// # Errors
/// A policy that fails; whatever [`StepStats::observe`] refuses.
pub fn step_stats<P: Policy + ?Sized>(policy: &P, batches: &[Batch], config: &GrpoConfig) -> Result<StepStats> {
    let mut step = StepStats::of(batches);
    if config.needs_step() {
        for batch in batches {
            let ask = ScoreRequest::at(batch.temperature()).with_entropies();
            let scores = policy.score(batch.tokens(), &ask).map_err(Error::Policy)?;
            step.observe(batch, &scores, config)?;
        }
        step.finish(config);
    }
    Ok(step)
}
