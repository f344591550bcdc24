//! Advantages: how much better a completion is than its group. Host arithmetic in f64; N numbers need no device.

mod functions;
mod gae;
mod groups;
mod input;
mod kl;
mod leave_one_out;
mod need;
mod pass_at_k;
mod process;
mod returns;
mod role;
mod spread;
mod standardise;
mod token_baseline;
mod whiten;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::group::GroupId;

pub use functions::{AfterSum, NormaliseThenSum};
pub use gae::{Gae, Lambda};
pub use groups::{Gpg, GpgShare, MaxRl, Opo, Rloo};
pub use input::{AdvantageInput, StepRewards};
pub use kl::{kl_in_advantages, kl_in_rewards};
pub use leave_one_out::LeaveOneOut;
pub use need::Need;
pub use pass_at_k::PassAtK;
pub use process::Process;
pub use returns::{ReinforcePlusPlus, ReinforcePlusPlusBaseline, Uninformative, discounted_returns};
pub use role::{RoleBaselines, RoleEma};
pub use spread::{Ddof, Spread};
pub use standardise::{Scale, Singleton, Standardise};
pub use token_baseline::OptimalTokenBaseline;
pub use whiten::{WhitenOver, Whitening};

/// One advantage a completion, or one a token. The loss sees `[N, Tc]` either way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Advantages {
    /// N numbers, in the order of the groups' completions.
    PerCompletion(Vec<f64>),
    /// For each completion one number a token.
    PerToken(Vec<Vec<f64>>),
}

impl Advantages {
    /// Those of some completions; none beyond the last.
    pub fn slice(&self, completions: std::ops::Range<usize>) -> Self {
        match self {
            Self::PerCompletion(rows) => Self::PerCompletion(rows.get(completions).unwrap_or_default().to_vec()),
            Self::PerToken(rows) => Self::PerToken(rows.get(completions).unwrap_or_default().to_vec()),
        }
    }

    /// One number a completion: the mean over its tokens.
    pub fn means(&self) -> Vec<f64> {
        match self {
            Self::PerCompletion(rows) => rows.clone(),
            Self::PerToken(rows) => rows.iter().map(|row| row.iter().sum::<f64>() / row.len().max(1) as f64).collect(),
        }
    }

