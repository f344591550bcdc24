//! Comparisons of two answers at a time.

use grpo_core::{BoxError, Completion, Error, Reward, RewardFn};

/// Which of two is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preferred {
    /// The first.
    First,
    /// The second.
    Second,
    /// Neither.
    Tie,
}

/// One comparison of two completions of a group, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// The first completion's place.
    pub first: usize,
    /// The second's.
    pub second: usize,
    /// Which is better.
    pub preferred: Preferred,
}

/// The Bradley–Terry model: P(i beats j) = 1 / (1 + e^(θⱼ − θᵢ)).
///
/// Strengths θ maximise Σ ln P over the comparisons, a tie counting as half a win for each, with `prior` half-wins and half-losses of every
/// completion against one of strength 0. The prior keeps strengths finite where one side wins all, and joins groups of completions that were
/// never compared.
///
/// ```
/// use grpo_rewards::preference::{BradleyTerry, Comparison, Preferred::{First, Tie}};
/// let beats = |first, second| Comparison { first, second, preferred: First };
/// let strengths = BradleyTerry::new(0.1)?.strengths(3, &[beats(0, 1), beats(1, 2), beats(0, 2)])?;
/// assert!(strengths[0] > strengths[1] && strengths[1] > strengths[2]);
/// assert!(strengths[0].is_finite()); // though it never lost
/// let even = BradleyTerry::new(0.1)?.strengths(2, &[Comparison { first: 0, second: 1, preferred: Tie }])?;
/// assert!((even[0] - even[1]).abs() < 1e-9);
/// # Ok::<(), grpo_core::Error>(())
/// ```
///
/// # Source
/// Bradley and Terry 1952; the iteration is Hunter's (2004, eq. 3), which climbs at every step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BradleyTerry {
    prior: f64,
}

/// The iteration ends when no strength moves by more than this, or after so many rounds.
const STILL: f64 = 1e-10;
const ROUNDS: usize = 10_000;

impl BradleyTerry {
    /// With the weight of the prior, above 0.
    ///
    /// # Errors
    /// A prior that is not finite and above 0.
    pub fn new(prior: f64) -> Result<Self, Error> {
        if prior.is_finite() && prior > 0.0 {
            Ok(Self { prior })
        } else {
            Err(Error::config("Bradley–Terry prior", prior, "finite and above 0"))
        }
    }

    /// The strengths of `n` completions, as natural logarithms of odds against one of strength 0.
    ///
    /// # Errors
    /// A place outside the group; a comparison of a completion with itself.
    pub fn strengths(&self, n: usize, comparisons: &[Comparison]) -> Result<Vec<f64>, Error> {
        let mut wins = vec![self.prior / 2.0; n];
        for c in comparisons {
            if c.first >= n || c.second >= n || c.first == c.second {
                return Err(Error::invalid("comparison", format!("of completions {} and {} in a group of {n}", c.first, c.second)));
            }
            let first = match c.preferred {
                Preferred::First => 1.0,
                Preferred::Second => 0.0,
                Preferred::Tie => 0.5,
            };
            wins[c.first] += first;
            wins[c.second] += 1.0 - first;
        }
        // γᵢ ← wᵢ / (prior / (γᵢ + 1) + Σ over i's comparisons of 1 / (γᵢ + γⱼ))
        let mut gamma = vec![1.0_f64; n];
        for _ in 0..ROUNDS {
            let mut weights: Vec<f64> = gamma.iter().map(|g| self.prior / (g + 1.0)).collect();
            for c in comparisons {
                let weight = 1.0 / (gamma[c.first] + gamma[c.second]);
                weights[c.first] += weight;
                weights[c.second] += weight;
            }
            let next: Vec<f64> = wins.iter().zip(&weights).map(|(w, weight)| w / weight).collect();
            let moved = next.iter().zip(&gamma).map(|(a, b)| (a / b).ln().abs()).fold(0.0, f64::max);
            gamma = next;
            if moved < STILL {
                break;
            }
        }
        Ok(gamma.into_iter().map(f64::ln).collect())
    }
}

