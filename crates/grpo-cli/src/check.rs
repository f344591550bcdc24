//! `grpo check`: what would be trained, and on what.

use std::process::ExitCode;

use grpo_core::{Completion, FinishReason, Group, GroupId, LogProbKind, Prompt, Sample};
use grpo_lm::Checkpoint;

use crate::args::CheckArgs;
use crate::config::Config;
use crate::data::{self, Task};
use crate::failure::Failure;
use crate::{model, rewards, train};

/// Reads everything, and says what it found.
pub fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let (config, text) = Config::load(&args.config)?;
    let checkpoint = model::open(&config.model)?;
    model::suits(&config, &checkpoint)?;
    model::device(&config)?;
    let prompts = data::read(&config, &checkpoint)?;
    describe_model(&config, &checkpoint);
    describe_prompts("train", &prompts.train);
    if !prompts.test.is_empty() {
        describe_prompts("held out", &prompts.test);
    }
    if let (Some(first), Ok(tokenizer)) = (prompts.train.first(), data::tokenizer(&checkpoint)) {
        let text = tokenizer.decode_with_special(&first.tokens).map_err(Failure::input)?;
        say!("first    {text:?}");
        say!("answer   {:?}", first.task.answer);
        describe_rewards(&config, first)?;
    }
    let settings = &config.train;
    say!(
        "rollout  {} prompts × {} completions of at most {} tokens, temperature {}",
        settings.prompts,
        settings.group_size,
        settings.sampling.max_tokens,
        settings.sampling.temperature
    );
    say!("steps    {}, {} a rollout", settings.steps, settings.mini_batches * settings.grpo.updates_per_rollout);
    say!("run      {}", config.run.display());
    train::is_free(&config.run, &text)?;
    say!("nothing is wrong with {}", args.config.display());
    Ok(ExitCode::SUCCESS)
}

fn describe_model(config: &Config, checkpoint: &Checkpoint) {
    let weights: usize = checkpoint.tensors.values().map(|tensor| tensor.shape.iter().product::<usize>()).sum();
    let trained = match &config.model.lora {
        Some(lora) => format!("factors of rank {} are trained", lora.rank),
        None => "every weight is trained".to_owned(),
    };
    let context = checkpoint.config.max_position_embeddings;
    say!("model    {}: {:.1} million weights, context {context}; {trained}", config.model.path, weights as f64 / 1e6);
}

fn describe_prompts(what: &str, prompts: &[Prompt<Task>]) {
    let lengths = prompts.iter().map(|prompt| prompt.tokens.len());
    let (low, high) = (lengths.clone().min().unwrap_or(0), lengths.max().unwrap_or(0));
    say!("{what:<8} {} prompts of {low} to {high} tokens", prompts.len());
}

/// The rewards, and what they say of the right answer: a reward that refuses it could teach nothing.
fn describe_rewards(config: &Config, prompt: &Prompt<Task>) -> Result<(), Failure> {
    let functions = rewards::build(config)?;
    let weights: Vec<String> =
        functions.names().iter().zip(&config.rewards).map(|(name, reward)| format!("{} × {name}", reward.weight)).collect();
    say!("rewards  {}", weights.join(" + "));
    let Some(text) = rewards::right_answer(config, &prompt.task) else { return Ok(()) };
    let sample = Sample {
        tokens: vec![0],
        log_probs: vec![0.0],
        log_prob_kind: LogProbKind::Tempered,
        temperature: 1.0,
        finish: FinishReason::EndToken,
        text: text.clone(),
        policy_version: None,
    };
    let completion = Completion::from_sample(sample, 0).map_err(Failure::run)?;
    let group = Group::new(GroupId(0), prompt.clone(), vec![completion]).map_err(Failure::run)?;
    let table = functions.score(&[group]).map_err(Failure::input)?;
    let total = table.totals().first().copied().flatten();
    say!("         the completion {text:?} earns {}", total.map_or("nothing: no function applies".to_owned(), |total| total.to_string()));
    Ok(())
}