    /// The number of completions.
    pub fn len(&self) -> usize {
        match self {
            Self::PerCompletion(rows) => rows.len(),
            Self::PerToken(rows) => rows.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The advantage of each of the `len` tokens of completion `row`.
    pub(crate) fn row(&self, row: usize, len: usize) -> Result<Vec<f64>> {
        match self {
            Self::PerCompletion(rows) => Ok(vec![rows[row]; len]),
            Self::PerToken(rows) => {
                Error::check_shape("token advantages of a completion", &[rows[row].len()], &[len])?;
                Ok(rows[row].clone())
            }
        }
    }
}

/// How rewards become advantages.
///
/// i is a completion, t a token of the loss, L_i their number; mean, std, max are over the rewards of the group that are there.
/// "Σ = 0" says that a group's advantages add up to 0.
///
/// | estimator | formula | a | Σ = 0 | reads | source |
/// |---|---|---|---|---|---|
/// | [`Standardise`](Self::Standardise) | (r_i − mean) / (std + ε), std of group or batch; r_i − mean without scaling | completion | yes | rewards | DeepSeekMath (arXiv 2402.03300) §4.1.2; Dr. GRPO (2503.20783); Lite PPO (2508.08221) |
/// | [`MaxRl`](Self::MaxRl) | (r_i − mean) / mean, 0 if mean ≤ 0 | completion | yes | rewards | 2602.02710 |
/// | [`Rloo`](Self::Rloo) | r_i − mean of the others = n/(n−1) · (r_i − mean) | completion | yes | rewards | 2402.14740 |
/// | [`LeaveOneOut`](Self::LeaveOneOut) | (r_i − mean of the others) / (std of the others + ε), undivided if that std is 0 | completion | no | rewards | NeMo RL |
/// | [`PassAtK`](Self::PassAtK) | the best: (max − second) / (std + ε); others 0 | completion | no | rewards | 2503.19595 |
/// | [`Gpg`](Self::Gpg) | α · (r_i − mean) / F | completion | yes | rewards | 2504.02546 |
/// | [`Opo`](Self::Opo) | r_i − Σ_j L_j r_j / Σ_j L_j | completion | no | rewards, masks | 2505.23585 |
/// | [`RoleEma`](Self::RoleEma) | r_i − running mean of its role | completion | no | rewards, baselines | SPIRAL (2506.24119) |
/// | [`Raw`](Self::Raw) | r_i | completion | no | rewards | REINFORCE |
/// | [`NormaliseThenSum`](Self::NormaliseThenSum) | Σ_f w_f (r_if − mean_f) / (std_f + ε), then normalised over the batch | completion | yes | functions | GDPO (2601.05242) |
/// | [`ReinforcePlusPlus`](Self::ReinforcePlusPlus) | whitened Σ_{k≥t} γ^{k−t} r_k | token | no | rewards, masks | 2501.03262 |
/// | [`ReinforcePlusPlusBaseline`](Self::ReinforcePlusPlusBaseline) | whitened r_i − mean | token | no | rewards, masks | 2501.03262 |
/// | [`ReMax`](Self::ReMax) | Σ_{k≥t} r_k − reward of the greedy answer | token | no | rewards, masks, baselines | 2310.10505 |
/// | [`OptimalTokenBaseline`](Self::OptimalTokenBaseline) | G_t − Σ_j G_jt W_jt / (Σ_j W_jt + ε) | token | no | rewards, masks, probabilities | 2602.07078 |
/// | [`Gae`](Self::Gae) | δ_t + γλ Â_{t+1}, δ_t = r_t + γ V_{t+1} − V_t, whitened | token | no | rewards, masks, values | 1506.02438; VAPO (2504.05118) |
/// | [`Process`](Self::Process) | Σ over steps that end at or after t of (r − mean) / (std + ε), over all steps of the group | token | no | steps, masks | DeepSeekMath (2402.03300) §4.1.3 |
///
/// The sources of GRPO divide by G, trainers by G − 1: both have a name ([`Ddof`]). Sum-then-normalise over several reward functions is
/// [`RewardTable::totals`](crate::RewardTable::totals) with any of these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Estimator {
    /// Centred on the group's mean, then scaled: GRPO, Dr. GRPO, Lite PPO.
    Standardise(Standardise),
    /// Centred, divided by the mean.
    MaxRl(MaxRl),
    /// Against the mean of the others.
    Rloo(Rloo),
    /// Against mean and standard deviation of the others.
    LeaveOneOut(LeaveOneOut),
    /// Only the best learns.
    PassAtK(PassAtK),
    /// Centred, scaled up for the completions that teach nothing.
    Gpg(Gpg),
    /// Against the length-weighted mean.
    Opo(Opo),
    /// Against a running mean of the role.
    RoleEma(RoleEma),
    /// The reward itself. A missing one gives 0.
    Raw,
    /// Each reward function by itself, then the weighted sum.
    NormaliseThenSum(NormaliseThenSum),
    /// Whitened returns.
    ReinforcePlusPlus(ReinforcePlusPlus),
    /// Whitened centred rewards.
    ReinforcePlusPlusBaseline(ReinforcePlusPlusBaseline),
    /// Against the greedy answer.
    ReMax,
    /// Against the best baseline at each place.
    OptimalTokenBaseline(OptimalTokenBaseline),
    /// Against a critic.
    Gae(Gae),
    /// From rewards of reasoning steps.
    Process(Process),
}

impl Default for Estimator {
    fn default() -> Self {
        Self::Standardise(Standardise::default())
    }
}

impl Estimator {
    /// Dr. GRPO (arXiv 2503.20783): r_i − mean.
    pub fn dr_grpo() -> Self {
        Self::Standardise(Standardise::dr_grpo())
    }

