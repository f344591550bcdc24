//! `grpo`: train a language model with GRPO from a file of settings, and see what comes of it.
//!
//! ```text
//! grpo check docs/configs/additions.toml    what would be trained, and on what: nothing is computed
//! grpo train docs/configs/additions.toml    trains, and writes into the run's folder
//! grpo resume runs/additions                    goes on after a crash or Ctrl-C, as if nothing had happened
//! grpo report runs/additions                    draws runs/additions/report.html, also while the run goes on
//! grpo eval runs/additions                      answers held-out prompts with the newest checkpoint
//! ```

#[macro_use]
mod say;

mod args;
mod check;
mod config;
mod data;
mod evaluate;
mod failure;
mod model;
mod report;
mod rewards;
mod train;
mod voice;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};

fn main() -> ExitCode {
    // The sandbox of code rewards starts this very program, before anything else runs.
    #[cfg(target_os = "linux")]
    if let Some(code) = grpo_rewards::code::launch_if_asked() {
        return code;
    }
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(if args.verbose { tracing::Level::INFO } else { tracing::Level::WARN })
        .with_target(false)
        .without_time()
        .init();
    let done = match args.command {
        Command::Check(args) => check::run(&args),
        Command::Train(args) => train::train(&args),
        Command::Resume(args) => train::resume(&args),
        Command::Eval(args) => evaluate::run(&args),
        Command::Report(args) => report::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            complain!("error: {failure}");
            failure.code()
        }
    }
}