/// Which pairs of a group are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pairs {
    /// All G·(G − 1)/2.
    All,
    /// Each completion with the next so many, round the group: G·k comparisons.
    Ring(usize),
}

/// A reward from whatever can say which of two completions is better: strengths of the Bradley–Terry model within the group.
///
/// ```
/// use grpo_core::{Completion, RewardFn};
/// use grpo_rewards::preference::{BradleyTerry, Pairs, PairwiseReward, Preferred};
/// let longer = PairwiseReward::new("longer", Pairs::All, BradleyTerry::new(0.1)?, |_: &String, a: &Completion, b: &Completion| {
///     Ok(match a.text.len().cmp(&b.text.len()) {
///         std::cmp::Ordering::Greater => Preferred::First,
///         std::cmp::Ordering::Less => Preferred::Second,
///         std::cmp::Ordering::Equal => Preferred::Tie,
///     })
/// });
/// assert_eq!(RewardFn::<String>::name(&longer), "longer");
/// # Ok::<(), grpo_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PairwiseReward<F> {
    name: String,
    pairs: Pairs,
    model: BradleyTerry,
    compare: F,
}

impl<F> PairwiseReward<F> {
    /// From a name and a closure.
    pub fn new<T: ?Sized>(name: impl Into<String>, pairs: Pairs, model: BradleyTerry, compare: F) -> Self
    where
        F: Fn(&T, &Completion, &Completion) -> Result<Preferred, BoxError> + Send + Sync,
    {
        Self { name: name.into(), pairs, model, compare }
    }

    fn places(&self, n: usize) -> Vec<(usize, usize)> {
        match self.pairs {
            Pairs::All => (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect(),
            // Once round at most, and no pair twice.
            Pairs::Ring(k) if 2 * k + 1 >= n => (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect(),
            Pairs::Ring(k) => (0..n).flat_map(|i| (1..=k).map(move |step| (i, (i + step) % n))).collect(),
        }
    }
}

impl<T: ?Sized, F> RewardFn<T> for PairwiseReward<F>
where
    F: Fn(&T, &Completion, &Completion) -> Result<Preferred, BoxError> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }
    /// One completion alone is compared with nothing.
    fn score(&self, _: &T, _: &Completion) -> Result<Reward, BoxError> {
        Ok(Reward::NotApplicable)
    }
    fn score_group(&self, task: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        if group.len() < 2 {
            return Ok(vec![Reward::NotApplicable; group.len()]);
        }
        let compared = self.places(group.len()).into_iter().map(|(first, second)| {
            let preferred = (self.compare)(task, &group[first], &group[second])?;
            Ok(Comparison { first, second, preferred })
        });
        let comparisons: Vec<Comparison> = compared.collect::<Result<_, BoxError>>()?;
        Ok(self.model.strengths(group.len(), &comparisons)?.into_iter().map(Reward::Outcome).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{BradleyTerry, Comparison, Preferred};

    #[test]
    fn two_players_meet_the_closed_form() {
        // Without the prior, 3 wins to 1 are odds of 3; a small prior hardly moves them.
        let comparisons: Vec<Comparison> = (0..4)
            .map(|i| Comparison { first: 0, second: 1, preferred: if i < 3 { Preferred::First } else { Preferred::Second } })
            .collect();
        let s = BradleyTerry::new(1e-6).unwrap().strengths(2, &comparisons).unwrap();
        assert!((s[0] - s[1] - 3.0_f64.ln()).abs() < 1e-4, "{s:?}");
    }

    #[test]
    fn what_was_never_compared_has_strength_zero() {
        let s = BradleyTerry::new(0.5).unwrap().strengths(3, &[Comparison { first: 0, second: 1, preferred: Preferred::First }]).unwrap();
        assert!(s[2].abs() < 1e-9 && s[0] > 0.0 && s[1] < 0.0, "{s:?}");
        assert!(BradleyTerry::new(0.5).unwrap().strengths(1, &[Comparison { first: 0, second: 1, preferred: Preferred::Tie }]).is_err());
        assert!(BradleyTerry::new(0.0).is_err());
    }
}
