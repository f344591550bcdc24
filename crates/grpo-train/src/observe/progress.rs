//! How far a run is, on a terminal.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use grpo_core::Metrics;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Observer, RunEnd, RunInfo, StepRecord};
use crate::error::{Error, Result};

/// Speed and time left are those of so many steps.
const WINDOW: usize = 20;

/// A bar on stderr: steps, reward, tokens a second, time left. Nothing at all where stderr is no terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    pace: Pace,
    evaluated: Option<f64>,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// A bar that appears when the run starts.
    pub fn new() -> Self {
        Self { bar: ProgressBar::hidden(), pace: Pace::default(), evaluated: None }
    }

    /// The bar, for whoever prints: `progress.bar().suspend(|| println!(…))`.
    pub fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }
}

impl Observer for Progress {
    fn name(&self) -> &str {
        "progress"
    }

    fn on_start(&mut self, run: &RunInfo) -> Result<()> {
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} steps{msg}");
        let style = style.map_err(|error| Error::Observer { name: "progress".to_owned(), source: error.into() })?;
        // It hides itself where there is no terminal.
        self.bar =
            ProgressBar::with_draw_target(Some(run.steps), ProgressDrawTarget::stderr()).with_style(style).with_position(run.first_step);
        self.bar.tick();
        self.pace = Pace { left: run.steps.saturating_sub(run.first_step), ..Pace::default() };
        self.pace.start(Instant::now());
        Ok(())
    }

    fn on_step(&mut self, record: &StepRecord) -> Result<()> {
        self.pace.step(Instant::now(), record.tokens);
        let reward = record.metrics.get("reward").map_or(String::new(), |reward| format!(", reward {reward:.3}"));
        let evaluated = self.evaluated.map_or(String::new(), |value| format!(", held out {value:.3}"));
        self.bar.set_message(format!("{reward}{evaluated}{}", self.pace));
        self.bar.inc(1);
        Ok(())
    }

    fn on_evaluation(&mut self, _step: u64, metrics: &Metrics) -> Result<()> {
        self.evaluated = ["eval/greedy/right", "eval/greedy/reward", "eval/reward"].iter().find_map(|name| metrics.get(name));
        Ok(())
    }

    fn on_end(&mut self, _step: u64, _end: RunEnd) -> Result<()> {
        self.bar.finish_and_clear();
        Ok(())
    }
}

/// The speed of the last steps, by the clock: whatever happens between them counts.
#[derive(Debug, Default)]
struct Pace {
    /// When each of the last steps was done, and the tokens it trained on.
    done: VecDeque<(Instant, u64)>,
    left: u64,
}

impl Pace {
    fn start(&mut self, now: Instant) {
        self.done.push_back((now, 0));
    }

    fn step(&mut self, now: Instant, tokens: u64) {
        self.done.push_back((now, tokens));
        if self.done.len() > WINDOW + 1 {
            self.done.pop_front();
        }
        self.left = self.left.saturating_sub(1);
    }

    /// Tokens a second and the time left.
    fn measured(&self) -> Option<(f64, Duration)> {
        let ((first, _), (last, _)) = (self.done.front()?, self.done.back()?);
        let (seconds, steps) = (last.duration_since(*first).as_secs_f64(), self.done.len() - 1);
        let tokens: u64 = self.done.iter().skip(1).map(|(_, tokens)| tokens).sum();
        let left = seconds / steps as f64 * self.left as f64;
        (steps > 0 && seconds > 0.0).then(|| (tokens as f64 / seconds, Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)))
    }
}

impl std::fmt::Display for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.measured() {
            Some((speed, left)) if self.left > 0 => write!(f, ", {speed:.0} tokens/s, {} left", HumanDuration(left)),
            Some((speed, _)) => write!(f, ", {speed:.0} tokens/s"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_time_left_are_those_of_the_last_steps_only() {
        let start = Instant::now();
        let mut pace = Pace { left: 100, ..Pace::default() };
        pace.start(start);
        // Ten slow steps, then twenty of half a second with 60 tokens each.
        let mut at = start;
        for step in 0..30 {
            at += Duration::from_millis(if step < 10 { 60_000 } else { 500 });
            pace.step(at, 60);
        }
        let (speed, left) = pace.measured().unwrap();
        assert!((speed - 120.0).abs() < 1e-9, "{speed}");
        assert_eq!(left, Duration::from_secs(35)); // 70 steps of half a second
        assert_eq!(pace.to_string(), ", 120 tokens/s, 35 seconds left");
    }

    #[test]
    fn nothing_is_said_before_the_first_step_and_no_time_is_left_after_the_last() {
        let mut pace = Pace { left: 1, ..Pace::default() };
        pace.start(Instant::now());
        assert_eq!(pace.to_string(), "");
        pace.step(Instant::now() + Duration::from_secs(2), 10);
        assert_eq!(pace.to_string(), ", 5 tokens/s");
    }
}
