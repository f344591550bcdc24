//! Questions: from files to prompts.

use std::path::Path;

use grpo_core::{BoxError, Prompt};
use grpo_lm::chat::{GenerationPrompt, Message};
use grpo_lm::{Checkpoint, Tokenizer};
use grpo_rewards::answer::gold_text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::{Config, DataConfig, PromptForm, RewardKind, text_of};
use crate::failure::Failure;

/// What answers are judged by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// What is asked.
    pub question: String,
    /// The right answer, or a solution that ends in it.
    pub answer: String,
    /// What a program must pass.
    pub tests: Vec<String>,
}

/// Rewards judge by the answer.
impl AsRef<str> for Task {
    fn as_ref(&self) -> &str {
        &self.answer
    }
}

/// The training prompts, and the held-out ones.
pub struct Prompts {
    pub train: Vec<Prompt<Task>>,
    pub test: Vec<Prompt<Task>>,
}

/// The model's tokenizer.
pub fn tokenizer(checkpoint: &Checkpoint) -> Result<&Tokenizer, Failure> {
    checkpoint.tokenizer.as_ref().ok_or_else(|| Failure::input("the model has no tokenizer, which prompts need"))
}

/// Reads both files. Whatever is wrong with a line is told with its file and number, before anything is trained.
pub fn read(config: &Config, checkpoint: &Checkpoint) -> Result<Prompts, Failure> {
    let train = read_file(&config.data.train, usize::MAX, config, checkpoint)?;
    let judged_by_tests = config.rewards.iter().any(|reward| reward.kind == RewardKind::Code);
    if judged_by_tests && train.iter().all(|prompt| prompt.task.tests.is_empty()) {
        let (file, field) = (config.data.train.display(), &config.data.tests);
        return Err(Failure::input(format!("{file}: no question has `{field}`, which the reward `code` needs; [data] names the field")));
    }
    let limit = config.data.test_limit.unwrap_or(usize::MAX);
    let test = config.data.test.as_ref().map(|file| read_file(file, limit, config, checkpoint)).transpose()?;
    Ok(Prompts { train, test: test.unwrap_or_default() })
}

fn read_file(file: &Path, limit: usize, config: &Config, checkpoint: &Checkpoint) -> Result<Vec<Prompt<Task>>, Failure> {
    let text = text_of(file)?;
    let tokenizer = tokenizer(checkpoint)?;
    let mut prompts = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).take(limit) {
        let prompt = task(line, &config.data).and_then(|task| prompt(task, config, checkpoint, tokenizer));
        prompts.push(prompt.map_err(|problem| Failure::input(format!("{}:{}: {problem}", file.display(), index + 1)))?);
    }
    if prompts.is_empty() {
        return Err(Failure::input(format!("{}: no question, must be at least one", file.display())));
    }
    Ok(prompts)
}

fn task(line: &str, data: &DataConfig) -> Result<Task, BoxError> {
    let row: Map<String, Value> = serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
    let field = |name: &str| match row.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(other) => Err(format!("`{name}` is {other}, must be a text or a number")),
        None => Err(format!("no `{name}`; the fields are named by [data]")),
    };
    let tests = match row.get(&data.tests) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(lines)) => {
            let texts: Option<Vec<String>> = lines.iter().map(|line| line.as_str().map(str::to_owned)).collect();
            texts.ok_or_else(|| format!("`{}` must be a list of texts", data.tests))?
        }
        Some(other) => return Err(format!("`{}` is {other}, must be a list of texts", data.tests).into()),
    };
    // A question that only tests judge needs no answer.
    let answer = if tests.is_empty() || row.contains_key(&data.answer) { field(&data.answer)? } else { String::new() };
    if tests.is_empty() && gold_text(&answer).is_empty() {
        return Err(format!("`{}` holds no answer: no reward could judge by it", data.answer).into());
    }
    Ok(Task { question: field(&data.question)?, answer, tests })
}

fn prompt(task: Task, config: &Config, checkpoint: &Checkpoint, tokenizer: &Tokenizer) -> Result<Prompt<Task>, BoxError> {
    let form = &config.prompt;
    let text = match form.form {
        PromptForm::Raw => format!("{}{}{}", form.prefix, task.question, form.suffix),
        PromptForm::Chat => {
            let template = checkpoint.chat_template.as_ref().ok_or("the model has no chat template: set form = \"raw\" in [prompt]")?;
            let system = form.system.as_ref().map(|text| Message::new("system", text));
            let user = Message::new("user", format!("{}{}{}", form.prefix, task.question, form.suffix));
            template.render(&system.into_iter().chain([user]).collect::<Vec<_>>(), GenerationPrompt::Add)?
        }
    };
    let tokens = tokenizer.encode(&text)?;
    let (length, more, context) = (tokens.len(), config.train.sampling.max_tokens, checkpoint.config.max_position_embeddings);
    if length == 0 {
        return Err("the prompt has no token, must have at least one".into());
    }
    if length + more > context {
        let problem =
            format!("a prompt of {length} tokens and an answer of {more}, together they must be at most the context of {context}");
        return Err(problem.into());
    }
    Ok(Prompt::new(tokens, task))
}
