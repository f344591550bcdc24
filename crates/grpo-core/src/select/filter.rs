//! Filters of groups, by their raw rewards.

use serde::{Deserialize, Serialize};

use crate::advantage::{Ddof, Spread, rows_by_group};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::metrics::{Metrics, Normaliser};
use crate::score::RewardTable;

/// Which rewards a filter looks at. Not the shaped ones: a length penalty gives a group of wrong answers a spread.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RawReward {
    /// The weighted sum over all functions: right where none of them shapes.
    #[default]
    Total,
    /// The weighted sum over these functions, by name. A weight of 0 (a metric) counts as 1.
    Functions(Vec<String>),
}

impl RawReward {
    /// The raw reward of each completion; `None` where no function applies.
    ///
    /// # Errors
    /// A function that the table does not have, or none at all.
    pub fn of(&self, table: &RewardTable) -> Result<Vec<Option<f64>>> {
        let Self::Functions(names) = self else { return Ok(table.totals()) };
        if names.is_empty() {
            return Err(Error::config("raw reward functions", "[]", "at least one name"));
        }
        let mut sums = vec![None; table.rows.len()];
        for name in names {
            let Some(index) = table.names.iter().position(|n| n == name) else {
                return Err(Error::invalid("raw reward", format!("there is no function `{name}`, must be one of {:?}", table.names)));
            };
            let weight = if table.weights[index] == 0.0 { 1.0 } else { table.weights[index] };
            for (sum, reward) in sums.iter_mut().zip(table.column(index)) {
                *sum = reward.map_or(*sum, |r| Some(sum.unwrap_or(0.0) + weight * r));
            }
        }
        Ok(sums)
    }
}

/// The share of right answers that a group may have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// A raw reward of this or more is a right answer.
    #[serde(default = "one")]
    pub right_from: f64,
    /// The least share that is kept, in [0, 1].
    pub low: f64,
    /// The largest share that is kept, in [0, 1].
    pub high: f64,
}

fn one() -> f64 {
    1.0
}

/// Why a group was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Dropped {
    /// No completion has a reward.
    Unrewarded,
    /// Fewer than two rewards: nothing to compare.
    Single,
    /// The rewards do not differ enough.
    NoSpread,
    /// Too few right answers.
    TooHard,
    /// Too many right answers.
    TooEasy,
    /// It would have been kept, but there are enough.
    Surplus,
}

/// Keeps groups that can teach something.
///
/// The spread of a group is max − min of its raw rewards, not a standard deviation: rounding noise (0.1 + 0.2 against 0.3) is no
/// spread. A mean says nothing of it: a group of 0.5 four times has a mean between 0 and 1, and is dropped.
///
/// ```
/// use grpo_core::{Dropped, GroupFilter};
/// let filter = GroupFilter::default();
/// assert_eq!(filter.judge(&[Some(0.5); 4]), Some(Dropped::NoSpread));
/// assert_eq!(filter.judge(&[Some(0.1 + 0.2), Some(0.3)]), Some(Dropped::NoSpread));
/// assert_eq!(filter.judge(&[Some(1.0), None, Some(0.0)]), None); // kept
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupFilter {
    /// Which rewards it looks at.
    pub raw: RawReward,
    /// max − min must be above this, at least 0. `None`: any group passes.
    pub spread_above: Option<f64>,
    /// The share of right answers must lie within this. `None`: any.
    pub accuracy: Option<Accuracy>,
}

impl Default for GroupFilter {
    /// Any spread, any accuracy, of the total reward (the filter of DAPO, arXiv 2503.14476).
    fn default() -> Self {
        Self { raw: RawReward::Total, spread_above: Some(0.0), accuracy: None }
    }
}

