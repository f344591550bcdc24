//! Models and questions: from files to prompts.

use std::path::Path;

use grpo_core::{BoxError, Prompt, stream};
use grpo_lm::chat::{GenerationPrompt, Message};
use grpo_lm::{Checkpoint, Tokenizer};
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use crate::args::{Args, PromptForm};

/// A line of a file in GSM8K's form; what else stands in it is passed over.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Task {
    /// What is asked.
    pub question: String,
    /// A solution that ends in `#### N`.
    pub answer: String,
}

/// Rewards judge by the answer.
impl AsRef<str> for Task {
    fn as_ref(&self) -> &str {
        &self.answer
    }
}

/// Opens a model: what lies at that path, else what the hub has under that id.
pub fn open(model: &str) -> Result<Checkpoint, BoxError> {
    let path = Path::new(model);
    let is_id = !path.exists()
        && !model.starts_with(['.', '/', '~'])
        && model.split('/').count() == 2
        && path.extension().is_none_or(|e| e != "gguf");
    if is_id { fetched(model) } else { Ok(Checkpoint::open(path)?) }
}

#[cfg(feature = "hub")]
fn fetched(id: &str) -> Result<Checkpoint, BoxError> {
    let folder = grpo_lm::hub::fetch(id, &grpo_lm::hub::HubOptions::default()).map_err(|e| format!("{id} is not a path here; {e}"))?;
    Ok(Checkpoint::open(folder)?)
}

#[cfg(not(feature = "hub"))]
fn fetched(id: &str) -> Result<Checkpoint, BoxError> {
    Err(format!("{id}: no such file or folder; for models of the hub, build with the feature `hub`").into())
}

/// The model's tokenizer.
pub fn tokenizer(checkpoint: &Checkpoint) -> Result<&Tokenizer, BoxError> {
    Ok(checkpoint.tokenizer.as_ref().ok_or("the model has no tokenizer, which prompts need")?)
}

/// Reads questions and makes prompts of them. Whatever is wrong with a line is told with its file and number, before anything is trained.
pub fn read(file: &Path, args: &Args, checkpoint: &Checkpoint) -> Result<Vec<Prompt<Task>>, BoxError> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let prefix = args.prefix()?;
    let mut prompts = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let prompt = parse(line).and_then(|task| prompt(task, &prefix, args, checkpoint));
        prompts.push(prompt.map_err(|problem| format!("{}, line {}: {problem}", file.display(), index + 1))?);
    }
    if prompts.is_empty() {
        return Err(format!("{}: no question, must be at least one", file.display()).into());
    }
    Ok(prompts)
}

fn parse(line: &str) -> Result<Task, BoxError> {
    let task: Task = serde_json::from_str(line).map_err(|e| format!("not an object with the texts question and answer: {e}"))?;
    match task.answer.rsplit_once("####") {
        Some((_, gold)) if !gold.trim().is_empty() => Ok(task),
        _ => Err("the answer must end in `#### N`".into()),
    }
}

fn prompt(task: Task, prefix: &str, args: &Args, checkpoint: &Checkpoint) -> Result<Prompt<Task>, BoxError> {
    let text = match args.prompt {
        PromptForm::Raw => format!("{prefix}{}", task.question),
        PromptForm::Chat => {
            let template = checkpoint.chat_template.as_ref().ok_or("the model has no chat template: use --prompt raw")?;
            let system = args.system.as_ref().map(|text| Message::new("system", text));
            let messages: Vec<Message> = system.into_iter().chain([Message::new("user", &task.question)]).collect();
            template.render(&messages, GenerationPrompt::Add)?
        }
    };
    let tokens = tokenizer(checkpoint)?.encode(&text)?;
    let (length, more, context) = (tokens.len(), args.max_tokens, checkpoint.config.max_position_embeddings);
    if length == 0 {
        return Err("the prompt has no token, must have at least one".into());
    }
    if length + more > context {
        return Err(
            format!("a prompt of {length} tokens and an answer of {more}, together they must be at most the context of {context}").into()
        );
    }
    Ok(Prompt::new(tokens, task))
}

/// Prompts without end: each once in a random order, then each once in another.
pub struct Shuffled {
    prompts: Vec<Prompt<Task>>,
    next: usize,
    rng: ChaCha8Rng,
}

impl Shuffled {
    /// The seed says which orders.
    pub fn new(prompts: Vec<Prompt<Task>>, seed: u64) -> Self {
        // Streams from 0 on are those of samples.
        Self { next: prompts.len(), prompts, rng: stream(seed, usize::MAX) }
    }

    /// The next `count` prompts.
    pub fn take(&mut self, count: usize) -> Vec<Prompt<Task>> {
        (0..count)
            .map(|_| {
                if self.next == self.prompts.len() {
                    self.prompts.shuffle(&mut self.rng);
                    self.next = 0;
                }
                self.next += 1;
                self.prompts[self.next - 1].clone()
            })
            .collect()
    }
}
