//! How far the policy moves: in a step, from the reference, from its sampler.

use super::Level;
use super::compare::{Stretch, last, show};
use crate::observe::run::RunFiles;

/// The level of a value between two thresholds.
fn level(value: f64, watch: f64, alarm: f64) -> Level {
    if value >= alarm {
        Level::Alarm
    } else if value >= watch {
        Level::Watch
    } else {
        Level::Good
    }
}

pub const RATIO_RULE: &str = "Last fifth of the steps: median of the largest importance ratio from 10, mean |ppo_kl| from 0.05 nats a token, or 30 % of the tokens beyond the clip range: worth a look. From 1,000, 0.5 or 60 %: alarm.";

pub fn ratio(run: &RunFiles) -> (Level, String) {
    let highest = last(run.metrics.get("importance_ratio/max"));
    let moved: Vec<_> = run.metrics.get("ppo_kl").iter().map(|(step, kl)| (*step, kl.abs())).collect();
    let moved = last(&moved);
    let clipped = last(run.metrics.get("clip_ratio/region_mean"));
    let Some(highest) = highest else {
        return (Level::Unknown, "The importance ratio was not measured.".to_owned());
    };
    let mean = |stretch: &Option<Stretch>| stretch.map_or(0.0, |stretch| stretch.mean);
    let level = level(highest.median, 10.0, 1000.0).max(level(mean(&moved), 0.05, 0.5)).max(level(mean(&clipped), 0.3, 0.6));
    let mut verdict = format!("The largest ratio of a token is {} (median)", show(highest.median));
    if let Some(moved) = moved {
        verdict += &format!(", the policy moves {} nats a token within a rollout", show(moved.mean));
    }
    if let Some(clipped) = clipped {
        verdict += &format!(", {:.1} % of the tokens are clipped", 100.0 * clipped.mean);
    }
    verdict += match level {
        Level::Good if highest.max <= 1.0 + 1e-6 => ". With one update a rollout every ratio is 1.",
        Level::Good => ".",
        _ => ". Fewer updates a rollout, or a lower learning rate.",
    };
    (level, verdict)
}

pub const KL_RULE: &str = "KL to the reference a token, mean of the last fifth of the steps. From 0.5 nats, or a step above ten times the median and 0.5: worth a look. From 5: alarm.";

pub fn kl(run: &RunFiles) -> (Level, String) {
    let Some(kl) = last(run.metrics.get("kl")) else {
        return (Level::Unknown, "No reference is asked (no KL penalty), so drift from it is not measured.".to_owned());
    };
    let spike = kl.max > 10.0 * kl.median && kl.max >= 0.5;
    let level = level(kl.mean, 0.5, 5.0).max(if spike { Level::Watch } else { Level::Good });
    let advice =
        if level == Level::Good { "" } else { " The policy runs away from the reference: a larger coefficient, or a lower learning rate." };
    (level, format!("{} nats a token from the reference, at most {}.{advice}", show(kl.mean), show(kl.max)))
}

pub const SAMPLER_RULE: &str = "Mean |log-prob of the sampler − log-prob of the policy| of a token, last fifth of the steps (sampling/sampling_logp_difference/mean). From 0.02: worth a look. From 0.2: alarm.";

pub fn sampler(run: &RunFiles) -> (Level, String) {
    let Some(gap) = last(run.metrics.get("sampling/sampling_logp_difference/mean")) else {
        return (Level::Unknown, "Not measured: no correction for the sampler is switched on.".to_owned());
    };
    let level = level(gap.mean, 0.02, 0.2);
    let advice = if level == Level::Good {
        ""
    } else {
        " The sampler draws from another distribution than the one that is trained: other numerics, other filters, or stale weights."
    };
    (level, format!("Sampler and policy differ by {} nats a token.{advice}", show(gap.mean)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::health::testing::run;

    #[test]
    fn a_ratio_blow_up_is_told_by_its_maximum_by_ppo_kl_and_by_the_clip_fraction() {
        let with = |name: &str, value: f64| ratio(&run(20, &[("importance_ratio/max", &|_| 1.5), (name, &move |_| value)])).0;
        assert_eq!((with("importance_ratio/max", 2e3), with("importance_ratio/max", 20.0)), (Level::Alarm, Level::Watch));
        assert_eq!((with("ppo_kl", -0.6), with("ppo_kl", 0.1)), (Level::Alarm, Level::Watch));
        assert_eq!((with("clip_ratio/region_mean", 0.7), with("clip_ratio/region_mean", 0.4)), (Level::Alarm, Level::Watch));
        assert_eq!(with("ppo_kl", 0.01), Level::Good);
    }

    #[test]
    fn a_kl_that_is_large_or_jumps_is_told_and_a_small_one_is_good() {
        let level = |end: f64| kl(&run(20, &[("kl", &|x| end * x)])).0;
        assert_eq!((level(9.0), level(1.0), level(0.1)), (Level::Alarm, Level::Watch, Level::Good));
        assert_eq!(kl(&run(20, &[("kl", &|x| if x == 1.0 { 0.6 } else { 0.01 })])).0, Level::Watch);
    }

    #[test]
    fn a_sampler_that_differs_is_told_and_one_that_agrees_is_good() {
        let level = |gap: f64| sampler(&run(20, &[("sampling/sampling_logp_difference/mean", &|_| gap)])).0;
        assert_eq!((level(0.5), level(0.05), level(1e-4)), (Level::Alarm, Level::Watch, Level::Good));
    }
}
