//! What the completions look like: their entropy and their length.

use super::Level;
use super::compare::{ends, last, show};
use crate::observe::run::RunFiles;

pub const ENTROPY_RULE: &str = "Mean entropy of a token, first against last fifth of the steps. Last below a quarter of the first, or above three times it: worth a look. Below a twentieth, below 0.01 nats, or above ten times: alarm.";

pub fn entropy(run: &RunFiles) -> (Level, String) {
    let Some((first, last)) = ends(run.metrics.get("entropy")) else {
        return (Level::Unknown, "Fewer than 10 steps with an entropy: too few to say.".to_owned());
    };
    let numbers = format!("from {} to {} nats a token", show(first.mean), show(last.mean));
    let factor = last.mean / first.mean;
    if last.mean < 0.01 || factor < 0.05 {
        let advice = "The policy says nearly the same each time, so groups have nothing to compare. Right for a solved task; else raise the upper clip range, add a KL penalty or an entropy bonus, or lower the learning rate.";
        (Level::Alarm, format!("Entropy has collapsed, {numbers}. {advice}"))
    } else if factor > 10.0 {
        (Level::Alarm, format!("Entropy explodes, {numbers}: the policy turns to noise."))
    } else if factor < 0.25 {
        (Level::Watch, format!("Entropy falls fast, {numbers}. Fine while the reward rises."))
    } else if factor > 3.0 {
        (Level::Watch, format!("Entropy grows, {numbers}."))
    } else {
        (Level::Good, format!("Entropy goes {numbers}."))
    }
}

pub const LENGTH_RULE: &str = "Mean length, first against last fifth of the steps, and the share of truncated completions at the end. Longer or shorter by more than half, or 20 % truncated: worth a look. By a factor of 2.5, or 50 % truncated: alarm.";

pub fn length(run: &RunFiles) -> (Level, String) {
    let truncated = last(run.metrics.get("completions/clipped_ratio")).map(|stretch| stretch.mean);
    let cut = truncated.map_or(String::new(), |share| format!(" {:.0} % of the last completions are truncated.", 100.0 * share));
    let Some((first, last)) = ends(run.metrics.get("completions/mean_length")) else {
        return (Level::Unknown, format!("Fewer than 10 steps with a length: too few to say.{cut}"));
    };
    let factor = last.mean / first.mean;
    let how = if factor > 1.5 {
        "grow"
    } else if factor < 1.0 / 1.5 {
        "shrink"
    } else {
        "keep their length"
    };
    let verdict = format!("Completions {how}, from {} to {} tokens.{cut}", show(first.mean), show(last.mean));
    let truncated = truncated.unwrap_or(0.0);
    if !(0.4..=2.5).contains(&factor) || truncated >= 0.5 {
        (Level::Alarm, verdict)
    } else if !(1.0 / 1.5..=1.5).contains(&factor) || truncated >= 0.2 {
        (Level::Watch, verdict)
    } else {
        (Level::Good, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::health::testing::run;

    #[test]
    fn collapse_and_explosion_of_entropy_are_told_and_a_moderate_fall_is_good() {
        let level = |end: f64| entropy(&run(50, &[("entropy", &|x| if x < 0.5 { 1.0 } else { end })])).0;
        assert_eq!((level(0.02), level(0.2), level(0.5)), (Level::Alarm, Level::Watch, Level::Good));
        assert_eq!((level(5.0), level(20.0)), (Level::Watch, Level::Alarm));
    }

    #[test]
    fn drift_of_length_is_told_both_ways_and_steady_length_is_good() {
        let level = |end: f64| length(&run(50, &[("completions/mean_length", &|x| if x < 0.5 { 100.0 } else { 100.0 * end })])).0;
        assert_eq!((level(4.0), level(1.9), level(1.1)), (Level::Alarm, Level::Watch, Level::Good));
        assert_eq!((level(0.5), level(0.2)), (Level::Watch, Level::Alarm));
    }

    #[test]
    fn truncation_alone_is_told() {
        let level = |share: f64| length(&run(50, &[("completions/mean_length", &|_| 9.0), ("completions/clipped_ratio", &|_| share)])).0;
        assert_eq!((level(0.6), level(0.3), level(0.1)), (Level::Alarm, Level::Watch, Level::Good));
    }
}
