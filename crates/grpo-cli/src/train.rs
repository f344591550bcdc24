//! `grpo train` and `grpo resume`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grpo_lm::{Checkpoint, Decoder, LmSampler};
use grpo_train::observe::{Observer, RunEnd, RunInfo};
use grpo_train::{Outcome, Resume, Shuffled, StopFlag, Trainer};

use crate::args::{ResumeArgs, TrainArgs};
use crate::config::{COPY, Config, text_of};
use crate::data::{self, Task};
use crate::failure::{AT_ONCE, Failure, INTERRUPTED};
use crate::voice::Voice;
use crate::{model, rewards};

/// Begins a run.
pub fn train(args: &TrainArgs) -> Result<ExitCode, Failure> {
    let (mut config, text) = Config::load(&args.config)?;
    if let Some(run) = &args.run {
        config.move_to(run.clone());
    }
    is_free(&config.run, &text)?;
    if config.run.join("metrics.jsonl").exists() {
        say!("{}: the logs of a run without checkpoints are there; they are written anew", config.run.display());
    }
    Ready::new(config)?.run(Resume::Fresh, Some(text))
}

/// Goes on with a run.
pub fn resume(args: &ResumeArgs) -> Result<ExitCode, Failure> {
    let (mut config, text) = of_run(&args.run)?;
    if let Some(steps) = args.steps {
        config.train.steps = steps;
        config.train.validate().map_err(Failure::input)?;
    }
    if !has_checkpoint(&config.run)? {
        return Err(Failure::input(format!("{} has no checkpoint to resume from: begin it with `grpo train`", config.run.display())));
    }
    let settings = args.steps.map(|steps| extended(&text, steps)).transpose()?;
    Ready::new(config)?.run(Resume::Newest, settings)
}

/// The settings with another number of steps. Where one line says how many there are, all else stays as it was written, comments included.
fn extended(text: &str, steps: u64) -> Result<String, Failure> {
    let mut wanted: toml::Table = text.parse().map_err(Failure::input)?;
    if let Some(toml::Value::Table(train)) = wanted.get_mut("train") {
        train.insert("steps".to_owned(), i64::try_from(steps).map_err(Failure::input)?.into());
    }
    let edited = |line: &str| match line.split_once('=') {
        Some((key, value)) if key.trim() == "steps" => {
            format!("steps = {steps}{}", value.split_once('#').map_or(String::new(), |(_, comment)| format!(" #{comment}")))
        }
        _ => line.to_owned(),
    };
    let same: String = text.lines().map(|line| edited(line) + "\n").collect();
    Ok(if same.parse::<toml::Table>().is_ok_and(|same| same == wanted) { same } else { wanted.to_string() })
}

/// Keeps a run's settings in its folder. A run that does not start, because another one holds the folder or because it is refused, changes nothing.
struct Settings {
    copy: PathBuf,
    text: String,
}

impl Observer for Settings {
    fn name(&self) -> &str {
        "settings"
    }

    fn on_start(&mut self, _run: &RunInfo) -> grpo_train::Result<()> {
        let beside = self.copy.with_extension("toml.new");
        let written = std::fs::write(&beside, &self.text).and_then(|()| std::fs::rename(&beside, &self.copy));
        written.map_err(grpo_train::Error::io(&self.copy))
    }
}

/// The settings that a run was begun with, and the number of steps it was last told.
pub fn of_run(run: &Path) -> Result<(Config, String), Failure> {
    let copy = run.join(COPY);
    if !copy.is_file() {
        return Err(Failure::input(format!("{} has no {COPY}, must be the folder of a run of `grpo train`", run.display())));
    }
    let (mut config, text) = Config::load(&copy)?;
    config.move_to(run.to_owned());
    Ok((config, text))
}

/// That a new run could write into its folder, and would overwrite nothing.
pub fn is_free(run: &Path, text: &str) -> Result<(), Failure> {
    can_be_made(run)?;
    if has_checkpoint(run)? {
        let run = run.display();
        return Err(Failure::input(format!(
            "{run} holds checkpoints of a run: go on with it by `grpo resume {run}`, or name another folder"
        )));
    }
    let learnt = run.join("metrics.jsonl").metadata().is_ok_and(|logs| logs.len() > 0);
    match text_of(&run.join(COPY)) {
        Ok(other) if learnt && other != text => {
            Err(Failure::input(format!("{} holds the logs of a run with other settings: name another folder", run.display())))
        }
        _ => Ok(()),
    }
}

/// That a folder could be made there: what is there of its path is a folder, and one to write into. Nothing is written.
fn can_be_made(run: &Path) -> Result<(), Failure> {
    let whole = std::path::absolute(run).map_err(Failure::input)?;
    let Some(there) = whole.ancestors().find(|path| path.symlink_metadata().is_ok()) else { return Ok(()) };
    let found = there.metadata().map_err(|error| Failure::input(format!("run = {}: {}: {error}", run.display(), there.display())))?;
    let problem = if !found.is_dir() {
        "is no folder"
    } else if found.permissions().readonly() {
        "cannot be written to"
    } else {
        return Ok(());
    };
    Err(Failure::input(format!("run = {}: {} {problem}", run.display(), there.display())))
}

