//! What a run leaves behind: a line per step, `metrics.jsonl`, `curves.svg`, `answers.jsonl`, `model`, a progress bar.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use grpo_core::{BoxError, Group, Metrics};
use grpo_lm::checkpoint::GenerationDefaults;
use grpo_lm::export::{WeightType, write_hf_folder};
use grpo_lm::{Checkpoint, Decoder};
use indicatif::{ProgressBar, ProgressStyle};
use plotters::prelude::*;
use serde_json::{Map, Value, json};

use crate::task::{Sum, decode};

/// The curves: title and the metric behind it.
const CURVES: [(&str, &str); 3] = [("reward", "reward"), ("KL to the starting policy (k3)", "kl"), ("entropy", "entropy")];

/// The record of a run.
pub struct Record {
    folder: PathBuf,
    lines: File,
    bar: ProgressBar,
    curves: [Vec<(f64, f64)>; CURVES.len()],
}

impl Record {
    /// Opens the files: nothing is trained that could not be written.
    pub fn new(folder: &Path, steps: u64) -> Result<Self, BoxError> {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let file = folder.join("metrics.jsonl");
        let lines = File::create(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let bar = ProgressBar::new(steps).with_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} steps, {eta} left")?);
        Ok(Self { folder: folder.to_owned(), lines, bar, curves: Default::default() })
    }

    /// A step is done.
    pub fn step(&mut self, step: u64, metrics: &Metrics) -> Result<(), BoxError> {
        let mut line: Map<String, Value> = metrics.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        line.insert("step".to_owned(), step.into());
        writeln!(self.lines, "{}", Value::Object(line))?;
        for ((_, name), curve) in CURVES.iter().zip(&mut self.curves) {
            curve.extend(metrics.get(name).map(|value| (step as f64, value)));
        }
        let shown =
            ["reward", "rewards/exact/mean", "kl", "entropy", "grad_norm"].iter().filter_map(|&name| Some((name, metrics.get(name)?)));
        let shown: String = shown.map(|(name, value)| format!("  {name} {value:.3}")).collect();
        self.bar.suspend(|| println!("step {step:3}{shown}"));
        self.bar.inc(1);
        Ok(())
    }

    /// The run is over: writes the weights and the greedy answers, draws the curves. Gives a fingerprint of the weights: equal only if they are, in
    /// every bit.
    pub fn finish(self, policy: &Decoder, answers: &[Group<Sum>]) -> Result<String, BoxError> {
        self.bar.finish_and_clear();
        let mut lines = String::new();
        for group in answers {
            let answer = &group.completions[0];
            let line =
                json!({ "question": group.prompt.task.question, "answer": decode(&answer.tokens), "log_probs": answer.sampler_log_probs });
            lines.push_str(&format!("{line}\n"));
        }
        let file = self.folder.join("answers.jsonl");
        std::fs::write(&file, lines).map_err(|e| format!("{}: {e}", file.display()))?;
        let checkpoint = Checkpoint {
            tensors: policy.to_host_tensors()?,
            config: policy.config().clone(),
            tokenizer: None,
            generation: GenerationDefaults::default(),
            chat_template: None,
        };
        write_hf_folder(self.folder.join("model"), &checkpoint, WeightType::F32)?;
        // FNV-1a.
        let bytes = checkpoint.tensors.values().flat_map(|tensor| &tensor.data).flat_map(|weight| weight.to_bits().to_le_bytes());
        let fingerprint = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        self.draw()?;
        Ok(format!("{fingerprint:016x}"))
    }

    fn draw(self) -> Result<(), BoxError> {
        let file = self.folder.join("curves.svg");
        let root = SVGBackend::new(&file, (800, 720)).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, ((title, _), curve)) in root.split_evenly((CURVES.len(), 1)).iter().zip(CURVES.iter().zip(self.curves)) {
            let steps = curve.last().map_or(1.0, |last| last.0.max(1.0));
            let top = curve.iter().map(|point| point.1).fold(0.1, f64::max);
            let mut chart = ChartBuilder::on(area)
                .caption(*title, ("sans-serif", 16))
                .margin(8)
                .x_label_area_size(24)
                .y_label_area_size(40)
                .build_cartesian_2d(0.0..steps, 0.0..top * 1.05)?;
            chart.configure_mesh().light_line_style(TRANSPARENT).x_labels(8).y_labels(4).draw()?;
            chart.draw_series(LineSeries::new(curve, BLUE.stroke_width(2)))?;
        }
        root.present()?;
        drop(root);
        Ok(())
    }
}
