//! Weighted lists of reward functions, and the table of what they said.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{BoxError, Error, Result};
use crate::group::{Group, GroupId, distinct};
use crate::reward::{Reward, RewardFn};

/// What happens when a reward function fails, panics, or returns NaN or an infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRewardError {
    /// The error is returned, naming the function, the group and the completion.
    #[default]
    Stop,
    /// The reward counts as missing, and the failure is counted. It never becomes a 0.
    Missing,
}

/// Reward functions with weights: r = Σ_f w_f · r_f over the functions that apply.
///
/// A function of weight 0 is a metric only. A completion to which no function of non-zero weight applies has no reward.
///
/// ```
/// use grpo_core::{Rewards, from_fn};
/// let rewards = Rewards::<str>::new()
///     .with(1.0, from_fn("right", |gold: &str, c| Ok(f64::from(u8::from(c.text == gold)).into())))
///     .with(0.0, from_fn("length", |_: &str, c| Ok((c.tokens.len() as f64).into())));
/// assert_eq!(rewards.names(), ["right", "length"]);
/// ```
pub struct Rewards<T: ?Sized> {
    functions: Vec<(f64, Box<dyn RewardFn<T>>)>,
    on_error: OnRewardError,
}

impl<T: ?Sized> Default for Rewards<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: ?Sized> Rewards<T> {
    /// An empty list; errors stop.
    pub fn new() -> Self {
        Self { functions: Vec::new(), on_error: OnRewardError::Stop }
    }

    /// Adds a function with its weight. A weight must be finite: checked by [`score`](Self::score).
    pub fn with(mut self, weight: f64, function: impl RewardFn<T> + 'static) -> Self {
        self.functions.push((weight, Box::new(function)));
        self
    }

    /// Chooses what a failing function does.
    pub fn on_error(mut self, on_error: OnRewardError) -> Self {
        self.on_error = on_error;
        self
    }

    /// The functions' names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.functions.iter().map(|(_, f)| f.name()).collect()
    }

    /// Their weights, in the same order.
    pub fn weights(&self) -> Vec<f64> {
        self.functions.iter().map(|(weight, _)| *weight).collect()
    }
}

impl<T: Sync> Rewards<T> {
    /// Judges every completion of every group; groups in parallel, the answer in order.
    ///
    /// # Errors
    /// No function, a weight that is not finite, two groups of one id; under [`OnRewardError::Stop`] the first failure in order: an error, a
    /// panic, a wrong number of rewards, a reward that is not finite, a step that ends outside the completion.
    pub fn score(&self, groups: &[Group<T>]) -> Result<RewardTable> {
        if self.functions.is_empty() {
            return Err(Error::invalid("rewards", "no reward function, must be at least one"));
        }
        if let Some((weight, f)) = self.functions.iter().find(|(w, _)| !w.is_finite()) {
            return Err(Error::invalid("reward weight", format!("`{}` has {weight}, must be finite", f.name())));
        }
        distinct(groups)?;
        let per_group: Vec<Result<(Vec<Vec<Reward>>, usize)>> = groups.par_iter().map(|group| self.score_group(group)).collect();
        let mut table = RewardTable {
            names: self.names().into_iter().map(str::to_owned).collect(),
            weights: self.weights(),
            groups: groups.iter().flat_map(|g| std::iter::repeat_n(g.id, g.completions.len())).collect(),
            rows: Vec::new(),
            failures: 0,
        };
        for result in per_group {
            let (rows, failures) = result?;
            table.rows.extend(rows);
            table.failures += failures;
        }
        Ok(table)
    }

