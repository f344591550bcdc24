//! What is printed while a run goes on.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grpo_core::Metrics;
use grpo_train::Result;
use grpo_train::observe::{Observer, Progress, RunEnd, RunInfo, StepRecord};
use indicatif::ProgressBar;

/// Where there is no terminal for a bar, about so many lines tell of the steps.
const LINES: u64 = 20;

/// A bar where there is a terminal, and lines of what happens: evaluations and the end, and some of the steps where there is none.
pub struct Voice {
    progress: Option<Progress>,
    steps: u64,
    report: Option<PathBuf>,
    begun: Arc<AtomicBool>,
}

impl Voice {
    /// `bar`: whether there is to be one at all. `begun` is set once the run has begun.
    pub fn new(bar: bool, report: Option<PathBuf>, begun: Arc<AtomicBool>) -> Self {
        let progress = (bar && std::io::stderr().is_terminal()).then(Progress::new);
        Self { progress, steps: 0, report, begun }
    }

    /// Above the bar.
    fn say(&self, line: &str) {
        self.progress.as_ref().map_or_else(ProgressBar::hidden, Progress::bar).suspend(|| say!("{line}"));
    }

    fn bar(&mut self, mut tell: impl FnMut(&mut Progress) -> Result<()>) -> Result<()> {
        self.progress.as_mut().map_or(Ok(()), &mut tell)
    }
}

impl Observer for Voice {
    fn name(&self) -> &str {
        "terminal"
    }

    fn on_start(&mut self, run: &RunInfo) -> Result<()> {
        // The last to be told of the start: all others could write.
        self.begun.store(true, Ordering::SeqCst);
        self.steps = run.steps;
        self.bar(|bar| bar.on_start(run))
    }

    fn on_resume(&mut self, step: u64) -> Result<()> {
        self.say(&format!("goes on at step {step} of {}", self.steps));
        Ok(())
    }

    fn on_step(&mut self, record: &StepRecord) -> Result<()> {
        let done = record.step + 1;
        if self.progress.is_none() && done.is_multiple_of((self.steps / LINES).max(1)) {
            let shown = ["reward", "kl", "entropy", "completions/mean_length", "grad_norm"];
            let shown = shown.iter().filter_map(|name| Some(format!("  {name} {:.4}", record.metrics.get(name)?)));
            self.say(&format!("step {done} of {}{}", self.steps, shown.collect::<String>()));
        }
        self.bar(|bar| bar.on_step(record))
    }

    fn on_evaluation(&mut self, step: u64, metrics: &Metrics) -> Result<()> {
        let shown = metrics.iter().filter(|(name, _)| !name.ends_with("/low") && !name.ends_with("/high"));
        let shown = shown.map(|(name, value)| format!("  {} {value:.3}", name.trim_start_matches("eval/")));
        self.say(&format!("held out, after {step} steps:{}", shown.collect::<String>()));
        self.bar(|bar| bar.on_evaluation(step, metrics))
    }

    fn on_end(&mut self, step: u64, end: RunEnd) -> Result<()> {
        self.bar(|bar| bar.on_end(step, end))?;
        let how = match end {
            RunEnd::Finished => "finished",
            RunEnd::EarlyStop => "ended by the rule of early_stop",
            _ => "stopped",
        };
        let report = self.report.as_ref().map_or(String::new(), |report| format!("; report: {}", report.display()));
        say!("{how} after {step} steps{report}");
        Ok(())
    }
}
