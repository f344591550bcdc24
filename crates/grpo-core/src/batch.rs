//! The batch: groups become tensors here, and masks are made here and nowhere else.

use burn::Tensor;
use burn::tensor::{Bool, DType, Device, TensorData};

use crate::advantage::Advantages;
use crate::config::{AcceptedKind, GrpoConfig, KlEstimator, OldSource};
use crate::error::{Error, Result};
use crate::group::{Completion, Group, GroupId, PolicyVersion};
use crate::policy::{Padded, Policy, ReferenceRows, ScoreRequest, TokenBatch};
use crate::read::to_host;
use crate::token::{LogProbKind, TokenId};

macro_rules! frozen_log_probs {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name(Tensor<2>);

        impl $name {
            /// Takes log-probabilities `[N, Tc]`.
            ///
            /// # Errors
            /// A tensor that autodiff tracks: it would receive a gradient that belongs to nobody.
            pub fn new(log_probs: Tensor<2>) -> Result<Self> {
                if log_probs.is_tracked() {
                    return Err(Error::Tracking { what: $what, tracked: false, hint: "score with `policy.valid()` or detach it" });
                }
                Ok(Self(log_probs.inner()))
            }

            /// The values, `[N, Tc]`.
            pub fn tensor(&self) -> Tensor<2> {
                self.0.clone()
            }
        }
    };
}

frozen_log_probs!(
    /// log π_old: of the policy as it was when it sampled, scored by the trainer. The denominator of the importance ratio.
    OldLogProbs,
    "old log-probs"
);
frozen_log_probs!(
    /// log π_sampler: what the sampler recorded. For corrections, and for bypass; never silently a denominator.
    SamplerLogProbs,
    "sampler log-probs"
);
frozen_log_probs!(
    /// log π_ref: of the reference that KL holds the policy to.
    ReferenceLogProbs,
    "reference log-probs"
);

