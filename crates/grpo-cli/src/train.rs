//! `grpo train` and `grpo resume`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grpo_lm::{Checkpoint, Decoder, LmSampler};
use grpo_train::observe::{Observer, RunEnd};
use grpo_train::{Outcome, Resume, Shuffled, StopFlag, Trainer, list_checkpoints};

use crate::args::{ResumeArgs, TrainArgs};
use crate::config::{COPY, Config};
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
        println!("{}: the logs of a run without checkpoints are there; they are written anew", config.run.display());
    }
    let ready = Ready::new(config)?;
    let (run, copy) = (&ready.config.run, ready.config.run.join(COPY));
    let written = std::fs::create_dir_all(run).and_then(|()| std::fs::write(&copy, text));
    written.map_err(|error| Failure::input(format!("{}: {error}", copy.display())))?;
    ready.run(Resume::Fresh)
}

/// Goes on with a run.
pub fn resume(args: &ResumeArgs) -> Result<ExitCode, Failure> {
    let mut config = of_run(&args.run)?;
    if let Some(steps) = args.steps {
        config.train.steps = steps;
        config.train.validate().map_err(Failure::input)?;
    }
    if checkpoints(&config.run)? == 0 {
        return Err(Failure::input(format!("{} has no checkpoint to resume from: begin it with `grpo train`", config.run.display())));
    }
    let ready = Ready::new(config)?;
    if let Some(steps) = args.steps {
        extend(&ready.config.run.join(COPY), steps)?;
    }
    ready.run(Resume::Newest)
}

/// Keeps the new number of steps, so that the run goes on to it however often it is stopped.
fn extend(copy: &Path, steps: u64) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", copy.display()));
    let text = std::fs::read_to_string(copy).map_err(|error| wrong(&error))?;
    let mut settings: toml::Table = text.parse().map_err(|error| wrong(&error))?;
    if let Some(toml::Value::Table(train)) = settings.get_mut("train") {
        train.insert("steps".to_owned(), i64::try_from(steps).map_err(|error| wrong(&error))?.into());
    }
    let beside = copy.with_extension("toml.new");
    std::fs::write(&beside, settings.to_string()).and_then(|()| std::fs::rename(&beside, copy)).map_err(|error| wrong(&error))
}

/// The settings that a run was begun with, and the number of steps it was last told.
pub fn of_run(run: &Path) -> Result<Config, Failure> {
    let copy = run.join(COPY);
    if !copy.is_file() {
        return Err(Failure::input(format!("{} has no {COPY}, must be the folder of a run of `grpo train`", run.display())));
    }
    let (mut config, _) = Config::load(&copy)?;
    config.move_to(run.to_owned());
    Ok(config)
}

/// That a new run could write into its folder, and would overwrite nothing.
pub fn is_free(run: &Path, text: &str) -> Result<(), Failure> {
    can_be_made(run)?;
    if checkpoints(run)? > 0 {
        let run = run.display();
        return Err(Failure::input(format!(
            "{run} holds checkpoints of a run: go on with it by `grpo resume {run}`, or name another folder"
        )));
    }
    match std::fs::read_to_string(run.join(COPY)) {
        Ok(other) if other != text => {
            Err(Failure::input(format!("{} holds a run with other settings: name another folder", run.display())))
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

fn checkpoints(run: &Path) -> Result<usize, Failure> {
    list_checkpoints(run.join("checkpoints")).map(|found| found.len()).map_err(Failure::input)
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
        let judged = written(serde_json::to_value(&config.rewards))?;
        let trainer = Trainer::new(train, LmSampler::with_tokenizer(tokenizer.clone()), rewards, source)
            .with_held_out(prompts.test)
            .with_answers(rewards::answers(&config))
            .with_setting("lora", lora)
            .with_setting("reward functions", judged)
            .with_decoder(move |tokens| tokenizer.decode_with_special(tokens).unwrap_or_default());
        Ok(Self { config, policy, trainer, checkpoint })
    }

    /// Trains to the end, or until something ends it.
    fn run(self, resume: Resume) -> Result<ExitCode, Failure> {
        let Self { config, policy, trainer, checkpoint } = self;
        let mut trainer = trainer.with_resume(resume).with_stop(stop_at_ctrl_c()?);
        let begun = Arc::new(AtomicBool::new(false));
        for observer in observers(&config, &begun)? {
            trainer = trainer.with_observer(observer);
        }
        let run = config.run.display();
        let Outcome { policy, end } = trainer.run(policy);
        match end {
            Ok(RunEnd::Interrupted) => {
                println!("stopped and saved; `grpo resume {run}` goes on");
                Ok(ExitCode::from(INTERRUPTED))
            }
            Ok(end) => {
                if end == RunEnd::AlreadyFinished {
                    let copy = config.run.join(COPY);
                    println!(
                        "nothing is left to do: all steps are done (`--steps N` adds some), or early_stop ended the run (another rule, or none, in {} lets it go on)",
                        copy.display()
                    );
                }
                let written = model::save(&config, &policy, checkpoint)?;
                println!("what was learnt is in {}", written.display());
                Ok(ExitCode::SUCCESS)
            }
            // It was refused before anything was computed: to do the same again would not help.
            Err(error) if !begun.load(Ordering::SeqCst) => Err(Failure::input(error)),
            Err(error) if checkpoints(&config.run)? > 0 => {
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
    observers.insert(0, Box::new(Voice::new(bar, config.observe.report.then(|| config.run.join("report.html")), begun.clone())));
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
        eprintln!("finishing the step and saving; once more stops at once");
        flag.stop();
    };
    ctrlc::set_handler(handler).map_err(Failure::run)?;
    Ok(stop)
}
