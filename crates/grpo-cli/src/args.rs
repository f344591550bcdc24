//! The commands.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Trains a language model with GRPO: a group of answers to each prompt is judged by your rewards, and what is above its group's average
/// becomes more likely.
///
/// Everything a run needs stands in one TOML file. Begin with an example:
///
///   grpo check docs/configs/additions.toml
///   grpo train docs/configs/additions.toml
///
/// Ctrl-C finishes the step, saves and ends; `grpo resume RUN` goes on from there, and from the last checkpoint after a crash.
#[derive(Parser, Debug)]
#[command(name = "grpo", version, verbatim_doc_comment, after_help = EXIT_CODES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Say more on stderr.
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

/// Documented here and in docs/observing.md; `failure.rs` gives them.
const EXIT_CODES: &str = "Exit codes:
    0  done (also: nothing was left to do)
    1  something failed while it ran; what was learnt so far is saved
    2  the command line, the configuration, the model or the data is not right; nothing was computed
    3  stopped by Ctrl-C after saving: `grpo resume RUN` goes on
  130  stopped at once by a second Ctrl-C";

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Look at a configuration: reads the model and the data, and says what would be trained. Computes nothing.
    Check(CheckArgs),
    /// Begin a run.
    Train(TrainArgs),
    /// Go on with a run from its newest checkpoint that is whole.
    Resume(ResumeArgs),
    /// Answer held-out prompts: with a run's newest checkpoint, or with the model of a configuration as it is. Works while the run goes on.
    Eval(EvalArgs),
    /// Write a run's report, one HTML file. Works while the run goes on, and needs neither model nor data.
    Report(ReportArgs),
}

/// Of `grpo check`.
#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    /// The file of settings.
    pub config: PathBuf,
}

/// Of `grpo train`.
#[derive(clap::Args, Debug)]
pub struct TrainArgs {
    /// The file of settings. It is copied into the run's folder.
    pub config: PathBuf,
    /// Another folder than the one that the configuration names.
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
}

/// Of `grpo resume`.
#[derive(clap::Args, Debug)]
pub struct ResumeArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// Train to this many steps in all, in place of the configuration's number.
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
}

/// Of `grpo eval`.
#[derive(clap::Args, Debug)]
pub struct EvalArgs {
    /// A run's folder, or a file of settings.
    pub of: PathBuf,
    /// At most so many of the held-out prompts, from the first on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Sampled answers a prompt besides the greedy one, for pass@k and the majority vote.
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// The k of pass@k, each at most the number of samples, which is the largest of them unless told otherwise.
    #[arg(long, value_name = "K", value_delimiter = ',')]
    pub k: Vec<usize>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Of `grpo report`.
#[derive(clap::Args, Debug)]
pub struct ReportArgs {
    /// The run's folder: it holds `metrics.jsonl`.
    pub run: PathBuf,
    /// Where the report goes. [default: report.html in the run's folder]
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Write `completions.parquet` in the run's folder as well.
    #[arg(long)]
    pub parquet: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_commands_are_consistent() {
        super::Args::command().debug_assert();
    }
}
