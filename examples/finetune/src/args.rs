//! The flags, and what they say in the library's terms.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use grpo_core::{
    BoxError, ClipRange, Estimator, GrpoConfig, KlPenalty, Objective, Reduction, Rewards, RolloutPlan, SamplingParams, Standardise,
    TokenId, ZeroGradient,
};
use grpo_lm::{Decoder, LoraConfig};
use grpo_rewards::answer::{ExactAnswer, Extract, LineAnswer, NumericAnswer};
use grpo_rewards::format::Format;

use crate::task::Task;

/// Fine-tunes a language model with GRPO on questions and answers. The defaults are an experiment: two-digit additions, to be run with
/// SmolLM2-135M.
#[derive(Parser, Debug)]
#[command(args_override_self = true)]
pub struct Args {
    /// A Hugging Face folder, a GGUF file, or the id of a model on the hub.
    #[arg(long, value_name = "PATH|OWNER/NAME")]
    pub model: String,
    /// Questions to learn from: a JSON object a line with `question`, and `answer` that ends in `#### N` (GSM8K's form).
    #[arg(long, value_name = "FILE", default_value = "testdata/additions/train.jsonl")]
    pub train: PathBuf,
    /// Questions to be judged by, in the same form.
    #[arg(long, value_name = "FILE", default_value = "testdata/additions/test.jsonl")]
    pub test: PathBuf,
    /// How many of the test questions, from the first on. 0: no evaluation.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub eval: usize,

    /// How a question becomes a prompt.
    #[arg(long, value_enum, default_value_t = PromptForm::Raw)]
    pub prompt: PromptForm,
    /// What stands before the question of a raw prompt; `\n` is a line break.
    #[arg(long, value_name = "TEXT", default_value = "3 + 4 = 7\\n12 + 9 = 21\\n")]
    pub few_shot: String,
    /// The same, from a file, as it is.
    #[arg(long, value_name = "FILE", conflicts_with = "few_shot")]
    pub prefix_file: Option<PathBuf>,
    /// The system message of a chat prompt. Without it the chat template has its own way.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,

    /// Where the answer stands in a completion. [default: line for raw prompts, last-number for chats]
    #[arg(long, value_enum)]
    pub answer: Option<AnswerForm>,
    /// A form that is rewarded beside the answer.
    #[arg(long, value_enum, default_value_t = FormatForm::None)]
    pub format: FormatForm,
    /// The reward of the form; a right answer is worth 1.
    #[arg(long, value_name = "W", default_value_t = 0.2, value_parser = at_least_0)]
    pub format_weight: f64,

    /// Optimiser steps; each has a rollout of its own.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub steps: u64,
    /// Prompts a step.
    #[arg(long, value_name = "P", default_value_t = 8, value_parser = at_least_1)]
    pub prompts: usize,
    /// Completions a prompt, at least 2.
    #[arg(long, value_name = "G", default_value_t = 8, value_parser = at_least_2)]
    pub group: usize,
    /// The longest completion, in tokens.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_least_1)]
    pub max_tokens: usize,
    /// The sampling temperature.
    #[arg(long, value_name = "T", default_value_t = 1.0, value_parser = above_0)]
    pub temperature: f64,

    /// The constant learning rate of AdamW.
    #[arg(long, value_name = "LR", default_value_t = 2e-4, value_parser = above_0)]
    pub lr: f64,
    /// β: how much the KL to the policy as it started weighs. 0: no reference is asked.
    #[arg(long, value_name = "BETA", default_value_t = 0.0, value_parser = at_least_0)]
    pub beta: f64,
    /// The importance ratio is clipped to 1 ± this.
    #[arg(long, value_name = "WIDTH", default_value_t = 0.2, value_parser = at_least_0)]
    pub clip: f64,
    /// Rank of the factors beside the matrices (LoRA).
    #[arg(long, value_name = "R", default_value_t = 16, value_parser = at_least_1)]
    pub lora_rank: usize,
    /// Their scale is alpha / rank.
    #[arg(long, value_name = "ALPHA", default_value_t = 32.0, value_parser = above_0)]
    pub lora_alpha: f64,
    /// Train every weight instead.
    #[arg(long, conflicts_with_all = ["lora_rank", "lora_alpha"])]
    pub full: bool,
    /// Padded completion tokens a micro-batch, one group at least. Less takes less memory and gives the same step.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = at_least_1)]
    pub micro_tokens: usize,