    /// Rows [completion][function], and how many failures were counted as missing.
    fn score_group(&self, group: &Group<T>) -> Result<(Vec<Vec<Reward>>, usize)> {
        let n = group.completions.len();
        if n == 0 {
            return Ok((Vec::new(), 0)); // a function's complaint of nothing has no completion to stand at
        }
        let mut rows = vec![Vec::with_capacity(self.functions.len()); n];
        let mut failures = 0;
        for (_, function) in &self.functions {
            let column = contained(|| function.score_group(&group.prompt.task, &group.completions)).and_then(|column| {
                if column.len() == n { Ok(column) } else { Err(format!("returned {} rewards for {n} completions", column.len()).into()) }
            });
            // A group-wise failure is pinned on its completion by asking one by one.
            let column: Vec<std::result::Result<Reward, BoxError>> = match column {
                Ok(column) => column.into_iter().map(Ok).collect(),
                Err(error) => {
                    let singly = group.completions.iter().map(|c| contained(|| function.score(&group.prompt.task, c)));
                    let mut singly: Vec<_> = singly.collect();
                    if singly.iter().all(std::result::Result::is_ok) {
                        singly = vec![Err(error)];
                        singly.extend((1..n).map(|_| Ok(Reward::NotApplicable)));
                        failures += n - 1;
                    }
                    singly
                }
            };
            for (index, (reward, row)) in column.into_iter().zip(&mut rows).enumerate() {
                match reward.and_then(|reward| checked(reward, group.completions[index].tokens.len())) {
                    Ok(reward) => row.push(reward),
                    Err(source) if self.on_error == OnRewardError::Stop => {
                        return Err(Error::Reward { name: function.name().to_owned(), group: group.id.0, completion: index, source });
                    }
                    Err(_) => {
                        failures += 1;
                        row.push(Reward::NotApplicable);
                    }
                }
            }
        }
        Ok((rows, failures))
    }
}

/// User code may panic; a panic becomes its error.
fn contained<R>(call: impl FnOnce() -> std::result::Result<R, BoxError>) -> std::result::Result<R, BoxError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("panicked: {}", text.unwrap_or_else(|| "with a value that is not text".to_owned())).into())
    })
}

/// A reward whose numbers are finite and whose steps lie within the completion, in order.
fn checked(reward: Reward, tokens: usize) -> std::result::Result<Reward, BoxError> {
    let problem = match &reward {
        Reward::Outcome(r) if !r.is_finite() => Some(format!("returned {r}, must be finite")),
        Reward::Steps(steps) if steps.iter().any(|(_, r)| !r.is_finite()) => Some("returned a step reward that is not finite".to_owned()),
        Reward::Steps(steps) if steps.iter().any(|&(end, _)| end >= tokens) => {
            Some(format!("returned a step that ends past the last of {tokens} tokens"))
        }
        Reward::Steps(steps) if steps.windows(2).any(|w| w[0].0 >= w[1].0) => Some("returned steps that are not in order".to_owned()),
        _ => None,
    };
    problem.map_or(Ok(reward), |p| Err(p.into()))
}

/// What every function said of every completion, completions in the order of their groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RewardTable {
    /// The functions' names.
    pub names: Vec<String>,
    /// Their weights.
    pub weights: Vec<f64>,
    /// The group of each of the N completions.
    pub groups: Vec<GroupId>,
    /// `[N][functions]`
    pub rows: Vec<Vec<Reward>>,
    /// Failures that were counted as missing.
    pub failures: usize,
}

impl RewardTable {
    /// r_i = Σ_f w_f · r_if over the functions of non-zero weight that apply; `None` where none does. Step rewards enter by their sum.
    pub fn totals(&self) -> Vec<Option<f64>> {
        self.rows
            .iter()
            .map(|row| {
                let terms = row.iter().zip(&self.weights).filter(|&(_, &w)| w != 0.0);
                terms.filter_map(|(r, w)| outcome(r).map(|r| r * w)).fold(None, |sum, term| Some(sum.unwrap_or(0.0) + term))
            })
            .collect()
    }

    /// Takes in the rewards of further groups.
    ///
    /// # Errors
    /// A table of other functions, or of other weights.
    pub fn append(&mut self, more: Self) -> Result<()> {
        if self.names != more.names || self.weights != more.weights {
            let problem = format!("one has functions {:?}, the other {:?}: must be the same, of the same weights", self.names, more.names);
            return Err(Error::invalid("reward table", problem));
        }
        self.groups.extend(more.groups);
        self.rows.extend(more.rows);
        self.failures += more.failures;
        Ok(())
    }

    /// The rewards of one group. Failures are of the whole table, and stay with it.
    pub fn of_group(&self, group: GroupId) -> Self {
        let rows: Vec<usize> = self.groups.iter().enumerate().filter(|(_, id)| **id == group).map(|(row, _)| row).collect();
        Self { failures: 0, ..self.select(&rows) }
    }

    /// What function `function` said of each completion, as one number.
    pub fn column(&self, function: usize) -> Vec<Option<f64>> {
        self.rows.iter().map(|row| row.get(function).and_then(outcome)).collect()
    }
}

/// A reward as one number.
fn outcome(reward: &Reward) -> Option<f64> {
    match reward {
        Reward::Outcome(r) => Some(*r),
        Reward::Steps(steps) => Some(steps.iter().map(|(_, r)| r).sum()),
        Reward::NotApplicable => None,
    }
}
