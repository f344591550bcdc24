//! Metrics: named numbers that know what they are means of, so that averages over micro-batches and ranks are right.

use std::collections::BTreeMap;

use crate::advantage::{Ddof, Spread, rows_by_group};
use crate::group::Group;
use crate::score::RewardTable;

/// What a metric is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Normaliser {
    /// Tokens of the loss.
    Token,
    /// Completions.
    Completion,
    /// Groups.
    Group,
    /// Nothing: shares add up to the step's value.
    Step,
    /// Nothing: the smallest counts.
    Min,
    /// Nothing: the largest counts.
    Max,
    /// The effective sample size of weights w, as a share of their number n: (Σw)² / (n Σw²).
    EffectiveShare,
}

/// One number with its normaliser.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    sum: f64,
    /// Σw², of an effective share; else 0.
    squares: f64,
    count: f64,
    normaliser: Normaliser,
}

impl Entry {
    fn value(&self) -> f64 {
        match self.normaliser {
            // Weights that are all 0 have the effect of none.
            Normaliser::EffectiveShare if self.squares == 0.0 => 0.0,
            Normaliser::EffectiveShare => self.sum * self.sum / (self.count * self.squares),
            _ => self.sum / self.count,
        }
    }
}

/// The metrics of one step, under the names that users of TRL know. What was not measured is absent, never 0 or NaN.
///
/// | name | meaning | mean over |
/// |---|---|---|
/// | `loss` | the loss; about 0 with one update a rollout, and no sign of health | – |
/// | `grad_norm` | global norm before clipping | – |
/// | `kl`, `entropy` | KL term and entropy | tokens |
/// | `clip_ratio/low_mean`, `/high_mean`, `/region_mean` | share beyond the clip range with a gradient to lose | tokens; completions where there is one ratio a completion |
/// | `ppo_kl` | log π_old − log π: how far the policy moved since it sampled (verl's name) | tokens |
/// | `clip_ratio/dual_mean`, `cispo_clip_ratio`, `dppo_mask_ratio`, `threshold_mask_ratio`, `clip_cov_ratio`, `kl_cov_ratio` | what the objective of that name cut, masked or held | tokens |
/// | `fipo/weight_mean`, `vespo/phi_seq_mean` | the weight of that objective | tokens, completions |
/// | `entropy/kept_ratio` | share that the top-entropy mask keeps | tokens |
/// | `cross_entropy`, `squared_drift` | the additions, before their coefficients | chosen tokens, tokens |
/// | `skipped` | 1 where the step was skipped | – |
/// | `importance_ratio/mean` | ρ | tokens |
/// | `importance_ratio/max`, `kl/max` | the largest of any token | – |
/// | `importance_ratio/bounded`, `kl/bounded` | share of log-ratios cut by the bound | tokens |
/// | `sampling/sampling_logp_difference/mean`, `/max` | \|log π_old − log π_sampler\| | tokens |
/// | `sampling/importance_sampling_ratio/mean`, `/min`, `/max`, `/bounded_mean` | the sampler weight w before (\|log w\| ≤ 20) and after its bounds | tokens |
/// | `sampling/effective_sample_size` | (Σw)² / (n Σw²) of the bounded weights: 1 if all are equal, near 0 if few do all the work | tokens |
/// | `sampling/rejected_ratio`, `off_policy_mask_ratio` | share without a policy term: by divergence from the sampler, by drift | tokens |
/// | `reward` | total reward | completions with one |
/// | `reward_std` | std within the group (n − 1) | groups |
/// | `frac_reward_zero_std` | share of groups without spread: they teach nothing | groups |
/// | `rewards/NAME/mean`, `/std` | one function: mean and std (n − 1) over the rollout | completions it applies to |
/// | `completions/mean_length`, `/min_length`, `/max_length` | tokens | completions |
/// | `completions/clipped_ratio` | share of truncated completions | completions |
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metrics {
    entries: BTreeMap<String, Entry>,
}

impl Metrics {
    /// Adds `sum` over `count` things to a mean. Nothing happens if `count` is 0.
    pub fn mean(&mut self, name: impl Into<String>, sum: f64, count: f64, normaliser: Normaliser) {
        if count > 0.0 {
            let entry = self.entries.entry(name.into()).or_insert(Entry { sum: 0.0, squares: 0.0, count: 0.0, normaliser });
            entry.sum += sum;
            entry.count += count;
        }
    }

