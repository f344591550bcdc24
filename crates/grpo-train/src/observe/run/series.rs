//! Numbers over steps.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::lines;
use crate::error::Result;

/// A value at a step. NaN stands for "measured, and not finite".
pub type Point = (u64, f64);

/// Named curves over the steps of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    curves: BTreeMap<String, Vec<Point>>,
    steps: Vec<u64>,
}

impl Series {
    /// Reads a file of JSON lines with `step`. Also returns how many lines could not be read.
    pub(super) fn read(path: &Path) -> Result<(Self, usize)> {
        let mut series = Self::default();
        let unreadable = lines(path, |line| {
            let line: Map<String, Value> = serde_json::from_slice(line).ok()?;
            let step = line.get("step")?.as_u64()?;
            series.push(step, line.iter().filter_map(|(name, value)| Some((name.as_str(), number(value)?))));
            Some(())
        })?;
        Ok((series, unreadable))
    }

    /// Takes in the values of a step. What is there of this step and later ones goes: it comes again.
    pub fn push<'a>(&mut self, step: u64, values: impl IntoIterator<Item = (&'a str, f64)>) {
        if self.last_step().is_some_and(|last| last >= step) {
            self.steps.retain(|at| *at < step);
            self.curves.values_mut().for_each(|curve| curve.retain(|(at, _)| *at < step));
        }
        self.steps.push(step);
        for (name, value) in values.into_iter().filter(|(name, _)| *name != "step") {
            match self.curves.get_mut(name) {
                Some(curve) => curve.push((step, value)),
                None => drop(self.curves.insert(name.to_owned(), vec![(step, value)])),
            }
        }
    }

    /// A curve; empty where there is none of that name.
    pub fn get(&self, name: &str) -> &[Point] {
        self.curves.get(name).map_or(&[], Vec::as_slice)
    }

    /// All curves by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Point])> {
        self.curves.iter().map(|(name, curve)| (name.as_str(), curve.as_slice()))
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The last step.
    pub fn last_step(&self) -> Option<u64> {
        self.steps.last().copied()
    }
}

/// Numbers as they are, `null` as NaN; anything else is no value.
fn number(value: &Value) -> Option<f64> {
    if value.is_null() { Some(f64::NAN) } else { value.as_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_lines_are_passed_over_broken_ones_are_counted_and_a_step_that_comes_again_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let text = "{\"step\":0,\"kl\":1}\n{\"step\":1,\"kl\":2}\n{\"step\":2,\"kl\":3}\n\n?\n{\"kl\":9}\n{\"step\":1,\"kl\":null,\"why\":\"\"}\n{\"step\":2,";
        std::fs::write(&path, text).unwrap();
        let (series, unreadable) = Series::read(&path).unwrap();
        assert_eq!(unreadable, 2);
        assert_eq!((series.len(), series.last_step()), (2, Some(1)));
        let kl = series.get("kl");
        assert!(kl.len() == 2 && kl[0] == (0, 1.0) && kl[1].0 == 1 && kl[1].1.is_nan(), "{kl:?}");
        assert!(series.get("why").is_empty() && series.get("step").is_empty());
    }

    #[test]
    fn a_file_that_is_not_there_is_empty() {
        assert_eq!(Series::read(Path::new("/nowhere/metrics.jsonl")).unwrap(), (Series::default(), 0));
    }
}
