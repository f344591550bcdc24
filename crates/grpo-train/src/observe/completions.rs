//! What was said, and what it was worth, as JSON lines.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::lines::{Appended, is_before};
use super::{CompletionRecord, GroupRecord, Observer, RunInfo};
use crate::error::{Error, Result};

/// Writes `completions.jsonl`: a line a completion, the lines of a group beside each other.
///
/// | column | meaning |
/// |---|---|
/// | `step` | the first optimiser step that trains on it |
/// | `group`, `completion` | the group's id, and the place in it |
/// | `prompt`, `text` | what was asked and answered |
/// | `tokens`, `finish` | the completion's length, and why it ended |
/// | `rewards/NAME` | what each reward function said; absent where it does not apply |
/// | `reward` | their weighted sum; absent if none applies |
/// | `advantage` | mean over the tokens; absent if the group was left out of training |
///
/// The file grows by every completion of the run, or by the first groups of each rollout: see [`groups`](Self::groups).
/// It is JSON and not Parquet because a Parquet file ends in an index of all of it: a run that is killed would leave nothing that can be
/// read. `pandas.read_json(path, lines=True)` and `polars.read_ndjson(path)` read it as it is; `write_parquet` makes Parquet of it.
#[derive(Debug)]
pub struct CompletionsLog {
    path: PathBuf,
    groups: usize,
    file: Option<Appended>,
}

impl CompletionsLog {
    /// Writes to that folder, which is made if it is not there.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn new(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        Ok(Self { path: folder.join("completions.jsonl"), groups: usize::MAX, file: None })
    }

    /// At most so many groups of each rollout, from the first on.
    pub fn groups(mut self, most: usize) -> Self {
        self.groups = most;
        self
    }

    fn file(&mut self) -> Result<&mut Appended> {
        self.file.as_mut().ok_or_else(|| Error::invalid("completions log", "the run has not started"))
    }
}

impl Observer for CompletionsLog {
    fn name(&self) -> &str {
        "completions"
    }

    fn on_start(&mut self, run: &RunInfo) -> Result<()> {
        self.file = Some(Appended::open(&self.path, run.first_step)?);
        Ok(())
    }

    fn on_resume(&mut self, step: u64) -> Result<()> {
        self.file()?.cut(is_before(step))
    }

    fn on_groups(&mut self, step: u64, groups: &[GroupRecord<'_>]) -> Result<()> {
        let mut lines = String::new();
        for group in groups.iter().take(self.groups) {
            for (place, completion) in group.completions.iter().enumerate() {
                lines.push_str(&line(step, group, place, completion).to_string());
                lines.push('\n');
            }
        }
        self.file()?.append(lines.as_bytes())
    }

    fn on_checkpoint(&mut self, _step: u64, _folder: &Path) -> Result<()> {
        self.file()?.sync()
    }
}

fn line(step: u64, group: &GroupRecord<'_>, place: usize, completion: &CompletionRecord<'_>) -> Value {
    let mut line = Map::new();
    let mut put = |name: &str, value: Value| line.insert(name.to_owned(), value);
    put("step", step.into());
    put("group", group.id.0.into());
    put("completion", place.into());
    put("prompt", group.prompt.as_ref().into());
    put("text", completion.text.as_ref().into());
    put("tokens", completion.tokens.into());
    put("finish", serde_json::to_value(completion.finish).unwrap_or_default());
    for (name, reward) in &completion.rewards {
        if let Some(reward) = reward {
            put(&format!("rewards/{name}"), (*reward).into());
        }
    }
    if let Some(total) = completion.total {
        put("reward", total.into());
    }
    if let Some(advantage) = completion.advantage {
        put("advantage", advantage.into());
    }
    Value::Object(line)
}

#[cfg(test)]
mod tests {
    use grpo_core::{FinishReason, GroupId};

    use super::*;

    fn group(id: u64, text: &'static str) -> GroupRecord<'static> {
        let completion = CompletionRecord {
            text: text.into(),
            tokens: 2,
            finish: FinishReason::EndToken,
            rewards: vec![("exact", Some(1.0)), ("format", None)],
            total: Some(1.0),
            advantage: None,
        };
        GroupRecord { id: GroupId(id), prompt: "1 + 1 =".into(), completions: vec![completion] }
    }

    #[test]
    fn a_line_holds_what_there_is_and_a_torn_rollout_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let run = |first_step| RunInfo { first_step, steps: 9, config: Value::Null };
        let mut log = CompletionsLog::new(folder.path()).unwrap().groups(1);
        log.on_start(&run(0)).unwrap();
        log.on_groups(0, &[group(0, "2\n\"two\""), group(1, "left out")]).unwrap();
        log.on_groups(1, &[group(2, "3")]).unwrap();
        let path = folder.path().join("completions.jsonl");
        let torn = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &torn[..torn.len() - 3]).unwrap();

        let mut log = CompletionsLog::new(folder.path()).unwrap().groups(1);
        log.on_start(&run(1)).unwrap();
        log.on_resume(1).unwrap();
        log.on_groups(1, &[group(2, "3")]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), torn);
        let first: Value = serde_json::from_str(torn.lines().next().unwrap()).unwrap();
        assert_eq!(
            first,
            serde_json::json!({
                "step": 0, "group": 0, "completion": 0, "prompt": "1 + 1 =", "text": "2\n\"two\"", "tokens": 2,
                "finish": "end_token", "rewards/exact": 1.0, "reward": 1.0,
            })
        );
    }
}