/// What the reference says of a batch.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "one a batch: nothing to gain from a box")]
pub enum Reference {
    /// One number a token: for the estimators k1, k2, k3.
    LogProbs(ReferenceLogProbs),
    /// Whole rows: for the exact KL.
    Rows(ReferenceRows),
}

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
    /// A batch of whole groups. `advantages` has one entry a completion, in the order of the groups.
    ///
    /// # Errors
    /// No group; a number of advantages that does not fit; completions drawn at different temperatures, or greedily: there is
    /// no distribution to take a ratio in.
    pub fn new<T>(groups: &[Group<T>], advantages: &Advantages, current: PolicyVersion, device: &Device) -> Result<Self> {
        let completions: Vec<(usize, &Group<T>, &Completion)> =
            groups.iter().enumerate().flat_map(|(p, g)| g.completions.iter().map(move |c| (p, g, c))).collect();
        Error::check_shape("advantages", &[advantages.len()], &[completions.len()])?;
        let prompts: Vec<&[TokenId]> = groups.iter().map(|g| g.prompt.tokens.as_slice()).collect();
        let rows = completions
            .iter()
            .enumerate()
            .map(|(row, (prompt, group, completion))| {
                Ok(Row {
                    prompt: *prompt,
                    group: group.id,
                    tokens: &completion.tokens,
                    mask: completion.policy_mask(),
                    advantages: advantages.row(row, completion.tokens.len())?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let temperature = completions.first().map_or(1.0, |(_, _, c)| c.temperature);
        if let Some((_, group, other)) = completions.iter().find(|(_, _, c)| c.temperature != temperature) {
            let problem = format!("group {} was drawn at {}, others at {temperature}: must be one a batch", group.id.0, other.temperature);
            return Err(Error::invalid("temperature", problem));
        }
        let mut batch = Self::from_rows(&prompts, &rows, temperature, device)?;
        batch.staleness = completions.iter().map(|(_, _, c)| current.abs_diff(c.policy_version)).max().unwrap_or(0);
        let kind = completions.iter().map(|(_, _, c)| c.log_prob_kind).reduce(|a, b| if a == b { a } else { LogProbKind::Truncated });
        let [n, width] = batch.shape();
        let mut sampler = vec![0.0; n * width];
        for ((_, _, completion), row) in completions.iter().zip(sampler.chunks_mut(width)) {
            row.iter_mut().zip(&completion.sampler_log_probs).for_each(|(place, &lp)| *place = f64::from(lp));
        }
        batch.sampler =
            Some((SamplerLogProbs::new(host_f64(&sampler, [n, width], &device.clone().inner()))?, kind.unwrap_or(LogProbKind::Tempered)));
        Ok(batch)
    }

    /// A batch from rows: for data that is not a rollout.
    ///
    /// # Errors
    /// No row, a row without tokens, lists of different lengths, a prompt that is not there, an advantage that is not finite,
    /// a temperature that is not above 0.
    pub fn from_rows(prompts: &[&[TokenId]], rows: &[Row<'_>], temperature: f64, device: &Device) -> Result<Self> {
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(Error::config("sampling temperature", temperature, "above 0 for training: a greedy sample has no distribution"));
        }
        let completions = Padded::new(&rows.iter().map(|r| r.tokens).collect::<Vec<_>>())?;
        let prompt_of = rows.iter().map(|r| r.prompt).collect();
        let tokens = TokenBatch::new(Padded::new(prompts)?, completions, prompt_of)?;
        let [n, width] = [rows.len(), tokens.completions().width()];
        let mut mask = vec![false; n * width];
        let mut advantages = vec![0.0; n * width];
        for (i, row) in rows.iter().enumerate() {
            let len = row.tokens.len();
            Error::check_shape("mask of a completion", &[row.mask.len()], &[len])?;
            Error::check_shape("token advantages of a completion", &[row.advantages.len()], &[len])?;
            for (t, (&counts, &advantage)) in row.mask.iter().zip(&row.advantages).enumerate().filter(|(_, (counts, _))| **counts) {
                if !advantage.is_finite() {
                    return Err(Error::invalid("advantage", format!("completion {i}, token {t} has {advantage}, must be finite")));
                }
                mask[i * width + t] = counts;
                advantages[i * width + t] = advantage;
            }
        }
        let device = &device.clone().inner();
        Ok(Self {
            groups: rows.iter().map(|r| r.group).collect(),
            mask: Tensor::from_data(TensorData::new(mask.clone(), [n, width]), device), // [N, Tc]
            advantages: host_f64(&advantages, [n, width], device),                      // [N, Tc]
            mask_host: mask,
            advantages_host: advantages,
            temperature,
            staleness: 0,
            tokens,
            old: None,
            sampler: None,
            reference: None,
            chosen: None,
        })
    }

    /// Whole groups cut into micro-batches of at most `tokens` padded completion tokens each (one group at least).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn split<T: Clone>(
        groups: &[Group<T>],
        advantages: &Advantages,
        tokens: usize,
        current: PolicyVersion,
        device: &Device,
    ) -> Result<Vec<Self>> {
        let total: usize = groups.iter().map(|g| g.completions.len()).sum();
        Error::check_shape("advantages", &[advantages.len()], &[total])?;
        let (mut batches, mut start, mut first) = (Vec::new(), 0, 0);
        while start < groups.len() {
            let (mut end, mut rows, mut width) = (start, 0, 0);
            while end < groups.len() {
                let more = groups[end].completions.len();
                let wider = groups[end].completions.iter().map(|c| c.tokens.len()).fold(width, usize::max);
                if end > start && (rows + more) * wider > tokens {
                    break;
                }
                (end, rows, width) = (end + 1, rows + more, wider);
            }
            batches.push(Self::new(&groups[start..end], &advantages.slice(first..first + rows), current, device)?);
            (start, first) = (end, first + rows);
        }
        Ok(batches)
    }

    /// Scores the batch with the policy as it is now and keeps that as [`OldLogProbs`]: once per rollout, before the first update.
    ///
    /// # Errors
    /// A policy that fails, tracked scores (use `policy.valid()`), a wrong shape.
    pub fn score_old<P: Policy + ?Sized>(&mut self, policy: &P) -> Result<()> {
        let scores = policy.score(&self.tokens, &ScoreRequest::at(self.temperature)).map_err(Error::Policy)?;
        self.set_old(OldLogProbs::new(scores.log_probs)?)
    }

    /// Sets old log-probabilities that were scored elsewhere.
    ///
    /// # Errors
    /// A shape other than `[N, Tc]`.
    pub fn set_old(&mut self, old: OldLogProbs) -> Result<()> {
        Error::check_shape("old log-probs", &old.0.dims(), &self.shape())?;
        self.old = Some(old);
        Ok(())
    }

    /// Scores the batch with the reference and keeps what `kl` needs of it.
    ///
    /// # Errors
    /// A reference that fails, tracked scores, a wrong shape, a reference that cannot give rows where the exact KL is wanted.
    pub fn score_reference<P: Policy + ?Sized>(&mut self, reference: &P, kl: KlEstimator) -> Result<()> {
        let ask = ScoreRequest::at(self.temperature);
        if kl == KlEstimator::Exact {
            let scores = reference.score(&self.tokens, &ask.with_rows()).map_err(Error::Policy)?;
            let rows = scores.rows.ok_or_else(|| Error::invalid("reference", "gave no rows, which the exact KL needs"))?;
            self.set_reference(Reference::Rows(rows))
        } else {
            let scores = reference.score(&self.tokens, &ask).map_err(Error::Policy)?;
            self.set_reference(Reference::LogProbs(ReferenceLogProbs::new(scores.log_probs)?))
        }
    }

    /// Sets what a reference said elsewhere.
    ///
    /// # Errors
    /// A shape that does not fit, tracked rows.
    pub fn set_reference(&mut self, reference: Reference) -> Result<()> {
        let [n, width] = self.shape();
        let (given, tracked) = match &reference {
            Reference::LogProbs(lp) => (lp.0.dims(), false),
            Reference::Rows(ReferenceRows::LogProbs(rows)) => ([rows.dims()[0], rows.dims()[1]], rows.is_tracked()),
            Reference::Rows(ReferenceRows::Hidden { hidden, head }) => {
                ([hidden.dims()[0], hidden.dims()[1]], hidden.is_tracked() || head.is_tracked())
            }
        };
        Error::check_shape("reference", &given, &[n, width])?;
        if tracked {
            return Err(Error::Tracking { what: "reference rows", tracked: false, hint: "score with `reference.valid()`" });
        }
        self.reference = Some(reference);
        Ok(())
    }

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

    /// Sets sampler log-probabilities that were recorded elsewhere.
    ///
    /// # Errors
    /// A shape other than `[N, Tc]`.
    pub fn set_sampler(&mut self, sampler: SamplerLogProbs, kind: LogProbKind) -> Result<()> {
        Error::check_shape("sampler log-probs", &sampler.0.dims(), &self.shape())?;
        self.sampler = Some((sampler, kind));
        Ok(())
    }

    /// log π_sampler, `[N, Tc]`, if it is of an accepted kind. Raw ones are, where the temperature is 1.
    ///
    /// # Errors
    /// None recorded; a renormalised or untempered kind that was not accepted by name.
    pub fn sampler_log_probs(&self, accept: AcceptedKind) -> Result<Tensor<2>> {
        let Some((log_probs, kind)) = &self.sampler else {
            return Err(Error::invalid("sampler log-probs", "missing, though a correction needs them: call Batch::set_sampler"));
        };
        let fits = *kind == LogProbKind::Tempered || (*kind == LogProbKind::Raw && self.temperature == 1.0);
        if fits || accept == AcceptedKind::Any {
            return Ok(log_probs.tensor());
        }
        Err(Error::invalid(
            "sampler log-probs",
            format!("are {kind:?}, must be over the full support at temperature {} (or set off_policy.accept = any)", self.temperature),
        ))
    }

    /// Takes whole completions out of the loss, numerator and denominator: `true` entries of `[N]`. They still were part of their group's baseline.
    ///
    /// # Errors
    /// Another number of entries than completions.
    pub fn ignore(&mut self, completions: &[bool]) -> Result<()> {
        let [n, width] = self.shape();
        Error::check_shape("ignored completions", &[completions.len()], &[n])?;
        for (row, _) in completions.iter().enumerate().filter(|(_, ignore)| **ignore) {
            self.mask_host[row * width..(row + 1) * width].fill(false);
            self.advantages_host[row * width..(row + 1) * width].fill(0.0);
        }
        let device = self.mask.device();
        self.mask = Tensor::from_data(TensorData::new(self.mask_host.clone(), [n, width]), &device); // [N, Tc]
        self.advantages = host_f64(&self.advantages_host, [n, width], &device); // [N, Tc]
        Ok(())
    }

    /// Sets advantages anew, one entry a completion: what [`kl_in_advantages`](crate::kl_in_advantages) gives, for instance.
    ///
    /// # Errors
    /// Another number of completions or tokens, a value of a token of the loss that is not finite.
    pub fn set_advantages(&mut self, advantages: &Advantages) -> Result<()> {
        let [n, width] = self.shape();
        Error::check_shape("advantages", &[advantages.len()], &[n])?;
        let mut values = vec![0.0; n * width];
        for (row, &len) in self.tokens.completions().lengths().iter().enumerate() {
            for (t, advantage) in advantages.row(row, len)?.into_iter().enumerate().filter(|(t, _)| self.mask_host[row * width + t]) {
                if !advantage.is_finite() {
                    return Err(Error::invalid("advantage", format!("completion {row}, token {t} has {advantage}, must be finite")));
                }
                values[row * width + t] = advantage;
            }
        }
        self.advantages = host_f64(&values, [n, width], &self.mask.device()); // [N, Tc]
        self.advantages_host = values;
        Ok(())
    }

    /// log π_old − log π_ref of each token on the host, completion after completion, unpadded; 0 where a token does not take part.
    /// For KL outside the loss: [`kl_in_rewards`](crate::kl_in_rewards), [`kl_in_advantages`](crate::kl_in_advantages).
    ///
    /// # Errors
    /// No old or no reference log-probabilities; a device that failed.
    pub fn log_ratios_to_reference(&self) -> Result<Vec<Vec<f64>>> {
        let Some(old) = &self.old else {
            return Err(Error::invalid("old log-probs", "missing, though KL acts outside the loss: call Batch::score_old"));
        };
        let Some(Reference::LogProbs(reference)) = &self.reference else {
            return Err(Error::invalid("reference log-probs", "missing, though KL acts outside the loss: call Batch::score_reference"));
        };
        let d = (old.tensor() - reference.tensor().cast(old.0.dtype())).mask_fill(self.mask.clone().bool_not(), 0.0); // [N, Tc]
        let d = to_host(d, "log-ratios to the reference")?;
        let rows = d.chunks(self.shape()[1]).zip(self.tokens.completions().lengths());
        Ok(rows.map(|(row, &len)| row[..len].to_vec()).collect())
    }

    /// Chooses the tokens of [`Addition::CrossEntropy`](crate::Addition::CrossEntropy): one entry a token, completion after completion, unpadded.
    /// They need not be tokens of the loss: an environment's answers may be learnt, too.
    ///
    /// # Errors
    /// Lists whose lengths do not fit the completions.
    pub fn choose(&mut self, tokens: &[Vec<bool>]) -> Result<()> {
        let [n, width] = self.shape();
        Error::check_shape("chosen completions", &[tokens.len()], &[n])?;
        let mut chosen = vec![false; n * width];
        for (row, (tokens, place)) in tokens.iter().zip(chosen.chunks_mut(width)).enumerate() {
            Error::check_shape("chosen tokens of a completion", &[tokens.len()], &[self.tokens.completions().lengths()[row]])?;
            place[..tokens.len()].copy_from_slice(tokens);
        }
        let device = self.mask.device();
        let on_device = Tensor::from_data(TensorData::new(chosen.clone(), [n, width]), &device); // [N, Tc]
        self.chosen = Some((chosen, on_device));
        Ok(())
    }

    /// `[N, Tc]`: the chosen tokens, if any were.
    pub fn chosen(&self) -> Option<Tensor<2, Bool>> {
        self.chosen.as_ref().map(|(_, chosen)| chosen.clone())
    }

    /// The same on the host.
    pub fn chosen_host(&self) -> Option<&[bool]> {
        self.chosen.as_ref().map(|(chosen, _)| chosen.as_slice())
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

    /// log π_old, if it was scored.
    pub fn old(&self) -> Option<&OldLogProbs> {
        self.old.as_ref()
    }

    /// What the reference said, if it was asked.
    pub fn reference(&self) -> Option<&Reference> {
        self.reference.as_ref()
    }

    /// L_i: tokens of the loss in each completion.
    pub fn token_counts(&self) -> Vec<usize> {
        self.mask_host.chunks(self.shape()[1]).map(|row| row.iter().filter(|&&counts| counts).count()).collect()
    }
}

/// Host numbers on a device, as f64 where it has that: the loss casts them to the precision it runs in.
pub(crate) fn host_f64<const D: usize>(values: &[f64], shape: [usize; D], device: &Device) -> Tensor<D> {
    let data = TensorData::new(values.to_vec(), shape);
    if device.supports_dtype(DType::F64) { Tensor::from_data(data, (device, DType::F64)) } else { Tensor::from_data(data, device) }
}

impl Advantages {
    fn slice(&self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::PerCompletion(rows) => Self::PerCompletion(rows[range].to_vec()),
            Self::PerToken(rows) => Self::PerToken(rows[range].to_vec()),
        }
    }
}