    /// Adds the sum and the sum of squares of `count` weights to their effective sample size, a share between 0 and 1 of their number.
    pub fn effective_share(&mut self, name: impl Into<String>, sum: f64, squares: f64, count: f64) {
        if count > 0.0 {
            let empty = Entry { sum: 0.0, squares: 0.0, count: 0.0, normaliser: Normaliser::EffectiveShare };
            let entry = self.entries.entry(name.into()).or_insert(empty);
            entry.sum += sum;
            entry.squares += squares;
            entry.count += count;
        }
    }

    /// Adds a share of a sum.
    pub fn sum(&mut self, name: impl Into<String>, share: f64, normaliser: Normaliser) {
        self.entries.entry(name.into()).or_insert(Entry { sum: 0.0, squares: 0.0, count: 1.0, normaliser }).sum += share;
    }

    /// Takes `value` into a minimum or maximum.
    pub fn extreme(&mut self, name: impl Into<String>, value: f64, normaliser: Normaliser) {
        let entry = self.entries.entry(name.into()).or_insert(Entry { sum: value, squares: 0.0, count: 1.0, normaliser });
        entry.sum = if normaliser == Normaliser::Min { entry.sum.min(value) } else { entry.sum.max(value) };
    }

    /// Takes in the metrics of another share of the step.
    pub fn merge(&mut self, other: &Self) {
        for (name, entry) in &other.entries {
            match entry.normaliser {
                Normaliser::Min | Normaliser::Max => self.extreme(name.clone(), entry.sum, entry.normaliser),
                Normaliser::Step => self.sum(name.clone(), entry.sum, entry.normaliser),
                Normaliser::EffectiveShare => self.effective_share(name.clone(), entry.sum, entry.squares, entry.count),
                _ => self.mean(name.clone(), entry.sum, entry.count, entry.normaliser),
            }
        }
    }

    /// One metric, if it was measured.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.entries.get(name).map(Entry::value)
    }

    /// What a metric is a mean over.
    pub fn normaliser(&self, name: &str) -> Option<Normaliser> {
        self.entries.get(name).map(|e| e.normaliser)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.entries.iter().map(|(name, e)| (name.as_str(), e.value()))
    }

    /// The metrics of a rollout: rewards and lengths.
    pub fn of_rollout<T>(groups: &[Group<T>], rewards: &RewardTable) -> Self {
        let mut metrics = Self::default();
        for completion in groups.iter().flat_map(|g| &g.completions) {
            let length = completion.tokens.len() as f64;
            metrics.mean("completions/mean_length", length, 1.0, Normaliser::Completion);
            metrics.extreme("completions/min_length", length, Normaliser::Min);
            metrics.extreme("completions/max_length", length, Normaliser::Max);
            let truncated = f64::from(u8::from(completion.finish.is_truncated()));
            metrics.mean("completions/clipped_ratio", truncated, 1.0, Normaliser::Completion);
        }
        let totals = rewards.totals();
        for reward in totals.iter().flatten() {
            metrics.mean("reward", *reward, 1.0, Normaliser::Completion);
        }
        for (_, rows) in rows_by_group(&rewards.groups) {
            let present: Vec<f64> = rows.iter().filter_map(|&row| totals[row]).collect();
            let spread = Spread::of(&present, Ddof::Sample);
            metrics.mean("reward_std", spread.std, 1.0, Normaliser::Group);
            metrics.mean("frac_reward_zero_std", f64::from(u8::from(spread.std == 0.0)), 1.0, Normaliser::Group);
        }
        for (index, name) in rewards.names.iter().enumerate() {
            for reward in rewards.column(index).into_iter().flatten() {
                metrics.mean(format!("rewards/{name}/mean"), reward, 1.0, Normaliser::Completion);
            }
            let present: Vec<f64> = rewards.column(index).into_iter().flatten().collect();
            let spread = Spread::of(&present, Ddof::Sample);
            metrics.mean(format!("rewards/{name}/std"), spread.std * spread.count as f64, spread.count as f64, Normaliser::Completion);
        }
        if rewards.failures > 0 {
            metrics.sum("rewards/failures", rewards.failures as f64, Normaliser::Step);
        }
        metrics
    }
}
