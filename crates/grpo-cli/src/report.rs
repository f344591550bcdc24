//! `grpo report`.

use std::process::ExitCode;

use grpo_train::observe::health::{Level, examine};
use grpo_train::observe::run::RunFiles;
use grpo_train::observe::{write_parquet, write_report};

use crate::args::ReportArgs;
use crate::failure::Failure;

/// Writes a run's report, and says its verdict.
pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let to = args.to.clone().unwrap_or_else(|| args.run.join("report.html"));
    let files = RunFiles::read(&args.run).map_err(Failure::input)?;
    write_report(&args.run, &to).map_err(Failure::run)?;
    let of = files.steps.map_or(String::new(), |steps| format!(" of {steps}"));
    say!("{}: {}{of} steps", to.display(), files.metrics.len());
    for finding in examine(&files) {
        let word = match finding.level {
            Level::Alarm => "ALARM",
            Level::Watch => "look",
            Level::Good => "good",
            _ => "unknown",
        };
        say!("{word:>8}  {}: {}", finding.what, finding.verdict);
    }
    if args.parquet {
        say!("{}", write_parquet(&args.run).map_err(Failure::input)?.display());
    }
    Ok(ExitCode::SUCCESS)
}
