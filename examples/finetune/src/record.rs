//! What is printed, written and measured.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use grpo_core::{BoxError, Group, Metrics, RewardTable};
use grpo_lm::export::{WeightType, write_hf_folder, write_peft};
use grpo_lm::{Checkpoint, Decoder};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use crate::args::Args;
use crate::task::Task;

/// Wall and CPU time since a start.
pub struct Clock {
    wall: Instant,
    cpu: Option<f64>,
}

impl Clock {
    /// Starts.
    pub fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_seconds() }
    }
}

/// The record of a run.
pub struct Record<'a> {
    args: &'a Args,
    bar: ProgressBar,
    metrics: Lines,
    completions: Lines,
    wall: Duration,
    cpu: Option<f64>,
    rewards: Vec<f64>,
    first_kl: Option<f64>,
    before: Option<f64>,
    after: Option<f64>,
}

impl<'a> Record<'a> {
    /// Opens the files: nothing is trained that could not be written.
    pub fn new(args: &'a Args) -> Result<Self, BoxError> {
        let folder = &args.out;
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} steps, {eta} left")?;
        Ok(Self {
            args,
            bar: ProgressBar::new(args.steps).with_style(style),
            metrics: Lines::create(folder.join("metrics.jsonl"))?,
            completions: Lines::create(folder.join("completions.jsonl"))?,
            wall: Duration::ZERO,
            cpu: Some(0.0),
            rewards: Vec::new(),
            first_kl: None,
            before: None,
            after: None,
        })
    }

    /// Accuracy at the start.
    pub fn before(&mut self, accuracy: Option<f64>) {
        self.before = accuracy;
        if let Some(accuracy) = accuracy {
            self.line(&format!("before    accuracy {accuracy:.3}"));
        }
    }

    /// Accuracy at the end.
    pub fn after(&mut self, accuracy: Option<f64>) {
        self.after = accuracy;
        self.bar.finish_and_clear();
        if let Some(accuracy) = accuracy {
            self.line(&format!("after     accuracy {accuracy:.3}"));
        }
    }

    /// One step: a printed line, a line of metrics.jsonl with everything, and one group in completions.jsonl.
    pub fn step(
        &mut self,
        step: u64,
        metrics: &Metrics,
        groups: &[Group<Task>],
        rewards: &RewardTable,
        clock: &Clock,
    ) -> Result<(), BoxError> {
        let wall = clock.wall.elapsed();
        let cpu = cpu_seconds().zip(clock.cpu).map(|(now, then)| now - then);
        self.wall += wall;
        self.cpu = self.cpu.zip(cpu).map(|(sum, more)| sum + more);
        self.rewards.extend(metrics.get("reward"));
        if step == 0 {
            self.first_kl = metrics.get("kl");
        }

        let mut entry: Map<String, Value> = metrics.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        for (name, value) in [
            ("step", json!(step)),
            ("seconds", json!(wall.as_secs_f64())),
            ("cpu_seconds", json!(cpu)),
            ("rss_mb", json!(memory_mb("VmRSS"))),
        ] {
            entry.insert(name.to_owned(), value);
        }
        self.metrics.write(&Value::Object(entry))?;
        if let Some(group) = groups.first() {
            let texts: Vec<&str> = group.completions.iter().map(|c| c.text.as_str()).collect();
            let totals = &rewards.totals()[..texts.len()];
            let task = &group.prompt.task;
            let sample = json!({ "step": step, "question": task.question, "answer": task.answer, "completions": texts, "rewards": totals });
            self.completions.write(&sample)?;
        }

        let number = |name: &str| metrics.get(name).unwrap_or(f64::NAN);
        let kl = metrics.get("kl").map_or(String::new(), |kl| format!("  kl {kl:.5}"));
        self.line(&format!(
            "step {step:4}  reward {:.3}{kl}  entropy {:.3}  length {:.1} ({} to {})  grad norm {:.2}  {:.1} s",
            number("reward"),
            number("entropy"),
            number("completions/mean_length"),
            number("completions/min_length"),
            number("completions/max_length"),
            number("grad_norm"),
            wall.as_secs_f64(),
        ));
        if metrics.get("skipped") == Some(1.0) {
            self.line("           skipped: a gradient is not finite");
        }
        self.bar.inc(1);
        Ok(())
    }

    /// Writes what was learnt: an adapter in PEFT's form, or the whole model as a Hugging Face folder.
    pub fn save(&self, policy: &Decoder, mut checkpoint: Checkpoint) -> Result<(), BoxError> {
        if policy.lora_config().is_some() {
            return Ok(write_peft(self.args.out.join("adapter"), &policy.lora_adapter(&self.args.model)?)?);
        }
        checkpoint.tensors = policy.to_host_tensors()?;
        Ok(write_hf_folder(self.args.out.join("model"), &checkpoint, WeightType::F32)?)
    }

    /// The last line.
    pub fn finish(&self) {
        let tens: Vec<f64> = self.rewards.chunks(10).map(|some| some.iter().sum::<f64>() / some.len() as f64).collect();
        let seconds = self.wall.as_secs_f64();
        if self.args.json {
            let summary = json!({
                "accuracy_before": self.before,
                "accuracy_after": self.after,
                "seconds": seconds,
                "cpu_seconds": self.cpu,
                "peak_rss_mb": memory_mb("VmHWM"),
                "reward_per_10_steps": tens,
                "kl_at_step_0": self.first_kl,
                "steps": self.args.steps,
                "seed": self.args.seed,
                "model": self.args.model,
            });
            println!("{summary}");
        } else {
            let list: Vec<String> = tens.iter().map(|r| format!("{r:.3}")).collect();
            println!(
                "{seconds:.0} s of training; mean reward of each ten steps: {}; written to {}",
                list.join(", "),
                self.args.out.display()
            );
        }
    }

    /// Above the progress bar, and also where there is none.
    fn line(&self, text: &str) {
        self.bar.suspend(|| println!("{text}"));
    }
}

/// A file of JSON lines.
struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    fn create(path: PathBuf) -> Result<Self, BoxError> {
        let file = File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { path, file })
    }

    /// A whole line at once: whoever reads along, or kills the run, finds whole lines.
    fn write(&mut self, value: &Value) -> Result<(), BoxError> {
        Ok(self.file.write_all(format!("{value}\n").as_bytes()).map_err(|e| format!("{}: {e}", self.path.display()))?)
    }
}

/// CPU time of the process with all its threads, where the system tells (Linux, which counts in 1/100 s).
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in brackets and may hold anything; the 12th and 13th field after it are user and system time.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / 100.0)
}

/// Resident memory now (`VmRSS`) or at its highest (`VmHWM`) in 10⁶ bytes, where the system tells.
fn memory_mb(field: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let rest = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0 / 1e6)
}
