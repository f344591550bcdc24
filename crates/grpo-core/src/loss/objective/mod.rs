//! The policy term of one token: one function an objective, one arm here.

mod clipped;
mod covariance;
mod future;
mod group;
mod sequence;
mod weighted;

use burn::Tensor;
use burn::tensor::Bool;

use super::stats::StepStats;
use super::terms::{Event, Terms};
use crate::batch::Batch;
use crate::config::Objective;
use crate::error::Result;

pub use clipped::{clipped, sapo};
pub use covariance::{clip_cov, covariance, kl_cov};
pub use future::fipo;
pub use group::real;
pub use sequence::{gmpo, vespo};
pub use weighted::{cispo, cispo_two_sided, dppo_kl, dppo_tv, dro, importance_sampling, reinforce, threshold_mask};

/// A policy term.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PolicyTerm {
    /// ℓ `[N, Tc]`: minimised. Tracked if the scores are.
    pub loss: Tensor<2>,
    /// What it did, for metrics.
    pub events: Vec<Event>,
}

impl PolicyTerm {
    fn new(loss: Tensor<2>) -> Self {
        Self { loss, events: Vec::new() }
    }

    fn with(mut self, terms: &Terms, name: &'static str, at: Tensor<2, Bool>) -> Self {
        self.events.push(terms.ratio_event(name, at));
        self
    }
}

/// The policy term of the chosen objective.
///
/// At ρ = 1 every one of them has the gradient −Â ∇log π per token, in the mean of a completion for those that are one a
/// completion (GMPO, REAL apart); their *values* there differ and mean nothing.
///
/// # Errors
/// An objective that needs the whole step, and a step that was not observed; one that compares a group's completions, and a group that is cut.
pub fn policy_term(objective: &Objective, terms: &Terms, batch: &Batch, step: &StepStats) -> Result<PolicyTerm> {
    Ok(match *objective {
        Objective::Clipped { clip, dual } => clipped(terms, clip, dual),
        Objective::ImportanceSampling => importance_sampling(terms),
        Objective::Reinforce => reinforce(terms),
        Objective::Cispo { cap } => cispo(terms, cap),
        Objective::CispoTwoSided { clip } => cispo_two_sided(terms, clip),
        Objective::Gmpo { low, high, length_epsilon } => gmpo(terms, low, high, length_epsilon),
        Objective::Sapo { positive, negative } => sapo(terms, positive, negative),
        Objective::Vespo { positive, negative } => vespo(terms, positive, negative),
        Objective::DppoTv { range, cap } => dppo_tv(terms, range, cap),
        Objective::DppoKl { range, cap } => dppo_kl(terms, range, cap),
        Objective::ThresholdMask { threshold } => threshold_mask(terms, threshold),
        Objective::Dro { beta } => dro(terms, beta),
        Objective::ClipCov { clip, low, high, seed, .. } => clip_cov(terms, batch, step, clip, [low, high], seed)?,
        Objective::KlCov { coefficient, .. } => kl_cov(terms, step, coefficient)?,
        Objective::Fipo { clip, half_life, weight_low, weight_high, safety } => {
            fipo(terms, clip, half_life, [weight_low, weight_high], safety)
        }
        Objective::Real { temperature } => real(terms, batch, step, temperature)?,
    })
}
