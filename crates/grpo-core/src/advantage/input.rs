//! What estimators read: rewards and groups for all, and per-token facts for those that want them.

use std::borrow::Cow;

use super::need::Need;
use crate::error::{Error, Result};
use crate::group::{Group, GroupId};
use crate::reward::Reward;
use crate::score::RewardTable;

/// Rewards beyond this are refused: squares and sums of smaller ones stay finite, so no NaN can arise.
const LARGEST: f64 = 1e100;

/// The steps of one completion: the index of each step's last token, and the step's reward. `None`: no reward.
pub type StepRewards = Option<Vec<(usize, f64)>>;

/// The probabilities of the optimal token baseline.
#[derive(Debug, Clone)]
pub(crate) struct Probabilities<'a> {
    /// π_t of the sampled token.
    pub token: Cow<'a, [Vec<f64>]>,
    /// Σ_v π(v)² at its place.
    pub squares: Cow<'a, [Vec<f64>]>,
}

/// Rewards of each function.
#[derive(Debug, Clone)]
pub(crate) struct Functions<'a> {
    /// `[functions][N]`
    pub columns: Cow<'a, [Vec<Option<f64>>]>,
    /// One a function.
    pub weights: Cow<'a, [f64]>,
}

/// What [`Estimator::estimate`](crate::Estimator::estimate) reads: N completions, their groups, and whatever else is known of them.
///
/// Every part is a slice or a `Vec`, one entry a completion; per-token parts hold one number a token. What is not given is absent,
/// and an estimator that needs it says so. Numbers at places that a mask leaves out are never read: they may be NaN.
///
/// A completion without a reward (`None`) stays out of every statistic and has advantage 0.
///
/// ```
/// use grpo_core::{AdvantageInput, Advantages, Estimator, Gae, GroupId};
/// let input = AdvantageInput::new(&[GroupId(1)])
///     .with_rewards(&[Some(1.0)])
///     .with_masks(vec![vec![true, false, true]]) // the second token is a tool's
///     .with_values(vec![vec![0.5, f64::NAN, 0.25]]);
/// let gae = Estimator::Gae(Gae { whiten: None, ..Gae::default() });
/// assert_eq!(gae.estimate(&input)?, Advantages::PerToken(vec![vec![0.5, 0.0, 0.75]]));
/// assert!(gae.estimate(&AdvantageInput::new(&[GroupId(1)]).with_rewards(&[Some(1.0)])).is_err()); // no masks, no values
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct AdvantageInput<'a> {
    pub(crate) groups: Cow<'a, [GroupId]>,
    pub(crate) rewards: Option<Cow<'a, [Option<f64>]>>,
    pub(crate) functions: Option<Functions<'a>>,
    pub(crate) masks: Option<Cow<'a, [Vec<bool>]>>,
    pub(crate) token_rewards: Option<Cow<'a, [Vec<f64>]>>,
    pub(crate) values: Option<Cow<'a, [Vec<f64>]>>,
    pub(crate) baselines: Option<Cow<'a, [f64]>>,
    pub(crate) steps: Option<Cow<'a, [StepRewards]>>,
    pub(crate) probabilities: Option<Probabilities<'a>>,
    pub(crate) ratios: Option<Cow<'a, [Vec<f64>]>>,
}

impl<'a> AdvantageInput<'a> {
    /// N completions that belong to these groups. Groups may be uneven, and a group's completions need not be neighbours.
    pub fn new(groups: impl Into<Cow<'a, [GroupId]>>) -> Self {
        Self { groups: groups.into(), ..Self::default() }
    }

