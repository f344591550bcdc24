//! The parts of the settings that are the command line's own.

use std::path::PathBuf;

use grpo_lm::LoraConfig;
use grpo_rewards::format::Pattern;
use serde::{Deserialize, Serialize};

/// What is trained.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// A Hugging Face folder, a GGUF file, or the id of a model on the hub.
    pub path: String,
    /// Low-rank factors beside frozen matrices. Without this table every weight is trained.
    pub lora: Option<LoraConfig>,
    /// What computes: `flex`, `tch`, `tch:cuda:0`, `wgpu` …; each but flex needs the Cargo feature of its name.
    #[serde(default = "flex")]
    pub device: String,
}

impl ModelConfig {
    /// That it names something.
    pub fn validate(&self) -> Result<(), String> {
        match self.path.trim() {
            "" => Err("path is empty, must be a folder, a GGUF file or an id of the hub".to_owned()),
            _ => Ok(()),
        }
    }
}

/// What is asked: files with a JSON object a line.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// What is learnt from.
    pub train: PathBuf,
    /// What is asked before, during and after the run, and never learnt from.
    pub test: Option<PathBuf>,
    /// At most so many held-out questions, from the first on.
    pub test_limit: Option<usize>,
    /// The field of the question.
    #[serde(default = "question")]
    pub question: String,
    /// The field of the right answer: a text, or a solution that ends in `#### ANSWER`.
    #[serde(default = "answer")]
    pub answer: String,
    /// The field of the tests, for the reward `code`: a list of Python lines that assert something.
    #[serde(default = "tests")]
    pub tests: String,
}

fn flex() -> String {
    "flex".to_owned()
}

fn question() -> String {
    "question".to_owned()
}

fn answer() -> String {
    "answer".to_owned()
}

fn tests() -> String {
    "tests".to_owned()
}

/// How a question becomes a prompt.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromptConfig {
    /// Which form it has.
    pub form: PromptForm,
    /// What stands before the question of a raw prompt.
    pub prefix: String,
    /// What stands after it.
    pub suffix: String,
    /// The system message of a chat. Without it the chat template has its own way.
    pub system: Option<String>,
}

impl PromptConfig {
    /// That nothing is set which the form does not use.
    pub fn validate(&self) -> Result<(), String> {
        match (self.form, &self.system) {
            (PromptForm::Raw, Some(_)) => Err("system: a raw prompt has no system message; write it into `prefix`".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Which form a prompt has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// A user's message in the model's chat template.
    #[default]
    Chat,
    /// Plain text.
    Raw,
}

/// One reward function.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardConfig {
    /// Which one.
    pub kind: RewardKind,
    /// How much it weighs. 0: it is measured only.
    #[serde(default = "one")]
    pub weight: f64,
    /// Where the answer stands, for `exact`, `numeric` and `math`.
    pub from: Option<Answers>,
    /// The tags of `format`, in their order. [default: think, answer]
    pub tags: Option<Vec<String>>,
    /// The regular expression of `pattern`.
    pub pattern: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// The reward functions that have a name here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardKind {
    /// The first line is the answer and nothing else.
    Line,
    /// The text that is found is the answer, letter by letter.
    Exact,
    /// The number that is found is the answer.
    Numeric,
    /// What is found equals the answer, as mathematics.
    Math,
    /// The tags are there, in order, once each.
    Format,
    /// A regular expression matches somewhere in the text.
    Pattern,
    /// The last Python block passes the tests of its question, in a sandbox. Linux.
    Code,
}

/// Where an answer stands in a completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// It is all of it.
    Whole,
    /// In the last `\boxed{}`.
    Boxed,
    /// After the last `####`.
    Hash,
    /// The last number.
    LastNumber,
    /// In the last pair of this tag.
    Tag(String),
    /// Anywhere, for `math`: a box, an announcement, the last formula.
    Anywhere,
}

impl RewardConfig {
    /// That it has what it uses, and nothing else.
    pub fn validate(&self) -> Result<(), String> {
        let kind = self.kind.name();
        if !self.weight.is_finite() {
            return Err(format!("reward {kind}: weight = {}, must be finite", self.weight));
        }
        let takes_from = matches!(self.kind, RewardKind::Exact | RewardKind::Numeric | RewardKind::Math);
        let unused = [
            ("from", self.from.is_some() && !takes_from),
            ("tags", self.tags.is_some() && self.kind != RewardKind::Format),
            ("pattern", self.pattern.is_some() && self.kind != RewardKind::Pattern),
        ];
        if let Some((name, _)) = unused.iter().find(|(_, unused)| *unused) {
            return Err(format!("reward {kind} has no `{name}`"));
        }
        if let Some(pattern) = &self.pattern {
            Pattern::new(pattern).map_err(|error| format!("reward pattern: `pattern`: {error}"))?;
        }
        match (self.kind, &self.from) {
            (RewardKind::Pattern, _) if self.pattern.is_none() => Err("reward pattern: `pattern` is missing".to_owned()),
            (RewardKind::Exact | RewardKind::Numeric, Some(Answers::Anywhere)) => {
                Err(format!("reward {kind}: from = anywhere is for math only"))
            }
            (RewardKind::Math, Some(Answers::Hash | Answers::LastNumber)) => {
                Err("reward math: from must be boxed, whole, anywhere or a tag".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl RewardKind {
    /// As the settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Exact => "exact",
            Self::Numeric => "numeric",
            Self::Math => "math",
            Self::Format => "format",
            Self::Pattern => "pattern",
            Self::Code => "code",
        }
    }
}
