//! Estimators from returns: what is still to come at each token. REINFORCE++, its baseline form, ReMax.

use serde::{Deserialize, Serialize};

use super::input::AdvantageInput;
use super::rows_by_group;
use super::spread::{Ddof, Spread};
use super::standardise::Singleton;
use super::whiten::Whitening;
use crate::error::{Error, Result};

/// G_t = Σ_{k ≥ t} γ^{k − t} r_k over the tokens of the loss; 0 at the others, which count as no time.
///
/// ```
/// use grpo_core::discounted_returns;
/// assert_eq!(discounted_returns(&[1.0, f64::NAN, 2.0], &[true, false, true], 0.5), [2.0, 0.0, 2.0]);
/// ```
pub fn discounted_returns(rewards: &[f64], mask: &[bool], gamma: f64) -> Vec<f64> {
    let mut returns = vec![0.0; rewards.len()];
    let mut running = 0.0;
    for ((g, r), _) in returns.iter_mut().zip(rewards).zip(mask).rev().filter(|(_, m)| **m) {
        running = r + gamma * running;
        *g = running;
    }
    returns
}

/// γ must lie in [0, 1].
pub(crate) fn check_unit(name: &'static str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(Error::config(name, value, "between 0 and 1")) }
}

/// Masks of the tokens that count: none of a completion without a reward.
pub(crate) fn live<R>(input: &AdvantageInput<'_>, rewards: &[Option<R>]) -> Vec<Vec<bool>> {
    let masks = input.masks.as_deref().unwrap_or_default();
    masks.iter().zip(rewards).map(|(mask, reward)| if reward.is_some() { mask.clone() } else { vec![false; mask.len()] }).collect()
}

/// Returns of every completion, zeros for one without a reward, and the tokens that count.
pub(crate) fn all_returns(input: &AdvantageInput<'_>, gamma: f64) -> (Vec<Vec<f64>>, Vec<Vec<bool>>) {
    let rewards = input.rewards_by_token();
    let live = live(input, &rewards);
    let returns = rewards
        .iter()
        .zip(&live)
        .map(|(r, live)| r.as_ref().map_or_else(|| vec![0.0; live.len()], |r| discounted_returns(r, live, gamma)))
        .collect();
    (returns, live)
}

/// REINFORCE++: discounted returns at each token, whitened over the batch. Groups play no part.
///
/// A KL penalty belongs into the token rewards: [`kl_in_rewards`](crate::kl_in_rewards).
///
/// # Source
/// arXiv 2501.03262.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReinforcePlusPlus {
    /// γ in [0, 1].
    pub gamma: f64,
    /// How returns are whitened. `None`: not at all.
    pub whiten: Option<Whitening>,
}

impl Default for ReinforcePlusPlus {
    /// γ = 1, verl's whitening.
    fn default() -> Self {
        Self { gamma: 1.0, whiten: Some(Whitening::default()) }
    }
}

impl ReinforcePlusPlus {
    pub(crate) fn validate(&self) -> Result<()> {
        check_unit("reinforce_plus_plus gamma", self.gamma)?;
        self.whiten.map_or(Ok(()), |w| w.validate())
    }

    pub(crate) fn advantages(&self, input: &AdvantageInput<'_>) -> Vec<Vec<f64>> {
        let (mut rows, live) = all_returns(input, self.gamma);
        self.whiten.iter().for_each(|w| w.rows(&mut rows, &live));
        rows
    }
}

/// REINFORCE++ with baseline: r_i − mean of the group at each token, whitened over all tokens of the batch.
///
/// Whitening by tokens moves the mean: where lengths differ, a group whose rewards are all equal does not stay at 0. Here it does:
/// it teaches nothing about its prompt, keeps advantage 0, and still counts in mean and variance as the formula has it.
/// [`Uninformative::Shifted`] gives the formula to the letter.
///
/// # Source
/// arXiv 2501.03262.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReinforcePlusPlusBaseline {
    /// How it is whitened. `None`: not at all.
    pub whiten: Option<Whitening>,
    /// What a group whose rewards are all equal gets.
    pub uninformative: Uninformative,
    /// What a group of one gives. [`Singleton::Raw`] keeps its reward, before whitening.
    pub singleton: Singleton,
}

/// What whitening leaves of a group whose rewards are all equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Uninformative {
    /// Exactly 0.
    #[default]
    Zero,
    /// The whitened 0: −μ / √(var + ε), as trainers in use have it.
    Shifted,
}

impl Default for ReinforcePlusPlusBaseline {
    fn default() -> Self {
        Self { whiten: Some(Whitening::default()), uninformative: Uninformative::Zero, singleton: Singleton::Refuse }
    }
}

impl ReinforcePlusPlusBaseline {
    pub(crate) fn validate(&self) -> Result<()> {
        self.whiten.map_or(Ok(()), |w| w.validate())
    }

    pub(crate) fn advantages(&self, input: &AdvantageInput<'_>) -> Result<Vec<Vec<f64>>> {
        let rewards = input.outcomes();
        let live = live(input, &rewards);
        let mut centred = vec![0.0; rewards.len()];
        let mut flat = vec![false; rewards.len()];
        for (id, rows) in rows_by_group(&input.groups) {
            let raw = self.singleton.of(id, rows.len())?;
            let values: Vec<f64> = rows.iter().filter_map(|&row| rewards[row]).collect();
            let spread = Spread::of(&values, Ddof::Sample);
            for &row in &rows {
                flat[row] = !raw && spread.std == 0.0;
                centred[row] = match rewards[row] {
                    Some(r) if raw => r,
                    Some(r) if !flat[row] => r - spread.mean,
                    _ => 0.0,
                };
            }
        }
        let mut tokens: Vec<Vec<f64>> =
            live.iter().zip(&centred).map(|(live, a)| live.iter().map(|l| if *l { *a } else { 0.0 }).collect()).collect();
        if let Some(whiten) = &self.whiten {
            whiten.rows(&mut tokens, &live);
            if self.uninformative == Uninformative::Zero {
                tokens.iter_mut().zip(&flat).filter(|(_, flat)| **flat).for_each(|(row, _)| row.fill(0.0));
            }
        }
        Ok(tokens)
    }
}

/// ReMax: Â_t = Σ_{k ≥ t} r_k − b, b the reward of the greedy answer to the same prompt ([`with_baselines`](AdvantageInput::with_baselines)).
///
/// # Source
/// arXiv 2310.10505.
pub(crate) fn remax(input: &AdvantageInput<'_>) -> Vec<Vec<f64>> {
    let baselines = input.baselines.as_deref().unwrap_or_default();
    let (mut rows, live) = all_returns(input, 1.0);
    for ((row, live), baseline) in rows.iter_mut().zip(&live).zip(baselines) {
        row.iter_mut().zip(live).filter(|(_, l)| **l).for_each(|(v, _)| *v -= baseline);
    }
    rows
}