    /// All that a rollout knows: totals, the functions' own rewards and weights, steps, and masks of the tokens that the policy wrote.
    ///
    /// A function without steps gives its outcome at the completion's last token. Functions of weight 0 stay out.
    ///
    /// # Errors
    /// A table that was made from other groups.
    pub fn from_rollout<T>(groups: &[Group<T>], table: &RewardTable) -> Result<AdvantageInput<'static>> {
        let completions: Vec<_> = groups.iter().flat_map(|g| g.completions.iter().map(move |c| (g.id, c))).collect();
        let ids: Vec<GroupId> = completions.iter().map(|(id, _)| *id).collect();
        Error::check_shape("reward table", &[table.rows.len()], &[ids.len()])?;
        if ids != table.groups {
            return Err(Error::invalid("reward table", "was made from other groups: must be of the groups that are given"));
        }
        let masks: Vec<Vec<bool>> = completions.iter().map(|(_, c)| c.policy_mask()).collect();
        let steps =
            table.rows.iter().zip(&completions).map(|(row, (_, c))| steps_of(row, &table.weights, c.tokens.len())).collect::<Vec<_>>();
        let (functions, weights): (Vec<_>, Vec<f64>) =
            table.weights.iter().enumerate().filter(|(_, w)| **w != 0.0).map(|(f, w)| (table.column(f), *w)).unzip();
        Ok(AdvantageInput::new(ids).with_rewards(table.totals()).with_functions(functions, weights).with_steps(steps).with_masks(masks))
    }

    /// One reward a completion; `None` is missing.
    pub fn with_rewards(mut self, rewards: impl Into<Cow<'a, [Option<f64>]>>) -> Self {
        self.rewards = Some(rewards.into());
        self
    }

    /// `[functions][N]` rewards and one weight a function.
    pub fn with_functions(mut self, columns: impl Into<Cow<'a, [Vec<Option<f64>>]>>, weights: impl Into<Cow<'a, [f64]>>) -> Self {
        self.functions = Some(Functions { columns: columns.into(), weights: weights.into() });
        self
    }

    /// Which tokens of each completion take part in the loss.
    pub fn with_masks(mut self, masks: impl Into<Cow<'a, [Vec<bool>]>>) -> Self {
        self.masks = Some(masks.into());
        self
    }

    /// Masks of completions whose tokens all take part.
    pub fn with_lengths(self, lengths: &[usize]) -> Self {
        self.with_masks(lengths.iter().map(|&len| vec![true; len]).collect::<Vec<_>>())
    }

    /// One reward a token. They are then the whole reward: `rewards` says at most which completions have none.
    ///
    /// Without them, the reward of a completion is paid at its last token of the loss.
    pub fn with_token_rewards(mut self, token_rewards: impl Into<Cow<'a, [Vec<f64>]>>) -> Self {
        self.token_rewards = Some(token_rewards.into());
        self
    }

    /// The critic's value at each token: what it expects from here on, before the token's reward.
    pub fn with_values(mut self, values: impl Into<Cow<'a, [Vec<f64>]>>) -> Self {
        self.values = Some(values.into());
        self
    }

    /// One baseline a completion.
    pub fn with_baselines(mut self, baselines: impl Into<Cow<'a, [f64]>>) -> Self {
        self.baselines = Some(baselines.into());
        self
    }

    /// Rewards of reasoning steps.
    pub fn with_steps(mut self, steps: impl Into<Cow<'a, [StepRewards]>>) -> Self {
        self.steps = Some(steps.into());
        self
    }

    /// π of each sampled token, and Σ_v π(v)² at its place.
    pub fn with_probabilities(mut self, token: impl Into<Cow<'a, [Vec<f64>]>>, squares: impl Into<Cow<'a, [Vec<f64>]>>) -> Self {
        self.probabilities = Some(Probabilities { token: token.into(), squares: squares.into() });
        self
    }

    /// The importance weight of each token against the sampler (optional, for the optimal token baseline).
    pub fn with_ratios(mut self, ratios: impl Into<Cow<'a, [Vec<f64>]>>) -> Self {
        self.ratios = Some(ratios.into());
        self
    }

    /// N.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is no completion.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn has(&self, need: Need) -> bool {
        match need {
            Need::Rewards => self.rewards.is_some() || (self.token_rewards.is_some() && self.masks.is_some()),
            Need::Functions => self.functions.is_some(),
            Need::Masks => self.masks.is_some(),
            Need::Values => self.values.is_some(),
            Need::Baselines => self.baselines.is_some(),
            Need::Steps => self.steps.is_some(),
            Need::Probabilities => self.probabilities.is_some(),
        }
    }

    /// That everything is there, has one entry a completion, and is a number where it counts.
    pub(crate) fn check(&self, needs: &[Need]) -> Result<()> {
        if let Some(need) = needs.iter().find(|need| !self.has(**need)) {
            let problem = format!("{} are missing, and this estimator needs them: call AdvantageInput::{}", need.name(), need.call());
            return Err(Error::invalid("advantage input", problem));
        }
        let n = self.len();
        let rows = |what, len: Option<usize>| len.map_or(Ok(()), |len| Error::check_shape(what, &[len], &[n]));
        rows("rewards", self.rewards.as_ref().map(|r| r.len()))?;
        rows("masks", self.masks.as_ref().map(|r| r.len()))?;
        rows("baselines", self.baselines.as_ref().map(|r| r.len()))?;
        rows("steps", self.steps.as_ref().map(|r| r.len()))?;
        for (row, reward) in self.rewards.iter().flat_map(|r| r.iter().enumerate()) {
            reward.map_or(Ok(()), |r| number("reward", row, None, r))?;
        }
        for (row, baseline) in self.baselines.iter().flat_map(|b| b.iter().enumerate()) {
            number("baseline", row, None, *baseline)?;
        }
        if let Some(Functions { columns, weights }) = &self.functions {
            Error::check_shape("reward functions", &[columns.len()], &[weights.len()])?;
            for column in columns.iter() {
                Error::check_shape("rewards of a function", &[column.len()], &[n])?;
                column.iter().enumerate().try_for_each(|(row, r)| r.map_or(Ok(()), |r| number("reward", row, None, r)))?;
            }
            weights.iter().enumerate().try_for_each(|(f, w)| number("reward weight of function", f, None, *w))?;
        }
        for (row, steps) in self.steps.iter().flat_map(|s| s.iter().enumerate()) {
            steps.iter().flatten().try_for_each(|&(_, r)| number("step reward", row, None, r))?;
        }
        self.check_tokens("token rewards", self.token_rewards.as_deref())?;
        self.check_tokens("values", self.values.as_deref())?;
        self.check_tokens("token probabilities", self.probabilities.as_ref().map(|p| &*p.token))?;
        self.check_tokens("sums of squared probabilities", self.probabilities.as_ref().map(|p| &*p.squares))?;
        self.check_tokens("token ratios", self.ratios.as_deref())
    }

    fn check_tokens(&self, what: &'static str, rows: Option<&[Vec<f64>]>) -> Result<()> {
        let Some(rows) = rows else { return Ok(()) };
        let masks = self
            .masks
            .as_deref()
            .ok_or_else(|| Error::invalid("advantage input", format!("{what} need masks: call AdvantageInput::with_masks")))?;
        Error::check_shape(what, &[rows.len()], &[self.len()])?;
        for (row, (numbers, mask)) in rows.iter().zip(masks).enumerate() {
            Error::check_shape(what, &[row, numbers.len()], &[row, mask.len()])?;
            // What the mask leaves out is junk, and may be anything.
            numbers.iter().zip(mask).enumerate().filter(|(_, (_, m))| **m).try_for_each(|(t, (v, _))| number(what, row, Some(t), *v))?;
        }
        Ok(())
    }

    /// One reward a completion: as given, or the sum of its token rewards.
    pub(crate) fn outcomes(&self) -> Cow<'_, [Option<f64>]> {
        match (&self.rewards, &self.token_rewards, &self.masks) {
            (rewards, Some(tokens), Some(masks)) => tokens
                .iter()
                .zip(masks.iter())
                .enumerate()
                .map(|(row, (tokens, mask))| {
                    let present = rewards.as_ref().is_none_or(|r| r[row].is_some());
                    present.then(|| tokens.iter().zip(mask).filter(|(_, m)| **m).map(|(r, _)| r).sum())
                })
                .collect(),
            (Some(rewards), ..) => Cow::Borrowed(rewards),
            _ => Cow::Borrowed(&[]),
        }
    }

    /// The rewards of each token, 0 where the mask leaves it out; `None` for a completion without a reward.
    pub(crate) fn rewards_by_token(&self) -> Vec<Option<Vec<f64>>> {
        let outcomes = self.outcomes();
        let masks = self.masks.as_deref().unwrap_or_default();
        masks
            .iter()
            .enumerate()
            .map(|(row, mask)| {
                outcomes[row].map(|outcome| match &self.token_rewards {
                    Some(tokens) => tokens[row].iter().zip(mask).map(|(&r, &m)| if m { r } else { 0.0 }).collect(),
                    None => {
                        let mut tokens = vec![0.0; mask.len()];
                        if let Some(last) = mask.iter().rposition(|m| *m) {
                            tokens[last] = outcome;
                        }
                        tokens
                    }
                })
            })
            .collect()
    }
}

