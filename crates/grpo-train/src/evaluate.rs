//! Evaluation: held-out prompts, answered greedily and by sampling.

use std::collections::HashMap;

use grpo_core::{Completion, Group, Metrics, Normaliser, Prompt, RewardTable, Rewards, RolloutPlan, Sampler, SamplingParams, rollout};
use serde::{Deserialize, Serialize};

use crate::config::{EpisodeLimits, core};
use crate::episode::{Environment, rollout_episodes};
use crate::error::Result;

/// Metrics of held-out prompts begin so.
pub(crate) const HELD_OUT: &str = "eval/";

/// How held-out prompts are answered.
///
/// | metric | meaning |
/// |---|---|
/// | `eval/greedy/reward`, `eval/greedy/rewards/NAME/mean` | mean over prompts of the greedy answer's reward |
/// | `eval/greedy/right` | share of prompts whose greedy answer is right |
/// | `eval/sampled/reward`, `eval/sampled/rewards/NAME/mean` | mean over prompts of the mean over samples |
/// | `eval/sampled/pass@k` | 1 − C(n−c, k) / C(n, k), c of n samples right: what the best of k would reach, without bias (arXiv 2107.03374) |
/// | `eval/sampled/majority` | share of prompts whose most frequent answer is right; of equally frequent ones the one that came first |
///
/// Each has `/low` and `/high` beside it: a 95 % interval over prompts, which are what is drawn independently; Wilson's for shares of yes
/// and no, the normal one for means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationConfig {
    /// After every so many optimiser steps, besides before the first and after the last. `None`: only then.
    pub every: Option<u64>,
    /// n: sampled answers a prompt, drawn as in training, at most 65536. 0: the greedy answer only.
    pub samples: usize,
    /// The k of pass@k, each at most n.
    pub k: Vec<usize>,
    /// A total reward of this or more is a right answer.
    pub right_from: f64,
    /// Prompts that are sampled at once: a matter of memory.
    pub batch: usize,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self { every: None, samples: 0, k: Vec::new(), right_from: 1.0, batch: 2048 }
    }
}

impl EvaluationConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        if self.every == Some(0) {
            return Err(core("evaluation every", 0, "at least 1, or none"));
        }
        if self.samples > MOST_SAMPLES {
            return Err(core("evaluation samples", self.samples, "at most 65536"));
        }
        if let Some(k) = self.k.iter().find(|k| **k == 0 || **k > self.samples) {
            return Err(core("evaluation k", k, "at least 1 and at most evaluation samples"));
        }
        if !self.right_from.is_finite() {
            return Err(core("evaluation right_from", self.right_from, "finite"));
        }
        if self.batch == 0 {
            return Err(core("evaluation batch", 0, "at least 1"));
        }
        Ok(())
    }
}

/// Answers a prompt: more is a slip of the pen.
const MOST_SAMPLES: usize = 1 << 16;

/// The share of correct answers if the best of `k` counts, from `right` of `n` samples, without bias: 1 − C(n − right, k) / C(n, k).
///
/// ```
/// use grpo_train::pass_at_k;
/// assert!((pass_at_k(4, 1, 2) - 0.5).abs() < 1e-15); // 1 − C(3, 2) / C(4, 2)
/// assert_eq!(pass_at_k(4, 3, 2), 1.0); // of two, one is always right
/// ```
///
/// # Source
/// arXiv 2107.03374, equation 1.
pub fn pass_at_k(n: usize, right: usize, k: usize) -> f64 {
    if n < right + k {
        return 1.0;
    }
    1.0 - (n - right + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product::<f64>()
}

/// What a completion answers: what a majority is a majority of. `None`: it has no answer, and no vote.
pub(crate) type AnswerOf<T> = Box<dyn Fn(&T, &Completion) -> Option<String> + Send>;

/// An evaluation: of whom it asks what, and how it judges.
pub(crate) struct Evaluation<'a, T> {
    pub(crate) prompts: &'a [Prompt<T>],
    pub(crate) rewards: &'a Rewards<T>,
    pub(crate) sampling: &'a SamplingParams,
    pub(crate) config: &'a EvaluationConfig,
    pub(crate) limits: &'a EpisodeLimits,
    pub(crate) answer: Option<&'a AnswerOf<T>>,
    pub(crate) seed: u64,
}