    /// Lite PPO (arXiv 2508.08221): (r_i − mean of the group) / (std of the batch + ε).
    pub fn lite_ppo() -> Self {
        Self::Standardise(Standardise::lite_ppo())
    }

    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Standardise(e) => e.validate(),
            Self::LeaveOneOut(e) => e.validate(),
            Self::PassAtK(e) => e.validate(),
            Self::Gpg(e) => e.validate(),
            Self::RoleEma(e) => e.validate(),
            Self::NormaliseThenSum(e) => e.validate(),
            Self::ReinforcePlusPlus(e) => e.validate(),
            Self::ReinforcePlusPlusBaseline(e) => e.validate(),
            Self::OptimalTokenBaseline(e) => e.validate(),
            Self::Gae(e) => e.validate(),
            Self::Process(e) => e.validate(),
            Self::MaxRl(_) | Self::Rloo(_) | Self::Opo(_) | Self::Raw | Self::ReMax => Ok(()),
        }
    }

    /// What it cannot do without.
    pub fn needs(&self) -> &'static [Need] {
        match self {
            Self::Standardise(_) | Self::MaxRl(_) | Self::Rloo(_) | Self::LeaveOneOut(_) | Self::PassAtK(_) | Self::Gpg(_) | Self::Raw => {
                &[Need::Rewards]
            }
            Self::RoleEma(_) => &[Need::Rewards, Need::Baselines],
            Self::NormaliseThenSum(NormaliseThenSum { after: AfterSum::Whiten(_), .. }) => &[Need::Functions, Need::Masks],
            Self::NormaliseThenSum(_) => &[Need::Functions],
            Self::Opo(_) | Self::ReinforcePlusPlus(_) | Self::ReinforcePlusPlusBaseline(_) => &[Need::Rewards, Need::Masks],
            Self::ReMax => &[Need::Rewards, Need::Masks, Need::Baselines],
            Self::OptimalTokenBaseline(_) => &[Need::Rewards, Need::Masks, Need::Probabilities],
            Self::Gae(_) => &[Need::Rewards, Need::Masks, Need::Values],
            Self::Process(_) => &[Need::Steps, Need::Masks],
        }
    }

    /// Advantages of completions with these rewards and groups; `None` is a missing reward.
    ///
    /// A missing reward stays out of every statistic and has advantage 0. A group whose rewards are all equal has
    /// advantage exactly 0, whatever the constant and however it was rounded.
    ///
    /// ```
    /// use grpo_core::{Advantages, Estimator, GroupId};
    /// let (g, h) = (GroupId(7), GroupId(8));
    /// let rewards = [Some(1.0), Some(0.0), Some(0.1 + 0.2), Some(0.3)];
    /// let Advantages::PerCompletion(a) = Estimator::default().advantages(&rewards, &[g, g, h, h])? else { unreachable!() };
    /// assert!((a[0] - 0.7070).abs() < 1e-3 && a[1] == -a[0]);
    /// assert_eq!(a[2..], [0.0, 0.0]); // 0.1 + 0.2 is not 0.3 in f64, and still no signal
    /// # Ok::<(), grpo_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Lists of different lengths, a reward that is NaN, infinite or beyond 1e100, a group of one unless [`Singleton`] allows it,
    /// an estimator that needs more than rewards (use [`estimate`](Self::estimate)).
    pub fn advantages(&self, rewards: &[Option<f64>], groups: &[GroupId]) -> Result<Advantages> {
        Error::check_shape("groups", &[groups.len()], &[rewards.len()])?;
        self.estimate(&AdvantageInput::new(groups).with_rewards(rewards))
    }

    /// Advantages from whatever the estimator reads: the one entry point of all of them.
    ///
    /// # Errors
    /// A field out of range; something that the estimator [`needs`](Self::needs) and was not given, by name; lists of different
    /// lengths; a number that counts and is NaN, infinite or beyond 1e100; a group of one unless [`Singleton`] allows it.
    pub fn estimate(&self, input: &AdvantageInput<'_>) -> Result<Advantages> {
        self.validate()?;
        input.check(self.needs())?;
        let (rewards, groups) = (input.outcomes(), &input.groups);
        let per_completion = match self {
            Self::Standardise(e) => e.advantages(&rewards, groups)?,
            Self::MaxRl(e) => e.advantages(&rewards, groups)?,
            Self::Rloo(e) => e.advantages(&rewards, groups)?,
            Self::LeaveOneOut(e) => e.advantages(&rewards, groups)?,
            Self::PassAtK(e) => e.advantages(&rewards, groups)?,
            Self::Gpg(e) => e.advantages(&rewards, groups)?,
            Self::Opo(e) => e.advantages(input)?,
            Self::RoleEma(_) => {
                let baselines = input.baselines.as_deref().unwrap_or_default();
                rewards.iter().zip(baselines).map(|(r, b)| r.map_or(0.0, |r| r - b)).collect()
            }
            Self::Raw => rewards.iter().map(|r| r.unwrap_or(0.0)).collect(),
            Self::NormaliseThenSum(e) => return e.advantages(input),
            Self::ReinforcePlusPlus(e) => return Ok(Advantages::PerToken(e.advantages(input))),
            Self::ReinforcePlusPlusBaseline(e) => return Ok(Advantages::PerToken(e.advantages(input)?)),
            Self::ReMax => return Ok(Advantages::PerToken(returns::remax(input))),
            Self::OptimalTokenBaseline(e) => return Ok(Advantages::PerToken(e.advantages(input)?)),
            Self::Gae(e) => return Ok(Advantages::PerToken(e.advantages(input))),
            Self::Process(e) => return Ok(Advantages::PerToken(e.advantages(input)?)),
        };
        Ok(Advantages::PerCompletion(per_completion))
    }
}

/// The rows of each group, groups in the order of their first row. A group's rows need not be neighbours.
pub(crate) fn rows_by_group(groups: &[GroupId]) -> Vec<(GroupId, Vec<usize>)> {
    let mut slots = std::collections::HashMap::new();
    let mut rows: Vec<(GroupId, Vec<usize>)> = Vec::new();
    let mut slot = 0;
    for (row, &group) in groups.iter().enumerate() {
        // Mostly they are neighbours: then no look-up is needed.
        if row == 0 || groups[row - 1] != group {
            slot = *slots.entry(group).or_insert_with(|| {
                rows.push((group, Vec::new()));
                rows.len() - 1
            });
        }
        rows[slot].1.push(row);
    }
    rows
}
