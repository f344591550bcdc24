//! The file of settings.

mod locate;
mod parts;

use std::path::{Path, PathBuf};

use grpo_core::Recipe;
use grpo_train::observe::ObserveConfig;
use grpo_train::{Best, CheckpointConfig, TrainConfig};
use serde::Deserialize;

use crate::failure::Failure;
pub use parts::{Answers, DataConfig, ModelConfig, PromptConfig, PromptForm, RewardConfig, RewardKind};

/// The folder of a run's checkpoints, in the run's folder.
const CHECKPOINTS: &str = "checkpoints";
/// The copy of the settings in the run's folder.
pub const COPY: &str = "config.toml";

/// All settings of a run. Paths are relative to the folder that `grpo` is called in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The run's folder: everything that the run writes goes there.
    pub run: PathBuf,
    /// What is trained.
    pub model: ModelConfig,
    /// What is asked.
    pub data: DataConfig,
    /// How a question becomes a prompt.
    #[serde(default)]
    pub prompt: PromptConfig,
    /// What answers are worth: at least one.
    pub rewards: Vec<RewardConfig>,
    /// The loss of a published recipe, by name, in place of `train.grpo`.
    pub recipe: Option<String>,
    /// The trainer's settings.
    pub train: TrainConfig,
    /// When checkpoints are written, and how many are kept.
    #[serde(default)]
    pub checkpoints: Checkpoints,
    /// What is written of the run besides.
    #[serde(default)]
    pub observe: ObserveConfig,
}

/// Checkpoints in the run's folder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Checkpoints {
    /// After every so many steps, and at the end.
    every: u64,
    /// How many of the newest are kept.
    keep_last: usize,
    /// The best one is kept as well.
    best: Option<Best>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { every: 20, keep_last: 3, best: None }
    }
}

