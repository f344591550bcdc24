//! Does the reward rise?

use super::Level;
use super::compare::{ends, rise, show};
use crate::observe::run::RunFiles;

pub const RULE: &str = "Mean reward of the first against the last fifth of the steps. Above by more than 2 standard errors: it learns. Below by more than 2: alarm. Between: worth a look.";

pub fn judge(run: &RunFiles) -> (Level, String) {
    let Some((first, last)) = ends(run.metrics.get("reward")) else {
        return (Level::Unknown, "Fewer than 10 steps with a reward: too few to say.".to_owned());
    };
    let numbers = format!(
        "{} ± {} in the first {} steps, {} ± {} in the last {}",
        show(first.mean),
        show(first.standard_error),
        first.steps,
        show(last.mean),
        show(last.standard_error),
        last.steps
    );
    match rise(&first, &last) {
        z if z > 2.0 => (Level::Good, format!("The reward rises: {numbers}.")),
        z if z < -2.0 => (Level::Alarm, format!("The reward falls: {numbers}.")),
        _ => (Level::Watch, format!("The reward neither rises nor falls: {numbers}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::health::testing::run;

    #[test]
    fn a_rise_is_good_a_fall_an_alarm_and_noise_worth_a_look() {
        let noise = |x: f64| (x * 997.0).sin() * 0.05;
        let level = |slope: f64| judge(&run(50, &[("reward", &|x| slope * x + noise(x))])).0;
        assert_eq!((level(0.5), level(-0.5), level(0.0)), (Level::Good, Level::Alarm, Level::Watch));
    }
}