fn has_checkpoint(run: &Path) -> Result<bool, Failure> {
    grpo_train::has_checkpoint(run.join("checkpoints")).map_err(Failure::input)
}

/// Everything that a run needs, read and checked.
pub struct Ready {
    pub config: Config,
    pub policy: Decoder,
    pub trainer: Trainer<Task, Decoder>,
    /// The model without its weights.
    checkpoint: Checkpoint,
}

impl Ready {
    /// Reads model and data. Whatever is wrong with either is told before anything is computed.
    pub fn new(config: Config) -> Result<Self, Failure> {
        let mut checkpoint = model::open(&config.model)?;
        model::suits(&config, &checkpoint)?;
        let prompts = data::read(&config, &checkpoint)?;
        let rewards = rewards::build(&config)?;
        let policy = model::policy(&config, &checkpoint)?;
        checkpoint.tensors.clear(); // they are on the device now
        let tokenizer = data::tokenizer(&checkpoint)?.clone();
        let mut train = config.train.clone();
        if train.sampling.end_tokens.is_empty() {
            train.sampling.end_tokens.clone_from(&checkpoint.generation.end_tokens);
        }
        let source = Shuffled::new(prompts.train, train.seed).map_err(Failure::input)?;
        // Prompts and answers are the source's to compare, frozen weights the trainer's.
        let written = |value: serde_json::Result<serde_json::Value>| value.map_err(Failure::run);
        let lora = written(serde_json::to_value(&config.model.lora))?;
        let asked = written(serde_json::to_value(&config.prompt))?;
        let judged = written(serde_json::to_value(&config.rewards))?;
        let trainer = Trainer::new(train, LmSampler::with_tokenizer(tokenizer.clone()), rewards, source)
            .with_held_out(prompts.test)
            .with_answers(rewards::answers(&config))
            .with_setting("lora", lora)
            .with_setting("prompt", asked)
            .with_setting("reward functions", judged)
            .with_decoder(move |tokens| tokenizer.decode_with_special(tokens).unwrap_or_default());
        Ok(Self { config, policy, trainer, checkpoint })
    }

    /// Trains to the end, or until something ends it.
    /// `settings` are kept in its folder once it holds that.
    fn run(self, resume: Resume, settings: Option<String>) -> Result<ExitCode, Failure> {
        let Self { config, policy, trainer, checkpoint } = self;
        let mut trainer = trainer.with_resume(resume).with_stop(stop_at_ctrl_c()?);
        let begun = Arc::new(AtomicBool::new(false));
        if let Some(text) = settings {
            trainer = trainer.with_observer(Settings { copy: config.run.join(COPY), text });
        }
        for observer in observers(&config, &begun)? {
            trainer = trainer.with_observer(observer);
        }
        let run = config.run.display();
        let Outcome { policy, end } = trainer.run(policy);
        match end {
            Ok(RunEnd::Interrupted) => {
                say!("stopped and saved; `grpo resume {run}` goes on");
                Ok(ExitCode::from(INTERRUPTED))
            }
            Ok(end) => {
                if end == RunEnd::AlreadyFinished {
                    let copy = config.run.join(COPY);
                    say!(
                        "nothing is left to do: all steps are done (`--steps N` adds some), or early_stop ended the run (another rule, or none, in {} lets it go on)",
                        copy.display()
                    );
                }
                let written = model::save(&config, &policy, checkpoint)?;
                say!("what was learnt is in {}", written.display());
                Ok(ExitCode::SUCCESS)
            }
            // It was refused before anything was computed: to do the same again would not help.
            Err(error) if !begun.load(Ordering::SeqCst) => Err(Failure::input(error)),
            Err(error) if has_checkpoint(&config.run)? => {
                Err(Failure::run(format!("{error}\nthe steps before it are saved: `grpo resume {run}` goes on from there")))
            }
            Err(error) => Err(Failure::run(error)),
        }
    }
}

/// Those of the settings, and the terminal's, which notes when the run has begun.
fn observers(config: &Config, begun: &Arc<AtomicBool>) -> Result<Vec<Box<dyn Observer>>, Failure> {
    let mut observe = config.observe.clone();
    // The bar and the printed lines share a terminal, so the voice has both.
    let bar = std::mem::replace(&mut observe.progress, false);
    let mut observers = observe.observers(&config.run).map_err(Failure::input)?;
    observers.push(Box::new(Voice::new(bar, config.observe.report.then(|| config.run.join("report.html")), begun.clone())));
    Ok(observers)
}

/// The first Ctrl-C asks to finish the step, the second one ends the program.
fn stop_at_ctrl_c() -> Result<StopFlag, Failure> {
    let (stop, asked) = (StopFlag::new(), AtomicBool::new(false));
    let flag = stop.clone();
    let handler = move || {
        if asked.swap(true, Ordering::SeqCst) {
            std::process::exit(AT_ONCE);
        }
        flag.stop();
        complain!("finishing the step and saving; once more stops at once");
    };
    ctrlc::set_handler(handler).map_err(Failure::run)?;
    Ok(stop)
}
