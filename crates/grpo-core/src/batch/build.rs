//! From groups, or rows, to tensors.

use burn::Tensor;
use burn::tensor::{Device, TensorData};

use super::{Batch, Row, SamplerLogProbs, host_f64};
use crate::advantage::Advantages;
use crate::error::{Error, Result};
use crate::group::{Completion, Group, PolicyVersion, distinct};
use crate::policy::{Padded, TokenBatch};
use crate::token::{LogProbKind, TokenId};

impl Batch {
    /// A batch of whole groups. `advantages` has one entry a completion, in the order of the groups.
    ///
    /// # Errors
    /// No group, or two of one id; numbers of advantages or sampler log-probabilities that do not fit; completions drawn at different temperatures, or greedily: there is
    /// no distribution to take a ratio in.
    pub fn new<T>(groups: &[Group<T>], advantages: &Advantages, current: PolicyVersion, device: &Device) -> Result<Self> {
        distinct(groups)?;
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
            // Too few would read as probability 1.
            Error::check_shape("sampler log-probs of a completion", &[completion.sampler_log_probs.len()], &[completion.tokens.len()])?;
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
        distinct(groups)?;
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
}
