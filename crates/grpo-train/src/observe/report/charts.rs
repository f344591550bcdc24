//! Which charts there are, and what they show.

use super::chart::{CURVES, Chart, Form};
use crate::observe::run::{Point, RunFiles, Series};

/// What a chart shows: curves by name, each with its label.
struct Plan {
    title: &'static str,
    note: &'static str,
    unit: &'static str,
    form: Form,
    curves: &'static [(&'static str, &'static str)],
}

const PLANS: [Plan; 10] = [
    Plan {
        title: "Reward",
        note: "Weighted sum of the reward functions, mean over completions",
        unit: "reward",
        form: Form::Free,
        curves: &[("reward", "reward")],
    },
    Plan { title: "KL to the reference", note: "Mean over tokens", unit: "nats a token", form: Form::FromZero, curves: &[("kl", "KL")] },
    Plan {
        title: "Entropy",
        note: "Of the policy, mean over tokens",
        unit: "nats a token",
        form: Form::FromZero,
        curves: &[("entropy", "entropy")],
    },
    Plan {
        title: "Completion length",
        note: "Over the completions of a rollout",
        unit: "tokens",
        form: Form::FromZero,
        curves: &[("completions/mean_length", "mean"), ("completions/min_length", "shortest"), ("completions/max_length", "longest")],
    },
    Plan {
        title: "Dead groups and truncation",
        note: "Groups whose rewards are all equal teach nothing; truncated completions never got to their end",
        unit: "share",
        form: Form::FromZero,
        curves: &[("frac_reward_zero_std", "groups with equal rewards"), ("completions/clipped_ratio", "truncated completions")],
    },
    Plan {
        title: "Clip fractions",
        note: "Share of tokens (of completions, for a ratio of the sequence) beyond the clip range",
        unit: "share",
        form: Form::FromZero,
        curves: &[
            ("clip_ratio/region_mean", "either side"),
            ("clip_ratio/low_mean", "below"),
            ("clip_ratio/high_mean", "above"),
            ("cispo_clip_ratio", "CISPO"),
            ("dppo_mask_ratio", "DPPO"),
            ("threshold_mask_ratio", "threshold"),
        ],
    },
    Plan {
        title: "Importance ratio",
        note: "Of a token: policy now, against policy when it sampled",
        unit: "ratio",
        form: Form::Free,
        curves: &[("importance_ratio/max", "largest"), ("importance_ratio/mean", "mean")],
    },
    Plan {
        title: "Movement within a rollout",
        note: "log π_old − log π, mean over tokens",
        unit: "nats a token",
        form: Form::Free,
        curves: &[("ppo_kl", "ppo_kl")],
    },
    Plan {
        title: "Gradient norm",
        note: "Global, before clipping",
        unit: "norm",
        form: Form::FromZero,
        curves: &[("grad_norm", "gradient norm")],
    },
    Plan {
        title: "Learning rate",
        note: "As the optimiser was given it",
        unit: "rate",
        form: Form::FromZero,
        curves: &[("learning_rate", "learning rate")],
    },
];

/// Every chart that has a curve.
pub fn charts(run: &RunFiles) -> Vec<Chart> {
    let mut charts: Vec<Chart> = PLANS
        .iter()
        .map(|plan| Chart {
            title: plan.title.to_owned(),
            note: plan.note.to_owned(),
            unit: plan.unit,
            curves: present(&run.metrics, plan.curves),
            form: plan.form,
        })
        .collect();
    let functions = named(&run.metrics, |name| Some(name.strip_prefix("rewards/")?.strip_suffix("/mean")?.to_owned()));
    charts.insert(1, chart("Reward functions", "Each by itself, mean over the completions it applies to", "reward", Form::Free, functions));
    let outcome = named(&run.evaluations, |name| is_outcome(name).then(|| name.strip_prefix("eval/").unwrap_or(name).to_owned()));
    charts.insert(2, chart("Held-out prompts", "Evaluations, by the steps done before them", "score", Form::Free, outcome));
    charts.push(chart("Time of each stage", "Seconds of a step, one stage on the other", "seconds", Form::Stacked, stages(&run.metrics)));
    charts.push(chart("Speed", "Trained tokens a second of the step", "tokens/s", Form::FromZero, speed(&run.metrics)));
    charts.retain(|chart| !chart.curves.is_empty());
    charts
}

