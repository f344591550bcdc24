//! What must be known of the whole optimiser step before its first micro-batch.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::config::{GrpoConfig, Objective, WeightNormalisation};
use crate::error::{Error, Result};
use crate::group::GroupId;
use crate::policy::Scores;
use crate::read::to_host;
use crate::sampler::group_seed;

use super::correction::sampler_weight;
use super::entropies;
use super::terms::Terms;

/// The whole optimiser step, over all its micro-batches and ranks: counts, which are the normaliser of every reduction, and what
/// some objectives and masks need besides ([`observe`](Self::observe)).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepStats {
    /// Completions, those without a token of the loss included.
    pub completions: usize,
    /// Completions with a token of the loss.
    pub non_empty: usize,
    /// Tokens of the loss.
    pub tokens: usize,
    /// Chosen tokens: see [`Batch::choose`].
    pub chosen: usize,
    /// Micro-batches.
    pub micro_batches: usize,
    /// Groups that hold completions with an advantage above 0 and others.
    pub mixed_groups: BTreeSet<GroupId>,
    /// Tokens of the loss in each group that has any.
    pub group_tokens: BTreeMap<GroupId, usize>,
    observed: Observed,
}

/// Values of each token of the step, in the order they were observed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Observed {
    advantages: Vec<f64>,
    log_probs: Vec<f64>,
    candidates: Vec<bool>,
    draws: Vec<f64>,
    entropies: Vec<f64>,
    weights: Vec<f64>,
    entropy_threshold: Option<f64>,
    mean_weight: Option<f64>,
    covariance: Option<CovarianceStats>,
}

/// What covariances are measured against.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CovarianceStats {
    /// Mean advantage over the step's tokens.
    pub mean_advantage: f64,
    /// Mean log-probability over the step's tokens.
    pub mean_log_prob: f64,
    /// KL-Cov: covariances from here upwards are held. Clip-Cov: draws up to here are taken out.
    pub threshold: f64,
}

impl StepStats {
    /// Counts the micro-batches of a step.
    pub fn of<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Self {
        let mut stats = Self::default();
        for batch in batches {
            stats.micro_batches += 1;
            stats.chosen += batch.chosen_host().map_or(0, |chosen| chosen.iter().filter(|&&c| c).count());
            for (&group, count) in batch.groups().iter().zip(batch.token_counts()) {
                stats.completions += 1;
                stats.tokens += count;
                if count > 0 {
                    stats.non_empty += 1;
                    *stats.group_tokens.entry(group).or_default() += count;
                }
            }
            stats.mixed_groups.extend(batch.mixed_groups());
        }
        stats
    }

    /// Refuses a micro-batch that these stats cannot have counted.
    pub(crate) fn check_holds(&self, batch: &Batch) -> Result<()> {
        let here = Self::of([batch]);
        let counted = here.group_tokens.iter().all(|(group, &tokens)| self.group_tokens.get(group).is_some_and(|&all| tokens <= all));
        if counted && here.completions <= self.completions && here.chosen <= self.chosen {
            return Ok(());
        }
        let problem = format!(
            "count {} completions and {} tokens of {} groups, but not this micro-batch's {} and {}: count all of the step's batches",
            self.completions,
            self.tokens,
            self.group_tokens.len(),
            here.completions,
            here.tokens
        );
        Err(Error::invalid("step stats", problem))
    }

    /// The stats of two shares of a step (two ranks, two halves) together. Observations are joined, too; thresholds and means of the shares
    /// are dropped: [`finish`](Self::finish) takes those of the whole.
    pub fn merge(mut self, other: Self) -> Self {
        self.completions += other.completions;
        self.non_empty += other.non_empty;
        self.tokens += other.tokens;
        self.chosen += other.chosen;
        self.micro_batches += other.micro_batches;
        for (group, tokens) in other.group_tokens {
            *self.group_tokens.entry(group).or_default() += tokens;
        }
        self.mixed_groups.extend(other.mixed_groups);
        let (mine, theirs) = (&mut self.observed, other.observed);
        (mine.entropy_threshold, mine.mean_weight, mine.covariance) = (None, None, None);
        mine.advantages.extend(theirs.advantages);
        mine.log_probs.extend(theirs.log_probs);
        mine.candidates.extend(theirs.candidates);
        mine.draws.extend(theirs.draws);
        mine.entropies.extend(theirs.entropies);
        mine.weights.extend(theirs.weights);
        self
    }