/// A file's text, without the mark that some editors put in front.
pub fn text_of(file: &Path) -> Result<String, Failure> {
    let mut text = std::fs::read_to_string(file).map_err(|error| Failure::input(format!("{}: {error}", file.display())))?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

impl Config {
    /// Reads a file of settings, and checks every one. What is wrong is told with file and line.
    pub fn load(file: &Path) -> Result<(Self, String), Failure> {
        let text = text_of(file)?;
        let config = Self::parse(&text).map_err(|problem| Failure::input(format!("{}{problem}", file.display())))?;
        Ok((config, text))
    }

    /// The settings, or what is wrong with them, with the line in front.
    fn parse(text: &str) -> Result<Self, String> {
        let mut config: Self = toml::from_str(text).map_err(|error| locate::parse_error(text, &error))?;
        config.settle(text)?;
        Ok(config)
    }

    /// Fills in what follows from other settings, and checks all of them.
    fn settle(&mut self, text: &str) -> Result<(), String> {
        let wrong = |key: &str, problem: String| format!("{}: {problem}", locate::line_of(text, key));
        if let Some(name) = &self.recipe {
            let recipes = Recipe::all();
            let Some(recipe) = recipes.iter().find(|recipe| recipe.name == *name) else {
                let names: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
                return Err(wrong("recipe", format!("recipe = {name}, must be one of {}", names.join(", "))));
            };
            if self.train.grpo != TrainConfig::default().grpo {
                return Err(wrong("recipe", format!("recipe = {name} beside train.grpo: only one of them can say what the loss is")));
            }
            self.train.grpo = recipe.config.clone();
        }
        if self.run.as_os_str().is_empty() {
            return Err(wrong("run", "run is empty, must be a folder".to_owned()));
        }
        if self.data.test_limit == Some(0) {
            return Err(wrong("test_limit", "test_limit = 0, must be at least 1".to_owned()));
        }
        if self.rewards.is_empty() {
            return Err(wrong("rewards", "rewards: none, must be at least one".to_owned()));
        }
        for (place, reward) in self.rewards.iter().enumerate() {
            // Metrics go by the functions' names.
            if self.rewards.iter().take(place).any(|earlier| earlier.kind == reward.kind) {
                return Err(wrong("rewards", format!("reward {} stands twice, must stand once", reward.kind.name())));
            }
            reward.validate().map_err(|problem| wrong(if problem.contains("`pattern`") { "pattern" } else { "kind" }, problem))?;
        }
        self.model.validate().map_err(|problem| wrong("path", problem))?;
        self.prompt.validate().map_err(|problem| wrong("system", problem))?;
        self.observe.validate().map_err(|error| wrong("uri", error.to_string()))?;
        if self.train.checkpoints.is_some() {
            return Err(wrong(
                "train.checkpoints",
                "train.checkpoints: checkpoints lie in the run's folder; say how many in [checkpoints]".to_owned(),
            ));
        }
        self.train.checkpoints = Some(CheckpointConfig {
            folder: self.run.join(CHECKPOINTS),
            every: self.checkpoints.every,
            keep_last: self.checkpoints.keep_last,
            best: self.checkpoints.best.clone(),
        });
        self.model.lora.as_ref().map_or(Ok(()), grpo_lm::LoraConfig::validate).map_err(|error| wrong("lora", error.to_string()))?;
        if self.data.test.is_none() {
            self.train.validate_without_held_out().map_err(|error| wrong("metric", error.to_string()))?;
        }
        self.train.validate().map_err(|error| {
            let problem = error.to_string();
            // `temperature = -1, must be …` names the setting first.
            let key = problem.split(" = ").next().and_then(|field| field.split_whitespace().last()).unwrap_or_default().to_owned();
            wrong(&key, problem)
        })
    }

    /// Moves the run to another folder.
    pub fn move_to(&mut self, run: PathBuf) {
        if let Some(checkpoints) = &mut self.train.checkpoints {
            checkpoints.folder = run.join(CHECKPOINTS);
        }
        self.run = run;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r#"
run = "runs/x"
[model]
path = "m.gguf"
[data]
train = "train.jsonl"
[[rewards]]
kind = "numeric"
from = "hash"
[train]
steps = 5
"#;

    fn error(text: &str) -> String {
        Config::parse(text).unwrap_err()
    }

    #[test]
    fn little_must_be_said_and_checkpoints_lie_in_the_run() {
        let config = Config::parse(LEAST).unwrap();
        let checkpoints = config.train.checkpoints.unwrap();
        assert_eq!((checkpoints.folder, checkpoints.every, config.train.steps), (PathBuf::from("runs/x/checkpoints"), 20, 5));
    }

    #[test]
    fn unknown_keys_are_told_with_their_line_at_any_depth() {
        assert!(error(&format!("{LEAST}stepz = 6\n")).starts_with(":12: "), "{}", error(&format!("{LEAST}stepz = 6\n")));
        let nested = format!("{LEAST}[observe]\ntensorbord = true\n");
        assert!(error(&nested).starts_with(":13: ") && error(&nested).contains("tensorbord"), "{}", error(&nested));
        assert!(error("run = \"x\"\n[model\n").starts_with(":2: "), "{}", error("run = \"x\"\n[model\n"));
    }

    #[test]
    fn a_value_out_of_range_is_told_with_its_line() {
        let text = format!("{LEAST}group_size = 0\n");
        assert!(error(&text).starts_with(":12: group_size = 0"), "{}", error(&text));
        let text = format!("{LEAST}[train.sampling]\ntemperature = -1.0\n");
        assert!(error(&text).starts_with(":13: temperature = -1"), "{}", error(&text));
    }

    #[test]
    fn a_recipe_is_a_loss_by_name_and_stands_alone() {
        let with = |more: &str| Config::parse(&format!("recipe = \"dr_grpo\"\n{LEAST}{more}"));
        assert_eq!(with("").unwrap().train.grpo, Recipe::dr_grpo().config);
        assert!(with("[train.grpo]\nmax_grad_norm = 2.0\n").unwrap_err().starts_with(":1: "));
        let unknown = Config::parse(&format!("recipe = \"nope\"\n{LEAST}")).unwrap_err();
        assert!(unknown.contains("dapo") && unknown.contains("nope"), "{unknown}");
    }

    #[test]
    fn a_reward_takes_only_what_it_uses() {
        let text = LEAST.replace("kind = \"numeric\"\nfrom = \"hash\"", "kind = \"line\"\nfrom = \"hash\"");
        assert!(error(&text).contains("line") && error(&text).contains("from"), "{}", error(&text));
        let text = LEAST.replace("numeric", "numerical");
        assert!(error(&text).starts_with(":8: ") && error(&text).contains("numeric"), "{}", error(&text));
    }

    #[test]
    fn checkpoints_elsewhere_are_refused() {
        let text = format!("{LEAST}[train.checkpoints]\nfolder = \"elsewhere\"\n");
        assert!(error(&text).contains("[checkpoints]"), "{}", error(&text));
    }
}
