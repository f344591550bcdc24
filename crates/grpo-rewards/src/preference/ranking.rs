//! Rankings.

use grpo_core::{BoxError, Completion, Error, Reward, RewardFn};

/// A ranking of a group's completions, best first; those on one tier are as good as each other, those on none are not ranked.
///
/// ```
/// use grpo_rewards::preference::Ranking;
/// // 2 is best, 0 and 3 tie, 1 is not ranked.
/// let ranking = Ranking::new(vec![vec![2], vec![0, 3]], 4)?;
/// assert_eq!(ranking.scores(), [Some(0.25), None, Some(1.0), Some(0.25)]);
/// assert!(Ranking::new(vec![vec![0], vec![0]], 2).is_err()); // twice
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking {
    tiers: Vec<Vec<usize>>,
    of: usize,
}

impl Ranking {
    /// Tiers of completions by their place in the group of `of`.
    ///
    /// # Errors
    /// A place outside the group, or one that occurs twice.
    pub fn new(tiers: Vec<Vec<usize>>, of: usize) -> Result<Self, Error> {
        let mut seen = vec![false; of];
        for place in tiers.iter().flatten() {
            match seen.get_mut(*place) {
                None => return Err(Error::invalid("ranking", format!("names completion {place} of a group of {of}"))),
                Some(true) => return Err(Error::invalid("ranking", format!("names completion {place} twice"))),
                Some(slot) => *slot = true,
            }
        }
        Ok(Self { tiers, of })
    }

    /// For each completion (those below it + half of those beside it) / (ranked − 1), in \[0, 1\]; `None` where it is not ranked, or alone.
    ///
    /// The scores of the ranked ones average to one half, whatever the ties.
    pub fn scores(&self) -> Vec<Option<f64>> {
        let ranked: usize = self.tiers.iter().map(Vec::len).sum();
        let mut scores = vec![None; self.of];
        if ranked < 2 {
            return scores;
        }
        let mut below = ranked;
        for tier in &self.tiers {
            below -= tier.len();
            let score = (below as f64 + (tier.len() as f64 - 1.0) / 2.0) / (ranked as f64 - 1.0);
            for place in tier {
                if let Some(slot) = scores.get_mut(*place) {
                    *slot = Some(score);
                }
            }
        }
        scores
    }
}

/// A reward from whatever can rank a group: a person, a judge, a metric.
///
/// ```
/// use grpo_core::{Completion, RewardFn};
/// use grpo_rewards::preference::{Ranking, RankingReward};
/// let shorter = RankingReward::new("shorter", |_: &String, group: &[Completion]| {
///     let mut order: Vec<usize> = (0..group.len()).collect();
///     order.sort_by_key(|&i| group[i].text.len());
///     Ok(Ranking::new(order.into_iter().map(|i| vec![i]).collect(), group.len())?)
/// });
/// assert_eq!(RewardFn::<String>::name(&shorter), "shorter");
/// ```
#[derive(Debug, Clone)]
pub struct RankingReward<F> {
    name: String,
    rank: F,
}

impl<F> RankingReward<F> {
    /// From a name and a closure.
    pub fn new<T: ?Sized>(name: impl Into<String>, rank: F) -> Self
    where
        F: Fn(&T, &[Completion]) -> Result<Ranking, BoxError> + Send + Sync,
    {
        Self { name: name.into(), rank }
    }
}

impl<T: ?Sized, F> RewardFn<T> for RankingReward<F>
where
    F: Fn(&T, &[Completion]) -> Result<Ranking, BoxError> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }
    /// One completion alone has no rank.
    fn score(&self, _: &T, _: &Completion) -> Result<Reward, BoxError> {
        Ok(Reward::NotApplicable)
    }
    fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        let ranking = (self.rank)(task, group)?;
        Error::check_shape("ranking", &[ranking.of], &[group.len()])?;
        Ok(ranking.scores().into_iter().map(|score| score.map_or(Reward::NotApplicable, Reward::Outcome)).collect())
    }
}
