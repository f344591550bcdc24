//! From a judged rollout to the batches of its optimiser steps.

use burn::Tensor;
use burn::tensor::{Bytes, Device, TensorData};
use grpo_core::{Batch, GrpoConfig, OldLogProbs, Policy, score_old_and_reference, truncated};

use crate::config::{TrainConfig, Truncated};
use crate::error::{Error, Result};
use crate::state::Pending;

/// The micro-batches of each optimiser step of one pass over a rollout.
pub(crate) struct Batches(Vec<Vec<Batch>>);

impl Batches {
    /// Cuts a rollout: first into optimiser steps, then into micro-batches; between groups, and never with new groups and replayed ones in one
    /// batch, because their old log-probabilities are of different origin. Those that a checkpoint holds are taken up: the policy that they
    /// are of has moved on.
    ///
    /// # Errors
    /// Whatever [`Batch::split`] refuses; saved log-probabilities of another shape.
    pub(crate) fn new<T: Clone>(pending: &Pending<T>, config: &TrainConfig, saved: Option<Vec<u8>>, device: &Device) -> Result<Self> {
        let groups = &pending.groups;
        let rows = |range: std::ops::Range<usize>| groups.get(range).unwrap_or_default().iter().map(|g| g.completions.len()).sum::<usize>();
        let steps = config.mini_batches.min(groups.len()).max(1);
        let cut_off = match config.truncated {
            Truncated::Train => vec![false; rows(0..groups.len())],
            Truncated::Mask => truncated(groups),
        };
        let (mut all, mut row) = (Vec::new(), 0);
        for step in 0..steps {
            let (start, end) = (step * groups.len() / steps, (step + 1) * groups.len() / steps);
            let border = pending.fresh.clamp(start, end);
            let mut batches = Vec::new();
            for (range, stale) in [(start..border, false), (border..end, true)] {
                let count = rows(range.clone());
                if count == 0 {
                    continue;
                }
                let advantages = pending.advantages.slice(row..row + count);
                for mut batch in
                    Batch::split(groups.get(range).unwrap_or_default(), &advantages, config.micro_tokens, pending.version, device)?
                {
                    let [n, _] = batch.shape();
                    let ignored = cut_off.get(row..row + n).unwrap_or_default();
                    if ignored.contains(&true) {
                        batch.ignore(ignored)?;
                    }
                    row += n;
                    if stale {
                        // The policy that wrote these is gone; what the sampler recorded of it is not.
                        batch.set_old(OldLogProbs::new(batch.sampler_log_probs(config.grpo.off_policy.accept)?)?)?;
                    }
                    batches.push(batch);
                }
            }
            all.push(batches);
        }
        let mut batches = Self(all);
        saved.map_or(Ok(()), |saved| batches.load_old(saved, device))?;
        Ok(batches)
    }

    /// Asks policy and reference, without autodiff, about every batch.
    ///
    /// # Errors
    /// As [`score_old_and_reference`].
    pub(crate) fn score<P: Policy>(&mut self, policy: &P, reference: Option<&P>, config: &GrpoConfig) -> Result<()> {
        self.0.iter_mut().try_for_each(|step| Ok(score_old_and_reference(step, policy, reference, config)?))
    }

    /// Optimiser steps of one pass.
    pub(crate) fn steps(&self) -> usize {
        self.0.len()
    }

    /// The micro-batches of an optimiser step; steps beyond the first pass begin anew.
    pub(crate) fn of_step(&self, step: usize) -> &[Batch] {
        self.0.get(step % self.0.len().max(1)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Batch> {
        self.0.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Batch> {
        self.0.iter_mut().flatten()
    }

    /// All old log-probabilities, as a burnpack file.
    ///
    /// # Errors
    /// A device that failed.
    pub(crate) fn old_bytes(&self) -> Result<Vec<u8>> {
        let mut tensors = Vec::new();
        for (index, old) in self.iter().enumerate().filter_map(|(index, batch)| Some((index, batch.old()?))) {
            let data = old.tensor().try_into_data().map_err(|e| broken(format!("{e:?}")))?;
            let (bytes, shape, dtype) = data.into_parts();
            tensors.push(burn_pack::Tensor::new(format!("old.{index:06}"), dtype, shape, None, bytes));
        }
        Ok(burn_pack::Writer::new(tensors).into_bytes().map_err(broken)?.to_vec())
    }

    fn load_old(&mut self, bytes: Vec<u8>, device: &Device) -> Result<()> {
        let device = device.clone().inner();
        let reader = burn_pack::Reader::from_bytes(Bytes::from_bytes_vec(bytes)).map_err(broken)?;
        let mut batches: Vec<&mut Batch> = self.iter_mut().collect();
        for tensor in reader.into_tensors().map_err(broken)? {
            let (name, dtype, shape, _, bytes) = tensor.into_parts().map_err(broken)?;
            let index = name.strip_prefix("old.").and_then(|n| n.parse::<usize>().ok());
            let batch = index.and_then(|index| batches.get_mut(index)).ok_or_else(|| broken(format!("`{name}` belongs to no batch")))?;
            // burn panics where data do not fit a rank.
            grpo_core::Error::check_shape("saved old log-probs", &shape, &batch.shape())?;
            let data = TensorData::from_bytes(bytes, shape, dtype);
            batch.set_old(OldLogProbs::new(Tensor::from_data(data, (&device, dtype)))?)?;
        }
        Ok(())
    }
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::invalid("saved old log-probs", error.to_string())
}