impl GroupFilter {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        if let Some(spread) = self.spread_above
            && (!spread.is_finite() || spread < 0.0)
        {
            return Err(Error::config("filter spread_above", spread, "finite and at least 0, or none"));
        }
        let Some(accuracy) = self.accuracy else { return Ok(()) };
        if !accuracy.right_from.is_finite() {
            return Err(Error::config("accuracy right_from", accuracy.right_from, "finite"));
        }
        if !(0.0..=1.0).contains(&accuracy.low) || !(accuracy.low..=1.0).contains(&accuracy.high) {
            return Err(Error::config(
                "accuracy range",
                format!("{} to {}", accuracy.low, accuracy.high),
                "low at most high, within 0 and 1",
            ));
        }
        Ok(())
    }

    /// Why a group with these raw rewards is left out; `None` if it is kept.
    pub fn judge(&self, raw: &[Option<f64>]) -> Option<Dropped> {
        let present: Vec<f64> = raw.iter().flatten().copied().collect();
        if present.is_empty() {
            return Some(Dropped::Unrewarded);
        }
        if let Some(least) = self.spread_above {
            let (low, high) = present.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &r| (l.min(r), h.max(r)));
            if present.len() < 2 {
                return Some(Dropped::Single);
            }
            // `Spread` knows what is rounding.
            if Spread::of(&present, Ddof::Sample).std == 0.0 || high - low <= least {
                return Some(Dropped::NoSpread);
            }
        }
        let accuracy = self.accuracy?;
        let right = present.iter().filter(|r| **r >= accuracy.right_from).count() as f64 / present.len() as f64;
        match right {
            r if r < accuracy.low => Some(Dropped::TooHard),
            r if r > accuracy.high => Some(Dropped::TooEasy),
            _ => None,
        }
    }

    /// From groups to groups, with their rewards and with counts of what was left out.
    ///
    /// # Errors
    /// A field out of range, a table of other groups, a raw reward that the table does not have.
    pub fn apply<T>(&self, groups: Vec<Group<T>>, table: &RewardTable) -> Result<Selection<T>> {
        self.validate()?;
        let ids: Vec<_> = groups.iter().flat_map(|g| std::iter::repeat_n(g.id, g.completions.len())).collect();
        if ids != table.groups || table.rows.len() != ids.len() {
            return Err(Error::invalid("reward table", "was made from other groups: must be of the groups that are given"));
        }
        let raw = self.raw.of(table)?;
        let by_group = rows_by_group(&table.groups);
        if by_group.len() != groups.len() {
            return Err(Error::invalid("group id", "two groups have the same: must be unique"));
        }
        let mut counts = SelectionCounts::default();
        let (mut kept, mut kept_rows) = (Vec::new(), Vec::new());
        for (group, (_, rows)) in groups.into_iter().zip(by_group) {
            let verdict = self.judge(&rows.iter().map(|&row| raw[row]).collect::<Vec<_>>());
            counts.count(verdict);
            if verdict.is_none() {
                kept.push(group);
                kept_rows.extend(rows);
            }
        }
        Ok(Selection { groups: kept, rewards: table.select(&kept_rows), counts })
    }
}

/// Groups that were kept, and how many were not.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Selection<T> {
    /// The groups that were kept, in order.
    pub groups: Vec<Group<T>>,
    /// Their rewards.
    pub rewards: RewardTable,
    /// What was left out.
    pub counts: SelectionCounts,
}

/// How many groups were seen, kept, and left out for which reason. Reasons and `kept` add up to `seen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SelectionCounts {
    /// Groups that were judged.
    pub seen: usize,
    /// Groups that were kept.
    pub kept: usize,
    /// [`Dropped::Unrewarded`].
    pub unrewarded: usize,
    /// [`Dropped::Single`].
    pub single: usize,
    /// [`Dropped::NoSpread`].
    pub no_spread: usize,
    /// [`Dropped::TooHard`].
    pub too_hard: usize,
    /// [`Dropped::TooEasy`].
    pub too_easy: usize,
    /// [`Dropped::Surplus`].
    pub surplus: usize,
    /// How often groups were drawn.
    pub rounds: usize,
    /// How many groups were wanted and not found before the cap.
    pub short: usize,
}

impl SelectionCounts {
    fn count(&mut self, verdict: Option<Dropped>) {
        self.seen += 1;
        match verdict {
            None => self.kept += 1,
            Some(Dropped::Unrewarded) => self.unrewarded += 1,
            Some(Dropped::Single) => self.single += 1,
            Some(Dropped::NoSpread) => self.no_spread += 1,
            Some(Dropped::TooHard) => self.too_hard += 1,
            Some(Dropped::TooEasy) => self.too_easy += 1,
            Some(Dropped::Surplus) => self.surplus += 1,
        }
    }

    /// The sum of both.
    pub(crate) fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.kept += other.kept;
        self.unrewarded += other.unrewarded;
        self.single += other.single;
        self.no_spread += other.no_spread;
        self.too_hard += other.too_hard;
        self.too_easy += other.too_easy;
        self.surplus += other.surplus;
        self.rounds += other.rounds;
        self.short += other.short;
    }

    /// As metrics: `groups/seen`, `groups/kept`, `groups/dropped/REASON`, `groups/rounds`, `groups/short`.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        let named = [
            ("groups/seen", self.seen),
            ("groups/kept", self.kept),
            ("groups/dropped/unrewarded", self.unrewarded),
            ("groups/dropped/single", self.single),
            ("groups/dropped/no_spread", self.no_spread),
            ("groups/dropped/too_hard", self.too_hard),
            ("groups/dropped/too_easy", self.too_easy),
            ("groups/dropped/surplus", self.surplus),
            ("groups/rounds", self.rounds),
            ("groups/short", self.short),
        ];
        named.into_iter().for_each(|(name, count)| metrics.sum(name, count as f64, Normaliser::Step));
        metrics
    }
}

impl RewardTable {
    /// The rows of some completions, in the order given. Failures are of the whole table and stay.
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        Self {
            names: self.names.clone(),
            weights: self.weights.clone(),
            groups: rows.iter().map(|&row| self.groups[row]).collect(),
            rows: rows.iter().map(|&row| self.rows[row].clone()).collect(),
            failures: self.failures,
        }
    }
}