fn chart(title: &str, note: &str, unit: &'static str, form: Form, mut curves: Vec<(String, Vec<Point>)>) -> Chart {
    let left_out = curves.len().saturating_sub(CURVES);
    curves.truncate(CURVES);
    let note = if left_out == 0 { note.to_owned() } else { format!("{note} ({left_out} more are in the table below)") };
    Chart { title: title.to_owned(), note, unit, curves, form }
}

fn present(series: &Series, curves: &[(&str, &str)]) -> Vec<(String, Vec<Point>)> {
    let there = curves.iter().filter(|(name, _)| !series.get(name).is_empty());
    there.map(|(name, label)| ((*label).to_owned(), series.get(name).to_vec())).collect()
}

/// Curves whose names say that they belong.
fn named(series: &Series, label: impl Fn(&str) -> Option<String>) -> Vec<(String, Vec<Point>)> {
    series.iter().filter_map(|(name, curve)| Some((label(name)?, curve.to_vec()))).collect()
}

/// What an evaluation is about: no single functions beside their sum, no bounds of intervals.
fn is_outcome(name: &str) -> bool {
    !name.contains("/rewards/") && !name.ends_with("/low") && !name.ends_with("/high")
}

/// Seconds of each stage, the longest first; all beyond seven are one.
fn stages(series: &Series) -> Vec<(String, Vec<Point>)> {
    let mut stages = named(series, |name| name.strip_prefix("time/").map(str::to_owned));
    let total = |curve: &[Point]| curve.iter().map(|(_, seconds)| *seconds).filter(|s| s.is_finite()).sum::<f64>();
    stages.sort_by(|a, b| total(&b.1).total_cmp(&total(&a.1)));
    if stages.len() > CURVES {
        let rest = stages.split_off(CURVES - 1);
        let mut sum = std::collections::BTreeMap::new();
        rest.iter().flat_map(|(_, curve)| curve).for_each(|(step, seconds)| *sum.entry(*step).or_insert(0.0) += seconds);
        stages.push(("others".to_owned(), sum.into_iter().collect()));
    }
    stages
}

fn speed(series: &Series) -> Vec<(String, Vec<Point>)> {
    let seconds: std::collections::BTreeMap<u64, f64> = series.get("step_time").iter().copied().collect();
    let of = |(step, tokens): &Point| seconds.get(step).filter(|s| **s > 0.0).map(|seconds| (*step, tokens / seconds));
    let curve: Vec<Point> = series.get("tokens").iter().filter_map(of).collect();
    if curve.is_empty() { Vec::new() } else { vec![("tokens a second".to_owned(), curve)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_has_a_chart_and_many_stages_are_gathered() {
        let mut run = RunFiles::default();
        assert!(charts(&run).is_empty());
        let stages: Vec<(String, f64)> = (0..12).map(|n| (format!("time/stage{n}"), f64::from(12 - n))).collect();
        run.metrics
            .push(0, stages.iter().map(|(name, value)| (name.as_str(), *value)).chain([("kl", 0.1), ("tokens", 10.0), ("step_time", 2.0)]));
        let charts = charts(&run);
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(titles, ["KL to the reference", "Time of each stage", "Speed"]);
        assert_eq!((charts[1].curves.len(), charts[1].curves[7].1[0].1), (8, 5.0 + 4.0 + 3.0 + 2.0 + 1.0));
        assert_eq!(charts[2].curves[0].1, [(0, 5.0)]);
    }
}
