//! Dynamic sampling: drawing on until enough groups are worth training on.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::filter::{GroupFilter, Selection, SelectionCounts};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::score::RewardTable;

/// How many groups are wanted, and how long one goes on for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refill {
    /// Groups that are wanted, at least 1.
    pub groups: usize,
    /// Rounds of drawing, at least 1. After the last one the step goes on with what there is, and says so.
    pub max_rounds: usize,
}

impl Refill {
    /// Checks every field.
    ///
    /// # Errors
    /// A field that is 0.
    pub fn validate(&self) -> Result<()> {
        match (self.groups, self.max_rounds) {
            (0, _) => Err(Error::config("refill groups", 0, "at least 1")),
            (_, 0) => Err(Error::config("refill max_rounds", 0, "at least 1")),
            _ => Ok(()),
        }
    }
}

/// Draws groups until `plan.groups` of them pass the filter, or for `plan.max_rounds` rounds.
///
/// `draw(round, missing)` samples and judges new groups: as many as it likes, `missing` still lack. Round 0 is the first. Group ids must
/// differ between rounds: give each round a step of its own in the rollout plan, or ids will repeat. What passes beyond the number
/// wanted is surplus, last come last kept. If `draw` gives no group, the prompts are used up and the search ends.
///
/// # Errors
/// A plan or filter out of range, whatever `draw` fails with, a group id that was drawn before, tables of different functions.
///
/// # Source
/// DAPO (arXiv 2503.14476) §3.2.
pub fn refill<T>(
    plan: Refill,
    filter: &GroupFilter,
    mut draw: impl FnMut(usize, usize) -> Result<(Vec<Group<T>>, RewardTable)>,
) -> Result<Selection<T>> {
    plan.validate()?;
    filter.validate()?;
    let mut counts = SelectionCounts::default();
    let mut groups: Vec<Group<T>> = Vec::new();
    let mut rewards: Option<RewardTable> = None;
    let mut ids = HashSet::new();
    while groups.len() < plan.groups && counts.rounds < plan.max_rounds {
        let (drawn, table) = draw(counts.rounds, plan.groups - groups.len())?;
        counts.rounds += 1;
        let exhausted = drawn.is_empty();
        if let Some(twice) = drawn.iter().map(|g| g.id).find(|id| !ids.insert(*id)) {
            return Err(Error::invalid("group id", format!("{} was drawn before: must be unique over all rounds", twice.0)));
        }
        let selection = filter.apply(drawn, &table)?;
        counts.add(&selection.counts);
        groups.extend(selection.groups);
        match &mut rewards {
            None => rewards = Some(selection.rewards),
            Some(all) => all.append(selection.rewards)?,
        }
        if exhausted {
            break;
        }
    }
    let Some(mut rewards) = rewards else { return Err(Error::config("refill max_rounds", 0, "at least 1")) };
    let surplus = groups.len().saturating_sub(plan.groups);
    groups.truncate(plan.groups);
    let rows = groups.iter().map(|g| g.completions.len()).sum();
    rewards.groups.truncate(rows);
    rewards.rows.truncate(rows);
    counts.surplus += surplus;
    counts.kept -= surplus;
    counts.short = plan.groups - groups.len();
    Ok(Selection { groups, rewards, counts })
}
