//! What was said, as `completions.jsonl` has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::lines;
use crate::error::Result;

/// How many steps are kept with their texts: the first, the last, and some between.
const STEPS: usize = 5;
/// How many groups of each.
const GROUPS: usize = 2;
/// The longest text that is kept, in characters.
const TEXT: usize = 20_000;

/// Groups from some steps of a run, and how many different texts there were in all.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Samples {
    /// Some groups, in the order of their steps.
    pub groups: Vec<SampleGroup>,
    /// The share of different texts in a group, mean over the groups of each step.
    pub distinct: Vec<(u64, f64)>,
    /// How many completions the file holds.
    pub completions: usize,
}

/// One group.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SampleGroup {
    /// The step it was trained on.
    pub step: u64,
    /// Its id.
    pub group: u64,
    /// What was asked.
    pub prompt: String,
    /// The answers.
    pub completions: Vec<SampleCompletion>,
}

/// One completion.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SampleCompletion {
    /// Its text.
    pub text: String,
    /// Its length.
    pub tokens: u64,
    /// Why it ended.
    pub finish: String,
    /// What each function said.
    pub rewards: Vec<(String, f64)>,
    /// Their weighted sum.
    pub reward: Option<f64>,
    /// The advantage.
    pub advantage: Option<f64>,
}

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    step: u64,
    group: u64,
    prompt: String,
    text: String,
    #[serde(default)]
    tokens: u64,
    #[serde(default)]
    finish: String,
    reward: Option<f64>,
    advantage: Option<f64>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Samples {
    /// Reads the file twice, so that a large one need not fit into memory. Also returns how many lines could not be read.
    pub(super) fn read(path: &Path) -> Result<(Self, usize)> {
        // For each group the hashes of its texts.
        let mut texts: BTreeMap<(u64, u64), (usize, BTreeSet<u64>)> = BTreeMap::new();
        let unreadable = lines(path, |line| {
            let line: Line = serde_json::from_slice(line).ok()?;
            // A step that comes again replaces what is there: only files that were not cut have such.
            let (count, distinct) = texts.entry((line.step, line.group)).or_default();
            *count += 1;
            distinct.insert(hash(&line.text));
            Some(())
        })?;
        let mut samples = Self { completions: texts.values().map(|(count, _)| count).sum(), ..Self::default() };
        let mut steps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for ((step, _), (count, distinct)) in &texts {
            steps.entry(*step).or_default().push(distinct.len() as f64 / *count as f64);
        }
        samples.distinct = steps.iter().map(|(step, shares)| (*step, shares.iter().sum::<f64>() / shares.len() as f64)).collect();
        let wanted = spread(&steps.into_keys().collect::<Vec<_>>());

        let mut groups: BTreeMap<(u64, u64), SampleGroup> = BTreeMap::new();
        lines(path, |line| {
            let line: Line = serde_json::from_slice(line).ok()?;
            if wanted.contains(&line.step) {
                let known = groups.range((line.step, 0)..=(line.step, u64::MAX)).count();
                let key = (line.step, line.group);
                // Two more than are shown: among them, those whose rewards differ come first.
                if known < 4 * GROUPS || groups.contains_key(&key) {
                    let group =
                        SampleGroup { step: line.step, group: line.group, prompt: shortened(&line.prompt), completions: Vec::new() };
                    groups.entry(key).or_insert(group).completions.push(line.completion());
                }
            }
            Some(())
        })?;
        for step in wanted {
            let mut of_step: Vec<SampleGroup> = groups.values().filter(|group| group.step == step).cloned().collect();
            // A group of equal rewards teaches nothing, the reader neither.
            of_step.sort_by_key(|group| !group.has_spread());
            samples.groups.extend(of_step.into_iter().take(GROUPS));
        }
        Ok((samples, unreadable))
    }
}

impl SampleGroup {
    /// Whether its rewards differ.
    pub fn has_spread(&self) -> bool {
        let mut rewards = self.completions.iter().filter_map(|completion| completion.reward);
        rewards.next().is_some_and(|first| rewards.any(|reward| reward != first))
    }
}

impl Line {
    fn completion(self) -> SampleCompletion {
        let named = |(name, value): (&String, &Value)| Some((name.strip_prefix("rewards/")?.to_owned(), value.as_f64()?));
        SampleCompletion {
            rewards: self.rest.iter().filter_map(named).collect(),
            text: shortened(&self.text),
            tokens: self.tokens,
            finish: self.finish,
            reward: self.reward,
            advantage: self.advantage,
        }
    }
}

/// The first, the last and some between.
fn spread(steps: &[u64]) -> BTreeSet<u64> {
    let last = steps.len().saturating_sub(1);
    (0..STEPS).filter_map(|place| steps.get(place * last / (STEPS - 1)).copied()).collect()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{} … (cut)", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn hash(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: u64, group: u64, text: &str, reward: f64) -> String {
        let line = serde_json::json!({
            "step": step, "group": group, "completion": 0, "prompt": "p", "text": text, "tokens": 1, "finish": "length",
            "rewards/exact": reward, "reward": reward, "advantage": 0.0,
        });
        format!("{line}\n")
    }

    #[test]
    fn groups_come_from_the_first_the_last_and_some_steps_between_those_with_spread_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("completions.jsonl");
        let mut text = String::new();
        for step in 0..10 {
            for group in 0..3 {
                text += &line(step, step * 10 + group, "a", 0.0);
                text += &line(step, step * 10 + group, if group == 0 { "a" } else { "b" }, if group == 2 { 1.0 } else { 0.0 });
            }
        }
        text += "{\"torn";
        std::fs::write(&path, text).unwrap();
        let (samples, unreadable) = Samples::read(&path).unwrap();
        assert_eq!((unreadable, samples.completions), (0, 60));
        let steps: Vec<u64> = samples.groups.iter().map(|group| group.step).collect();
        assert_eq!(steps, [0, 0, 2, 2, 4, 4, 6, 6, 9, 9]);
        assert_eq!(samples.groups[0].group, 2);
        assert_eq!(samples.groups[0].completions[1].rewards, [("exact".to_owned(), 1.0)]);
        // One group says the same twice, two do not.
        assert!((samples.distinct[0].1 - (0.5 + 1.0 + 1.0) / 3.0).abs() < 1e-12);
    }
}
