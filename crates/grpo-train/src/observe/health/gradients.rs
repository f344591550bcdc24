//! Are the gradients finite and steady?

use super::Level;
use super::compare::{last, show};
use crate::observe::run::RunFiles;

pub const RULE: &str = "Skipped steps (a gradient that is not finite, or no token to train on): any is worth a look, more than 10 % an alarm. Largest gradient norm of the last fifth of the steps above 20 times the median: worth a look.";

pub fn judge(run: &RunFiles) -> (Level, String) {
    let norms = run.metrics.get("grad_norm");
    let skipped = run.metrics.get("skipped").iter().filter(|(_, skipped)| *skipped > 0.0).count();
    let steps = run.metrics.len();
    let told = format!("{skipped} of {steps} steps were skipped");
    let Some(norm) = last(norms) else {
        return if skipped > 0 {
            (Level::Alarm, format!("{told}."))
        } else {
            (Level::Unknown, "The gradient norm was not measured.".to_owned())
        };
    };
    let norm_told = format!("the norm is {} (median), at most {} at the end", show(norm.median), show(norm.max));
    if skipped * 10 > steps {
        (Level::Alarm, format!("{told}; {norm_told}."))
    } else if skipped > 0 {
        (Level::Watch, format!("{told}; {norm_told}."))
    } else if norm.max > 20.0 * norm.median {
        (Level::Watch, format!("The gradient jumps: {norm_told}."))
    } else {
        (Level::Good, format!("No step was skipped; {norm_told}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::health::testing::run;

    #[test]
    fn skipped_steps_and_jumps_are_told_and_steady_gradients_are_good() {
        let skip = |share: f64| judge(&run(40, &[("grad_norm", &|_| 1.0), ("skipped", &move |x| f64::from(u8::from(x < share)))])).0;
        assert_eq!((skip(0.5), skip(0.03), skip(0.0)), (Level::Alarm, Level::Watch, Level::Good));
        assert_eq!(judge(&run(40, &[("grad_norm", &|x| if x == 1.0 { 50.0 } else { 1.0 })])).0, Level::Watch);
    }

    #[test]
    fn a_run_of_nothing_but_skipped_steps_is_an_alarm() {
        assert_eq!(judge(&run(5, &[("grad_norm", &|_| f64::NAN), ("skipped", &|_| 1.0)])).0, Level::Alarm);
    }
}
