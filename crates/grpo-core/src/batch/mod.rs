//! The batch: groups become tensors here, and masks are made here and nowhere else.

mod build;
mod choice;
mod scored;

use std::collections::{BTreeMap, BTreeSet};

use burn::Tensor;
use burn::tensor::{Bool, DType, Device, TensorData};

use crate::config::{GrpoConfig, OldSource};
use crate::error::{Error, Result};
use crate::group::GroupId;
use crate::policy::TokenBatch;
use crate::token::{LogProbKind, TokenId};

pub use scored::{OldLogProbs, Reference, ReferenceLogProbs, SamplerLogProbs};

/// One row of a batch: a completion, reduced to what the loss reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// The prompt it continues, as an index into the batch's prompts.
    pub prompt: usize,
    /// Whom it is compared with.
    pub group: GroupId,
    /// Its tokens, at least one.
    pub tokens: &'a [TokenId],
    /// Which of them take part in the loss. All `false`: a row that counts for nothing but its place in a mean over rows.
    pub mask: Vec<bool>,
    /// One advantage a token.
    pub advantages: Vec<f64>,
}

/// Completions on their way into the loss: tokens, mask and advantages, P prompts and N completions.
///
/// Whole optimiser steps are cut into several of these (micro-batches), between groups.
#[derive(Debug, Clone)]
pub struct Batch {
    tokens: TokenBatch,
    groups: Vec<GroupId>,
    mask_host: Vec<bool>,
    advantages_host: Vec<f64>,
    temperature: f64,
    staleness: u64,
    mask: Tensor<2, Bool>,
    advantages: Tensor<2>,
    old: Option<OldLogProbs>,
    sampler: Option<(SamplerLogProbs, LogProbKind)>,
    reference: Option<Reference>,
    chosen: Option<(Vec<bool>, Tensor<2, Bool>)>,
}

impl Batch {
    /// N and Tc.
    pub fn shape(&self) -> [usize; 2] {
        [self.groups.len(), self.tokens.completions().width()]
    }

    /// The tokens, as a policy reads them.
    pub fn tokens(&self) -> &TokenBatch {
        &self.tokens
    }

    /// Which group each of the N completions belongs to.
    pub fn groups(&self) -> &[GroupId] {
        &self.groups
    }

    /// The temperature the completions were drawn at, and are scored at.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// How many optimiser steps the oldest completion lies behind the policy.
    pub fn staleness(&self) -> u64 {
        self.staleness
    }

    /// `[N, Tc]`: true where a token takes part in the loss.
    pub fn mask(&self) -> Tensor<2, Bool> {
        self.mask.clone()
    }

    /// The same on the host, row after row.
    pub fn mask_host(&self) -> &[bool] {
        &self.mask_host
    }

    /// `[N, Tc]`: advantages, 0 where a token does not take part.
    pub fn advantages(&self) -> Tensor<2> {
        self.advantages.clone()
    }

    /// The same on the host, row after row.
    pub fn advantages_host(&self) -> &[f64] {
        &self.advantages_host
    }

    /// Groups that hold completions whose advantages add up to more than 0 and others; completions without a token of the loss do not count.
    pub(crate) fn mixed_groups(&self) -> BTreeSet<GroupId> {
        let width = self.shape()[1];
        let mut signs: BTreeMap<GroupId, [bool; 2]> = BTreeMap::new();
        for ((&group, advantages), count) in self.groups.iter().zip(self.advantages_host.chunks(width)).zip(self.token_counts()) {
            if count > 0 {
                signs.entry(group).or_default()[usize::from(advantages.iter().sum::<f64>() > 0.0)] = true;
            }
        }
        signs.into_iter().filter(|(_, both)| *both == [true, true]).map(|(group, _)| group).collect()
    }

    /// L_i: tokens of the loss in each completion.
    pub fn token_counts(&self) -> Vec<usize> {
        self.mask_host.chunks(self.shape()[1]).map(|row| row.iter().filter(|&&counts| counts).count()).collect()
    }

    /// `[N, Tc]`: the chosen tokens, if any were.
    pub fn chosen(&self) -> Option<Tensor<2, Bool>> {
        self.chosen.as_ref().map(|(_, chosen)| chosen.clone())
    }

    /// The same on the host.
    pub fn chosen_host(&self) -> Option<&[bool]> {
        self.chosen.as_ref().map(|(chosen, _)| chosen.as_slice())
    }

    /// log π_old, if it was scored.
    pub fn old(&self) -> Option<&OldLogProbs> {
        self.old.as_ref()
    }

    /// What the reference said, if it was asked.
    pub fn reference(&self) -> Option<&Reference> {
        self.reference.as_ref()
    }

    /// Refuses a ratio that would silently be 1 though the policy moved on, and rollouts older than allowed.
    pub(crate) fn check_fresh(&self, config: &GrpoConfig) -> Result<()> {
        if let Some(limit) = config.off_policy.max_staleness
            && self.staleness > limit
        {
            return Err(Error::invalid("rollout", format!("is {} steps old, max_staleness allows {limit}", self.staleness)));
        }
        let why = match (self.staleness, config.updates_per_rollout) {
            (0, 0..=1) => return Ok(()),
            (0, _) => "updates_per_rollout is above 1",
            _ => "the rollout is older than the policy",
        };
        if self.old.is_none() && config.off_policy.old == OldSource::Trainer {
            return Err(Error::invalid("old log-probs", format!("missing, though {why}: call Batch::score_old before the first update")));
        }
        Ok(())
    }
}

/// Host numbers on a device, as f64 where it has that: the loss casts them to the precision it runs in.
pub(crate) fn host_f64<const D: usize>(values: &[f64], shape: [usize; D], device: &Device) -> Tensor<D> {
    let data = TensorData::new(values.to_vec(), shape);
    if device.supports_dtype(DType::F64) { Tensor::from_data(data, (device, DType::F64)) } else { Tensor::from_data(data, device) }
}