    /// Seed of the prompts' order, the factors and all draws.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What computes: flex, ndarray, tch, tch:cuda:0, wgpu …; each but flex needs the Cargo feature of its name.
    #[arg(long, value_name = "DEVICE", default_value = "flex")]
    pub device: String,
    /// Where metrics.jsonl, completions.jsonl and what was learnt go: `adapter` in PEFT's form, or `model` after full fine-tuning.
    #[arg(long, value_name = "DIR", default_value = "runs/finetune")]
    pub out: PathBuf,
    /// Print one JSON object as the last line.
    #[arg(long)]
    pub json: bool,
}

/// How a question becomes a prompt.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptForm {
    /// Behind a few solved ones, as plain text.
    Raw,
    /// As a user's message in the model's chat template.
    Chat,
}

/// Where the answer stands in a completion.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// All of the first line.
    Line,
    /// A number after the last `####`.
    Hash,
    /// A number in the last `\boxed{}`.
    Boxed,
    /// A number in the last `<answer>` tag.
    Tag,
    /// The last number.
    LastNumber,
    /// The whole text.
    Whole,
}

/// A form that is rewarded beside the answer.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatForm {
    /// None.
    None,
    /// `<think>…</think><answer>…</answer>`
    ThinkAnswer,
}

impl Args {
    /// GRPO as TRL has it by default, with its sequence-mean loss.
    pub fn config(&self) -> GrpoConfig {
        GrpoConfig {
            estimator: Estimator::Standardise(Standardise::default()), // by the group, n − 1, ε = 1e-4
            objective: Objective::clipped(ClipRange::symmetric(self.clip)),
            kl: (self.beta > 0.0).then(|| KlPenalty::plain_k3(self.beta)),
            reduction: Reduction::SequenceMean,
            max_grad_norm: Some(1.0),
            zero_gradient: ZeroGradient::Step, // as TRL: momentum goes on over a step of dead groups
            ..GrpoConfig::default()
        }
    }

    /// The policy that the flags ask for: a frozen model with factors, or a model as it is.
    pub fn policy(&self, model: Decoder) -> Result<Decoder, BoxError> {
        if self.full {
            return Ok(model);
        }
        let lora = LoraConfig { rank: self.lora_rank, alpha: self.lora_alpha, seed: self.seed, ..LoraConfig::default() };
        Ok(model.with_lora(&lora)?)
    }

    /// How completions are drawn; the step is filled in later.
    pub fn plan(&self, end_tokens: &[TokenId]) -> RolloutPlan {
        let params = SamplingParams {
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            end_tokens: end_tokens.to_vec(),
            ..SamplingParams::default()
        };
        RolloutPlan { group_size: self.group, params, seed: self.seed, step: 0, policy_version: 0 }
    }

    /// The answer, which accuracy is counted by, and the form.
    pub fn rewards(&self) -> Rewards<Task> {
        let by_default = if self.prompt == PromptForm::Raw { AnswerForm::Line } else { AnswerForm::LastNumber };
        let rewards = Rewards::new();
        let rewards = match self.answer.unwrap_or(by_default) {
            AnswerForm::Line => rewards.with(1.0, LineAnswer),
            AnswerForm::Hash => rewards.with(1.0, NumericAnswer::new(Extract::Hash)),
            AnswerForm::Boxed => rewards.with(1.0, NumericAnswer::new(Extract::Boxed)),
            AnswerForm::Tag => rewards.with(1.0, NumericAnswer::new(Extract::tag("answer"))),
            AnswerForm::LastNumber => rewards.with(1.0, NumericAnswer::new(Extract::LastNumber)),
            AnswerForm::Whole => rewards.with(1.0, ExactAnswer::new(Extract::Whole)),
        };
        match self.format {
            FormatForm::None => rewards,
            FormatForm::ThinkAnswer => rewards.with(self.format_weight, Format::think_answer()),
        }
    }

    /// What stands before the question of a raw prompt.
    pub fn prefix(&self) -> Result<String, BoxError> {
        match &self.prefix_file {
            Some(file) => Ok(std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?),
            None => Ok(self.few_shot.replace("\\n", "\n")),
        }
    }
}

fn at_least(least: usize, text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n >= least).ok_or_else(|| format!("must be a whole number of at least {least}"))
}

fn at_least_1(text: &str) -> Result<usize, String> {
    at_least(1, text)
}

fn at_least_2(text: &str) -> Result<usize, String> {
    at_least(2, text)
}

fn at_least_0(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0).ok_or_else(|| "must be a number of at least 0".to_owned())
}

fn above_0(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0).ok_or_else(|| "must be a number above 0".to_owned())
}
