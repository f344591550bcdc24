//! Do the groups teach anything?

use super::Level;
use super::compare::{last, show};
use crate::observe::run::RunFiles;

pub const RULE: &str = "Share of groups whose rewards are all equal (frac_reward_zero_std), mean of the last fifth of the steps. From 0.5: worth a look. From 0.8: alarm.";

pub fn judge(run: &RunFiles) -> (Level, String) {
    let Some(dead) = last(run.metrics.get("frac_reward_zero_std")) else {
        return (Level::Unknown, "The share of groups without spread was not measured.".to_owned());
    };
    let reward = last(run.metrics.get("reward")).map_or(String::new(), |reward| format!(", at a mean reward of {}", show(reward.mean)));
    let share = format!("{:.0} % of the last groups had equal rewards and taught nothing{reward}", 100.0 * dead.mean);
    let advice = "Near the highest reward the prompts have become too easy, near the lowest they are too hard: mix in others, or leave such groups out and draw new ones.";
    match dead.mean {
        share_dead if share_dead >= 0.8 => (Level::Alarm, format!("{share}. {advice}")),
        share_dead if share_dead >= 0.5 => (Level::Watch, format!("{share}. {advice}")),
        _ => (Level::Good, format!("{share}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::health::testing::run;

    #[test]
    fn many_dead_groups_at_the_end_are_told_and_few_are_good() {
        let level = |end: f64| judge(&run(50, &[("frac_reward_zero_std", &|x| if x > 0.7 { end } else { 0.1 })])).0;
        assert_eq!((level(0.9), level(0.6), level(0.3)), (Level::Alarm, Level::Watch, Level::Good));
    }
}
