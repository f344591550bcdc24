//! Is the run well? Rules over a run's numbers, each with its verdict in words.
//!
//! The thresholds are rules of thumb for language models; each [`Finding`] says its rule, so that a reader can judge the judge.

mod compare;
mod gradients;
mod groups;
mod hacking;
mod movement;
mod outcome;
mod shape;

use super::run::RunFiles;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Good,
    /// It was not measured, or not for long enough.
    Unknown,
    /// Worth a look.
    Watch,
    /// Something is wrong.
    Alarm,
}

/// What one rule says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was looked at.
    pub what: &'static str,
    /// How bad it is.
    pub level: Level,
    /// The verdict, with its numbers.
    pub verdict: String,
    /// The rule that it follows.
    pub rule: &'static str,
}

impl Finding {
    fn new(what: &'static str, rule: &'static str, (level, verdict): (Level, String)) -> Self {
        Self { what, level, verdict, rule }
    }
}

/// Applies every rule.
///
/// "First" and "last" are means over the first and last fifth of the steps, at least 5 and at most 50 of them; rules that compare the two
/// need 10 steps.
pub fn examine(run: &RunFiles) -> Vec<Finding> {
    vec![
        Finding::new("Learning", outcome::RULE, outcome::judge(run)),
        Finding::new("Dead groups", groups::RULE, groups::judge(run)),
        Finding::new("Entropy", shape::ENTROPY_RULE, shape::entropy(run)),
        Finding::new("Length", shape::LENGTH_RULE, shape::length(run)),
        Finding::new("Importance ratio", movement::RATIO_RULE, movement::ratio(run)),
        Finding::new("KL to the reference", movement::KL_RULE, movement::kl(run)),
        Finding::new("Gradients", gradients::RULE, gradients::judge(run)),
        Finding::new("Reward hacking", hacking::RULE, hacking::judge(run)),
        Finding::new("Sampler mismatch", movement::SAMPLER_RULE, movement::sampler(run)),
    ]
}

#[cfg(test)]
mod testing {
    use super::RunFiles;

    /// A run of so many steps with these curves.
    pub fn run(steps: u64, curves: &[(&str, &dyn Fn(f64) -> f64)]) -> RunFiles {
        let mut run = RunFiles::default();
        for step in 0..steps {
            // x runs from 0 to 1.
            let x = step as f64 / (steps - 1).max(1) as f64;
            run.metrics.push(step, curves.iter().map(|(name, curve)| (*name, curve(x))));
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_number_is_unknown_everywhere() {
        assert!(examine(&RunFiles::default()).iter().all(|finding| finding.level == Level::Unknown), "{:?}", examine(&RunFiles::default()));
    }
}