impl<T: Clone + Sync> Evaluation<'_, T> {
    /// Asks, and judges.
    ///
    /// # Errors
    /// A sampler, an environment or a reward that fails.
    pub(crate) fn run<P>(
        &self,
        policy: &P,
        sampler: &mut dyn Sampler<P>,
        mut environment: Option<&mut (dyn Environment<T> + 'static)>,
    ) -> Result<Metrics> {
        let mut metrics = Metrics::default();
        let (groups, table) = self.answers(policy, sampler, environment.as_deref_mut(), 1, &self.sampling.clone().greedy())?;
        means("eval/greedy", &table, &mut metrics);
        let right = self.right(&groups, &table);
        share("eval/greedy/right", right.iter().filter(|(_, right)| *right == 1).count(), right.len(), &mut metrics);
        if self.config.samples > 0 {
            let (groups, table) = self.answers(policy, sampler, environment, self.config.samples, self.sampling)?;
            means("eval/sampled", &table, &mut metrics);
            let right = self.right(&groups, &table);
            for &k in &self.config.k {
                let rates: Vec<f64> = right.iter().map(|&(n, right)| pass_at_k(n, right, k)).collect();
                interval(&format!("eval/sampled/pass@{k}"), &rates, &mut metrics);
            }
            let votes = self.majorities(&groups, &table);
            share("eval/sampled/majority", votes.iter().filter(|right| **right).count(), votes.len(), &mut metrics);
        }
        Ok(metrics)
    }

    fn answers<P>(
        &self,
        policy: &P,
        sampler: &mut dyn Sampler<P>,
        mut environment: Option<&mut (dyn Environment<T> + 'static)>,
        samples: usize,
        params: &SamplingParams,
    ) -> Result<(Vec<Group<T>>, RewardTable)> {
        let mut groups = Vec::new();
        for (chunk, prompts) in self.prompts.chunks(self.config.batch).enumerate() {
            let plan = RolloutPlan { group_size: samples, params: params.clone(), seed: self.seed, step: chunk as u64, policy_version: 0 };
            groups.extend(match environment.as_deref_mut() {
                None => rollout(policy, sampler, prompts.to_vec(), &plan)?,
                Some(environment) => rollout_episodes(policy, sampler, environment, prompts.to_vec(), &plan, self.limits)?,
            });
        }
        let table = self.rewards.score(&groups)?;
        Ok((groups, table))
    }

    /// Of each prompt how many samples there are, and how many are right.
    fn right(&self, groups: &[Group<T>], table: &RewardTable) -> Vec<(usize, usize)> {
        let mut totals = table.totals().into_iter();
        let mut right = |n: usize| totals.by_ref().take(n).flatten().filter(|r| *r >= self.config.right_from).count();
        groups.iter().map(|group| (group.completions.len(), right(group.completions.len()))).collect()
    }

    /// Of each prompt whether its most frequent answer is right.
    fn majorities(&self, groups: &[Group<T>], table: &RewardTable) -> Vec<bool> {
        let mut totals = table.totals().into_iter();
        let mut judge = |group: &Group<T>| {
            // Of each answer: its votes, where it came first, whether it is right.
            let mut votes: HashMap<String, (usize, usize, bool)> = HashMap::new();
            for (place, (completion, total)) in group.completions.iter().zip(totals.by_ref()).enumerate() {
                let answer = match self.answer {
                    Some(answer) => answer(&group.prompt.task, completion),
                    None if completion.text.is_empty() => Some(format!("{:?}", completion.tokens)),
                    None => Some(completion.text.trim().to_owned()),
                };
                let right = total.is_some_and(|r| r >= self.config.right_from);
                if let Some(answer) = answer {
                    votes.entry(answer).or_insert((0, place, right)).0 += 1;
                }
            }
            votes.into_values().max_by_key(|(votes, place, _)| (*votes, std::cmp::Reverse(*place))).is_some_and(|(_, _, right)| right)
        };
        groups.iter().map(&mut judge).collect()
    }
}

/// Means of the total and of each function, over prompts.
fn means(name: &str, table: &RewardTable, metrics: &mut Metrics) {
    let mut columns = vec![(format!("{name}/reward"), table.totals())];
    columns.extend(table.names.iter().enumerate().map(|(f, function)| (format!("{name}/rewards/{function}/mean"), table.column(f))));
    for (name, column) in columns {
        let mut by_prompt: Vec<(u64, f64, usize)> = Vec::new();
        for (group, reward) in table.groups.iter().zip(column).filter_map(|(g, r)| Some((g.0, r?))) {
            match by_prompt.last_mut() {
                Some((id, sum, count)) if *id == group => (*sum, *count) = (*sum + reward, *count + 1),
                _ => by_prompt.push((group, reward, 1)),
            }
        }
        let rates: Vec<f64> = by_prompt.into_iter().map(|(_, sum, count)| sum / count as f64).collect();
        interval(&name, &rates, metrics);
    }
}

/// The quantile of 95 %, two-sided.
const Z: f64 = 1.959_963_984_540_054;

/// A mean over prompts with its normal interval. Without a prompt there is none; with one there is no interval.
fn interval(name: &str, values: &[f64], metrics: &mut Metrics) {
    let n = values.len() as f64;
    let sum: f64 = values.iter().sum();
    metrics.mean(name, sum, n, Normaliser::Group);
    if values.len() > 1 {
        let mean = sum / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = Z * (variance / n).sqrt();
        metrics.sum(format!("{name}/low"), mean - half, Normaliser::Step);
        metrics.sum(format!("{name}/high"), mean + half, Normaliser::Step);
    }
}

/// A share of yes with Wilson's interval, which is honest at 0 and 1, too.
fn share(name: &str, yes: usize, count: usize, metrics: &mut Metrics) {
    if count == 0 {
        return;
    }
    let (n, p) = (count as f64, yes as f64 / count as f64);
    metrics.mean(name, yes as f64, n, Normaliser::Group);
    let (z2, scale) = (Z * Z, 1.0 + Z * Z / n);
    let centre = (p + z2 / (2.0 * n)) / scale;
    let half = Z / scale * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    metrics.sum(format!("{name}/low"), (centre - half).max(0.0), Normaliser::Step);
    metrics.sum(format!("{name}/high"), (centre + half).min(1.0), Normaliser::Step);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_k_is_the_share_of_subsets_with_a_right_one() {
        // Counted out: all subsets of size k of n samples, `right` of them right.
        for (n, right) in [(1, 0), (1, 1), (5, 0), (5, 1), (5, 2), (6, 3), (7, 7)] {
            for k in 1..=n {
                let subsets = (0u32..1 << n).filter(|s| s.count_ones() as usize == k);
                let (mut all, mut good) = (0, 0);
                for subset in subsets {
                    all += 1;
                    good += u32::from(subset & ((1 << right) - 1) != 0);
                }
                let expected = f64::from(good) / f64::from(all);
                assert!((pass_at_k(n, right, k) - expected).abs() < 1e-12, "{n} {right} {k}");
            }
        }
    }

    #[test]
    fn wilsons_interval_is_honest_at_the_ends() {
        let mut metrics = Metrics::default();
        share("a", 10, 10, &mut metrics);
        // statsmodels.stats.proportion.proportion_confint(10, 10, method="wilson") = (0.7224672001371107, 1.0)
        assert!((metrics.get("a/low").unwrap() - 0.722_467_200_137_110_7).abs() < 1e-9);
        assert!((metrics.get("a/high").unwrap() - 1.0).abs() < 1e-15);
        share("b", 3, 8, &mut metrics);
        // By hand: centre (0.375 + 3.8415/16) / 1.48018, half 1.95996/1.48018 · √(0.234375/8 + 3.8415/256).
        assert!((metrics.get("b/low").unwrap() - 0.136_845).abs() < 1e-5 && (metrics.get("b/high").unwrap() - 0.694_257).abs() < 1e-5);
    }

    #[test]
    fn a_mean_over_prompts_counts_each_prompt_once() {
        let mut metrics = Metrics::default();
        interval("m", &[0.0, 1.0, 1.0, 0.0], &mut metrics);
        let half = Z * (1.0f64 / 3.0 / 4.0).sqrt();
        assert_eq!(metrics.get("m"), Some(0.5));
        assert!((metrics.get("m/high").unwrap() - 0.5 - half).abs() < 1e-15);
    }
}
