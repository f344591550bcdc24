//! Is the reward earned, or gamed? Nothing here is a proof.

use super::Level;
use super::compare::{ends, rise, show};
use crate::observe::run::{Point, RunFiles};

pub const RULE: &str = "Signs, while the trained reward rises by more than 2 standard errors: a held-out reward ends more than 0.02 below its first value; one reward function rises and another falls by more than 2 standard errors; the mean length changes by more than a factor of 2; different texts in a group fall below half of what they were. One sign: worth a look. Two, or the first: alarm.";

pub fn judge(run: &RunFiles) -> (Level, String) {
    let Some((first, last)) = ends(run.metrics.get("reward")) else {
        return (Level::Unknown, "Fewer than 10 steps with a reward: too few to say.".to_owned());
    };
    if rise(&first, &last) <= 2.0 {
        return (Level::Good, "The reward does not rise, so nothing is gamed.".to_owned());
    }
    let held_out = held_out_falls(run);
    let mut signs: Vec<String> = held_out.iter().cloned().collect();
    signs.extend(functions_part(run));
    signs.extend(ends(run.metrics.get("completions/mean_length")).and_then(|(first, last)| {
        let far = !(0.5..=2.0).contains(&(last.mean / first.mean));
        far.then(|| format!("the reward rises while the mean length goes from {} to {} tokens", show(first.mean), show(last.mean)))
    }));
    signs.extend(ends(&run.samples.distinct).and_then(|(first, last)| {
        let alike = last.mean < 0.5 * first.mean;
        alike.then(|| format!("different texts in a group fall from {:.0} % to {:.0} %", 100.0 * first.mean, 100.0 * last.mean))
    }));
    let level = match signs.len() {
        0 => {
            return (
                Level::Good,
                "The reward rises, and no sign that it is gamed was found. Read some completions all the same.".to_owned(),
            );
        }
        1 if held_out.is_none() => Level::Watch,
        _ => Level::Alarm,
    };
    (level, format!("Read some completions: {}.", signs.join("; ")))
}

/// A reward on held-out prompts that ends below where it began.
fn held_out_falls(run: &RunFiles) -> Option<String> {
    let is_reward = |name: &str| name.starts_with("eval/") && (name.ends_with("/reward") || name.ends_with("/right"));
    let ends = |curve: &[Point]| Some((curve.first()?.1, curve.last()?.1));
    run.evaluations.iter().filter(|(name, _)| is_reward(name)).find_map(|(name, curve)| {
        let (first, last) = ends(curve)?;
        (last < first - 0.02).then(|| format!("{name} falls from {} to {} while the trained reward rises", show(first), show(last)))
    })
}

/// Two reward functions that go apart.
fn functions_part(run: &RunFiles) -> Option<String> {
    let is_function = |name: &str| name.starts_with("rewards/") && name.ends_with("/mean");
    let rises: Vec<(&str, f64)> = run
        .metrics
        .iter()
        .filter(|(name, _)| is_function(name))
        .filter_map(|(name, curve)| ends(curve).map(|(first, last)| (name, rise(&first, &last))))
        .collect();
    let up = rises.iter().find(|(_, z)| *z > 2.0)?;
    let down = rises.iter().find(|(_, z)| *z < -2.0)?;
    Some(format!("{} rises while {} falls", up.0, down.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::health::testing::run;

    const RISING: (&str, &dyn Fn(f64) -> f64) = ("reward", &|x| x);

    #[test]
    fn a_reward_that_rises_alone_is_good() {
        assert_eq!(judge(&run(50, &[RISING, ("rewards/exact/mean", &|x| x), ("completions/mean_length", &|x| 10.0 + x)])).0, Level::Good);
        assert_eq!(judge(&run(50, &[("reward", &|_| 0.5), ("completions/mean_length", &|x| 10.0 + 90.0 * x)])).0, Level::Good);
    }

    #[test]
    fn reward_functions_that_part_and_length_that_doubles_are_signs() {
        let parted = run(50, &[RISING, ("rewards/format/mean", &|x| x), ("rewards/exact/mean", &|x| 0.5 - 0.4 * x)]);
        assert_eq!(judge(&parted).0, Level::Watch);
        let longer = run(50, &[RISING, ("completions/mean_length", &|x| 10.0 + 90.0 * x)]);
        assert_eq!(judge(&longer).0, Level::Watch);
        let both =
            run(50, &[RISING, ("completions/mean_length", &|x| 10.0 + 90.0 * x), ("rewards/a/mean", &|x| x), ("rewards/b/mean", &|x| -x)]);
        assert_eq!(judge(&both).0, Level::Alarm);
    }

    #[test]
    fn a_held_out_reward_that_falls_is_an_alarm_and_one_that_rises_is_not() {
        let mut rising = run(50, &[RISING]);
        rising.evaluations.push(0, [("eval/greedy/reward", 0.5)]);
        rising.evaluations.push(50, [("eval/greedy/reward", 0.6)]);
        assert_eq!(judge(&rising).0, Level::Good);
        rising.evaluations.push(50, [("eval/greedy/reward", 0.4)]);
        assert_eq!(judge(&rising).0, Level::Alarm);
    }

    #[test]
    fn groups_that_say_ever_the_same_are_a_sign() {
        let mut alike = run(50, &[RISING]);
        alike.samples.distinct = (0..50).map(|step| (step, if step < 25 { 0.9 } else { 0.3 })).collect();
        assert_eq!(judge(&alike).0, Level::Watch);
    }
}