/// A finite number that can be squared and summed without overflow.
fn number(what: &'static str, row: usize, token: Option<usize>, value: f64) -> Result<()> {
    let place = || token.map_or_else(|| format!("{row}"), |t| format!("{row}, token {t}"));
    if !value.is_finite() {
        return Err(Error::invalid(what, format!("completion {} has {value}, must be finite", place())));
    }
    if value.abs() > LARGEST {
        return Err(Error::invalid(what, format!("completion {} has {value}, must be at most {LARGEST:e} in size", place())));
    }
    Ok(())
}

/// Weighted steps of all functions, in order of their ends; an outcome is a step that ends at the last token.
fn steps_of(row: &[Reward], weights: &[f64], tokens: usize) -> StepRewards {
    let mut steps: Option<Vec<(usize, f64)>> = None;
    for (reward, weight) in row.iter().zip(weights).filter(|(_, w)| **w != 0.0) {
        match reward {
            Reward::Outcome(r) => steps.get_or_insert_default().push((tokens.saturating_sub(1), weight * r)),
            Reward::Steps(own) => steps.get_or_insert_default().extend(own.iter().map(|(end, r)| (*end, weight * r))),
            Reward::NotApplicable => {}
        }
    }
    steps.iter_mut().for_each(|s| s.sort_by_key(|(end, _)| *end));
    steps
}
