//! Terms that single out the tokens of highest covariance between advantage and log-probability; both need the whole step.

use burn::Tensor;

use super::PolicyTerm;
use super::clipped::clipped;
use crate::batch::Batch;
use crate::config::{ClipRange, DualClip};
use crate::error::Result;
use crate::loss::stats::{StepStats, draw};
use crate::loss::terms::Terms;

/// c = (Â − mean Â)(log π − mean log π), means over all tokens of the step. A constant.
pub fn covariance(terms: &Terms, mean_advantage: f64, mean_log_prob: f64) -> Tensor<2> {
    (terms.advantages.clone() - mean_advantage) * (terms.log_probs.clone().inner() - mean_log_prob) // [N, Tc]
}

/// The clipped term, 0 at max(1, ⌊ρ N⌋) tokens drawn at random among those that are not clipped and have low < c < high.
///
/// The draw is a function of seed, group, tokens and place: it depends neither on order nor on how the step is cut.
///
/// # Errors
/// A step that was not observed.
///
/// # Source
/// Clip-Cov (arXiv 2505.22617).
pub fn clip_cov(terms: &Terms, batch: &Batch, step: &StepStats, clip: ClipRange, [low, high]: [f64; 2], seed: u64) -> Result<PolicyTerm> {
    let cov = step.covariance()?;
    let c = covariance(terms, cov.mean_advantage, cov.mean_log_prob); // [N, Tc]
    let draws = terms.constant(&draw(batch, seed), batch.shape()); // [N, Tc]
    let candidates = c.clone().greater_elem(low).bool_and(c.lower_elem(high)); // [N, Tc]
    let out = candidates.bool_and(draws.lower_equal_elem(cov.threshold)); // [N, Tc]
    let mut term = clipped(terms, clip, DualClip::None);
    let region = term.events.iter().find(|event| event.name == "clip_ratio/region_mean").map(|event| event.values.clone()); // [N, Tc]
    let out = region.map_or(out.clone(), |region| out.bool_and(region.equal_elem(0.0))); // [N, Tc]
    term.loss = term.loss.mask_fill(out.clone(), 0.0); // [N, Tc]
    Ok(term.with(terms, "clip_cov_ratio", out.bool_and(terms.ignored.clone().bool_not())))
}

/// ℓ = −ρ Â, plus κ |x| at the max(1, ⌊ρ N⌋) tokens of highest c; |x| has derivative 0 at 0.
///
/// # Errors
/// A step that was not observed.
///
/// # Source
/// KL-Cov (arXiv 2505.22617).
pub fn kl_cov(terms: &Terms, step: &StepStats, coefficient: f64) -> Result<PolicyTerm> {
    let cov = step.covariance()?;
    let held = covariance(terms, cov.mean_advantage, cov.mean_log_prob).greater_equal_elem(cov.threshold); // [N, Tc]
    let surrogate = (terms.token.ratio.clone() * terms.advantages.clone()).neg(); // [N, Tc]
    let x = terms.token.log.clone();
    let leash = x.clone() * x.inner().sign() * coefficient; // [N, Tc]: κ |x|
    let loss = surrogate.clone().mask_where(held.clone(), surrogate + leash); // [N, Tc]
    Ok(PolicyTerm::new(loss).with(terms, "kl_cov_ratio", held.bool_and(terms.ignored.clone().bool_not())))
}
