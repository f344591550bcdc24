//! A step as named numbers: what every sink writes, under the same names.

use grpo_core::Metrics;
use serde_json::{Map, Value};

use super::StepRecord;

/// All numbers of a step: its metrics by name, then `tokens`, `step_time` and `time/STAGE` in seconds. What was not measured is not there.
pub(crate) fn values(record: &StepRecord) -> Vec<(String, f64)> {
    let mut values: Vec<(String, f64)> = record.metrics.iter().map(|(name, value)| (name.to_owned(), value)).collect();
    values.push(("tokens".to_owned(), record.tokens as f64));
    if !record.stages.is_empty() {
        values.push(("step_time".to_owned(), record.stages.iter().map(|(_, seconds)| seconds).sum()));
    }
    let first_stage = values.len();
    for (stage, seconds) in &record.stages {
        let name = format!("time/{stage}");
        // A stage may be entered several times in a step.
        match values.iter_mut().skip(first_stage).find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += seconds,
            None => values.push((name, *seconds)),
        }
    }
    values
}

/// What the names of an evaluation's metrics begin with, whether or not who measured them wrote it.
pub(crate) const EVALUATION: &str = "eval/";

/// All numbers of an evaluation.
pub(crate) fn evaluation_values(metrics: &Metrics) -> Vec<(String, f64)> {
    let prefixed = |name: &str| if name.starts_with(EVALUATION) { name.to_owned() } else { format!("{EVALUATION}{name}") };
    metrics.iter().map(|(name, value)| (prefixed(name), value)).collect()
}

/// A JSON line: `step`, then the values. JSON has no NaN and no infinity: such a value is `null`, which is measured and not finite.
pub(crate) fn json_line(step: u64, values: &[(String, f64)]) -> Vec<u8> {
    let mut line: Map<String, Value> = values.iter().map(|(name, value)| (name.clone(), Value::from(*value))).collect();
    line.insert("step".to_owned(), step.into());
    format!("{}\n", Value::Object(line)).into_bytes()
}

#[cfg(test)]
mod tests {
    use grpo_core::Normaliser;

    use super::*;

    #[test]
    fn a_step_is_its_metrics_its_tokens_and_its_seconds() {
        let mut metrics = Metrics::default();
        metrics.mean("kl", 1.0, 4.0, Normaliser::Token);
        let record = StepRecord { step: 3, metrics, stages: vec![("rollout", 1.0), ("score", 0.5), ("rollout", 0.25)], tokens: 40 };
        let named = |name: &str, value| (name.to_owned(), value);
        assert_eq!(
            values(&record),
            [named("kl", 0.25), named("tokens", 40.0), named("step_time", 1.75), named("time/rollout", 1.25), named("time/score", 0.5)]
        );
    }

    #[test]
    fn names_of_an_evaluation_have_their_prefix_once() {
        let mut metrics = Metrics::default();
        metrics.mean("reward", 1.0, 2.0, Normaliser::Completion);
        metrics.mean("eval/greedy", 1.0, 1.0, Normaliser::Completion);
        assert_eq!(evaluation_values(&metrics), [("eval/greedy".to_owned(), 1.0), ("eval/reward".to_owned(), 0.5)]);
    }

    #[test]
    fn what_is_not_finite_is_null_and_what_was_not_measured_is_absent() {
        let line = json_line(7, &[("grad_norm".to_owned(), f64::NAN), ("kl".to_owned(), 0.5)]);
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line, serde_json::json!({ "step": 7, "grad_norm": null, "kl": 0.5 }));
    }
}