    /// Takes in a micro-batch's scores, untracked, for objectives and masks that depend on the whole step
    /// ([`GrpoConfig::needs_step`]): covariances, entropies, weights. After the last one call [`finish`](Self::finish).
    /// [`step_stats`](crate::step_stats) does all of it.
    ///
    /// # Errors
    /// Scores that do not fit or lack entropies that are needed; a device that failed.
    pub fn observe(&mut self, batch: &Batch, scores: &Scores, config: &GrpoConfig) -> Result<()> {
        let terms = Terms::new(scores, batch, config)?;
        let mask = batch.mask_host();
        let keep = |values: Vec<f64>| -> Vec<f64> { values.into_iter().zip(mask).filter(|&(_, &m)| m).map(|(v, _)| v).collect() };
        let seen = &mut self.observed;
        if config.objective.needs_step() {
            seen.advantages.extend(keep(batch.advantages_host().to_vec()));
            seen.log_probs.extend(keep(to_host(terms.log_probs.clone().inner(), "log-probs")?));
            if let Objective::ClipCov { clip, seed, .. } = config.objective {
                let ratios = keep(to_host(terms.level.ratio.clone().inner(), "ratios")?);
                let advantages = keep(batch.advantages_host().to_vec());
                let clipped = |(r, a): (f64, f64)| (r < 1.0 - clip.low && a < 0.0) || (r > 1.0 + clip.high && a > 0.0);
                seen.candidates.extend(ratios.into_iter().zip(advantages).map(|pair| !clipped(pair)));
                seen.draws.extend(keep(draw(batch, seed)));
            }
        }
        if config.entropy.top_fraction.is_some() {
            seen.entropies.extend(keep(to_host(entropies(scores)?.inner(), "entropies")?));
        }
        if let Some(weight) = config.off_policy.weight.filter(|w| w.normalise == WeightNormalisation::StepMean) {
            let sampler = batch.sampler_log_probs(config.off_policy.accept)?.cast(terms.dtype()).mask_fill(terms.ignored.clone(), 0.0);
            let (_, bounded) = sampler_weight(&weight, &terms, terms.old.clone() - sampler);
            seen.weights.extend(keep(to_host(bounded, "sampler weights")?));
        }
        Ok(())
    }

    /// Turns observations into thresholds and means.
    pub fn finish(&mut self, config: &GrpoConfig) {
        let seen = &mut self.observed;
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
        if let Some(fraction) = config.entropy.top_fraction {
            seen.entropy_threshold = Some(quantile(&seen.entropies, 1.0 - fraction));
        }
        if config.off_policy.weight.is_some_and(|w| w.normalise == WeightNormalisation::StepMean) {
            seen.mean_weight = Some(mean(&seen.weights)).filter(|mean| *mean > 0.0).or(Some(1.0));
        }
        let (mean_advantage, mean_log_prob) = (mean(&seen.advantages), mean(&seen.log_probs));
        let covariance = |(a, l): (&f64, &f64)| (a - mean_advantage) * (l - mean_log_prob);
        let covariances = || seen.advantages.iter().zip(&seen.log_probs).map(covariance);
        let threshold = match config.objective {
            Objective::KlCov { fraction, .. } => {
                let mut largest: Vec<f64> = covariances().collect();
                largest.sort_by(|a, b| b.total_cmp(a));
                let (held, others) = largest.split_at(count(fraction, largest.len()).min(largest.len()));
                // Half way to the first that is not held: a device of 32 bits, which rounds otherwise than the host, holds the same tokens.
                // Of equal ones none is held rather than more than the share.
                others.first().map_or(f64::NEG_INFINITY, |&next| {
                    held.iter().rev().find(|c| **c > next).map_or(f64::INFINITY, |last| (last + next) / 2.0)
                })
            }
            Objective::ClipCov { fraction, low, high, .. } => {
                let draws = covariances().zip(&seen.draws).zip(&seen.candidates);
                let mut draws: Vec<f64> = draws.filter(|&((c, _), &ok)| ok && c > low && c < high).map(|((_, &u), _)| u).collect();
                draws.sort_by(f64::total_cmp);
                let take = count(fraction, seen.advantages.len()).min(draws.len());
                if take == 0 { -1.0 } else { draws[take - 1] }
            }
            _ => return,
        };
        seen.covariance = Some(CovarianceStats { mean_advantage, mean_log_prob, threshold });
    }

    /// The smallest entropy that keeps its policy term, if a mask is in force.
    ///
    /// # Errors
    /// A step that was not observed.
    pub fn entropy_threshold(&self) -> Result<f64> {
        self.observed.entropy_threshold.ok_or_else(|| not_observed("entropy threshold"))
    }

    /// What covariances are measured against.
    ///
    /// # Errors
    /// A step that was not observed.
    pub fn covariance(&self) -> Result<CovarianceStats> {
        self.observed.covariance.ok_or_else(|| not_observed("covariances"))
    }

    /// The mean sampler weight over the step's tokens; 1 where every weight is 0, as each is then whatever it is divided by.
    ///
    /// # Errors
    /// A step that was not observed.
    pub fn mean_weight(&self) -> Result<f64> {
        self.observed.mean_weight.ok_or_else(|| not_observed("mean sampler weight"))
    }
}

fn not_observed(what: &'static str) -> Error {
    Error::invalid(what, "not known: the step was not observed; make its stats with step_stats")
}

/// max(1, ⌊fraction · n⌋)
fn count(fraction: f64, n: usize) -> usize {
    ((fraction * n as f64).floor() as usize).max(1)
}

/// The q-quantile, interpolated linearly between order statistics. Infinite of nothing: nothing is kept.
fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::INFINITY };
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// A number in [0, 1) for each place: a function of the seed, the group, the completion's tokens of the loss and the place, so that neither
/// order nor the cut into micro-batches matters. Completions that say the same share their numbers.
pub(super) fn draw(batch: &Batch, seed: u64) -> Vec<f64> {
    let width = batch.shape()[1];
    let completions = batch.tokens().completions();
    let mut draws = Vec::with_capacity(batch.groups().len() * width);
    for ((row, &group), mask) in batch.groups().iter().enumerate().zip(batch.mask_host().chunks(width)) {
        let said = completions.row(row).iter().zip(mask).filter(|(_, counts)| **counts);
        let row_seed = said.fold(group_seed(seed, group.0, 0), |seed, (&token, _)| group_seed(seed, 0, u64::from(token)));
        draws.extend((0..width).map(|t| (group_seed(row_seed, 0, t as u64) >> 11) as f64 / (1u64 << 53) as f64));
    }
    draws
}
