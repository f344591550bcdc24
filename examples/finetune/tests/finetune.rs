//! Runs the example as a program, on tiny models.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use burn::tensor::Device;
use grpo_core::{Padded, to_host};
use grpo_lm::export::{PeftAdapter, read_peft};
use grpo_lm::{Checkpoint, Decoder};
use serde_json::Value;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// A folder with questions whose answer is one letter that the model says now and then, and room for what a run writes.
struct Scene {
    folder: tempfile::TempDir,
}

/// A line of a file in GSM8K's form.
fn row(question: &str, answer: &str) -> String {
    serde_json::json!({ "question": question, "answer": answer }).to_string()
}

impl Scene {
    fn new(answer: &str) -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap() };
        let rows: Vec<String> = (10..42).map(|n| row(&format!("{n} + {n} ="), &format!("#### {answer}"))).collect();
        std::fs::write(scene.path("rows.jsonl"), rows.join("\n") + "\n").unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, model: &str, more: &[&str]) -> Output {
        let rows = self.path("rows.jsonl");
        Command::new(env!("CARGO_BIN_EXE_finetune"))
            .arg("--model")
            .arg(testdata("tiny-models").join(model))
            .arg("--train")
            .arg(&rows)
            .arg("--test")
            .arg(&rows)
            .arg("--out")
            .arg(self.path("out"))
            .args(["--answer", "whole", "--max-tokens", "1", "--eval", "32", "--json"])
            .args(more)
            .output()
            .unwrap()
    }

    /// The lines of a JSONL file that a run wrote.
    fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("out").join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn adapter(&self) -> PeftAdapter {
        read_peft(self.path("out/adapter")).unwrap()
    }
}

/// The JSON object in the last line.
fn summary(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_str(String::from_utf8_lossy(&output.stdout).lines().last().unwrap()).unwrap()
}

/// What a failed run said.
fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn base(name: &str) -> Decoder {
    Decoder::from_checkpoint(&Checkpoint::open(testdata("tiny-models").join(name)).unwrap(), &Device::flex()).unwrap()
}

fn logits(decoder: &Decoder) -> Vec<f64> {
    to_host(decoder.logits(&Padded::new(&[[5, 9, 17, 3]]).unwrap()).unwrap(), "logits").unwrap()
}

#[test]
fn a_tiny_model_learns_and_its_adapter_loads_back() {
    let scene = Scene::new("1");
    let result = summary(&scene.run("qwen2", &["--steps", "25", "--lr", "0.02"]));
    assert!(result["accuracy_after"].as_f64().unwrap() >= 0.9, "{result}");
    let tens = result["reward_per_10_steps"].as_array().unwrap();
    assert_eq!(tens.len(), 3);
    assert!(tens[2].as_f64().unwrap() > tens[0].as_f64().unwrap() + 0.2, "{result}");

    let metrics = scene.lines("metrics.jsonl");
    assert_eq!(metrics.len(), 25);
    for (step, line) in metrics.iter().enumerate() {
        assert_eq!(line["step"], step);
        for name in ["reward", "entropy", "grad_norm", "completions/mean_length", "seconds"] {
            assert!(line[name].is_f64(), "{name} in {line}");
        }
    }
    let said = scene.lines("completions.jsonl");
    assert_eq!(said.len(), 25);
    assert_eq!(said[24]["completions"].as_array().unwrap().len(), 8);

    let adapter = scene.adapter();
    assert_eq!((adapter.rank, adapter.alpha, adapter.factors.len()), (16, 32.0, 14));
    let plain = base("qwen2");
    let adapted = plain.clone().load_lora(&adapter).unwrap();
    let moved = logits(&adapted).iter().zip(logits(&plain)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(moved > 0.1, "{moved}");
    assert!(adapted.lora_adapter(adapter.base_model.clone()).unwrap() == adapter);
}

#[test]
fn full_fine_tuning_writes_a_model_that_loads_back() {
    let scene = Scene::new("6");
    let result = summary(&scene.run("llama-scaled-rope", &["--full", "--steps", "3", "--lr", "1e-3", "--prompts", "4"]));
    assert!(result["accuracy_before"].is_f64(), "{result}");
    let folder = scene.path("out/model");
    let trained = Checkpoint::open(&folder).unwrap();
    let start = Checkpoint::open(testdata("tiny-models/llama-scaled-rope")).unwrap();
    assert_eq!(trained.config, start.config);
    assert_eq!(trained.generation, start.generation);
    // Not assert_ne: it would print the weights.
    assert!(trained.tensors != start.tensors);
    // What was written is a model to start from again.
    let again = Command::new(env!("CARGO_BIN_EXE_finetune"))
        .arg("--model")
        .arg(&folder)
        .args(["--train", "rows.jsonl", "--test", "rows.jsonl", "--out", "again", "--steps", "0", "--json", "--eval", "32"])
        .args(["--answer", "whole", "--max-tokens", "1"])
        .current_dir(scene.folder.path())
        .output()
        .unwrap();
    assert_eq!(summary(&again)["accuracy_before"], result["accuracy_after"]);
}

#[test]
fn the_kl_to_the_start_is_exactly_0_at_step_0_and_grows() {
    let scene = Scene::new(")");
    for more in [&["--lora-rank", "4"][..], &["--full"]] {
        // Micro-batches of one group each.
        let flags = ["--steps", "4", "--beta", "0.04", "--lr", "0.01", "--micro-tokens", "1"];
        let result = summary(&scene.run("qwen3", &[&flags[..], more].concat()));
        assert_eq!(result["kl_at_step_0"], 0.0, "{result}");
        let last = &scene.lines("metrics.jsonl")[3];
        assert!(last["kl"].as_f64().unwrap() > 0.0, "{last}");
    }
    // Without β nothing is measured, and nothing is made up.
    assert_eq!(summary(&scene.run("qwen3", &["--steps", "1"]))["kl_at_step_0"], Value::Null);
}

#[test]
fn a_seed_gives_the_same_run_again_however_it_is_cut() {
    let scene = Scene::new("1");
    let adapter = |more: &[&str]| {
        summary(&scene.run("qwen2", &[&["--steps", "3", "--lr", "0.01", "--eval", "0"], more].concat()));
        scene.adapter()
    };
    let first = adapter(&["--seed", "3"]);
    assert!(adapter(&["--seed", "3"]) == first);
    assert!(adapter(&["--seed", "4"]) != first);
    let cut = adapter(&["--seed", "3", "--micro-tokens", "16"]);
    for (name, factors) in &first.factors {
        for (a, b) in factors.b.data.iter().zip(&cut.factors[name].b.data) {
            // Adam divides by the gradient's size: rounding of a gradient near 0 is seen in the step it takes.
            assert!((a - b).abs() < 1e-3, "{name}: {a} and {b}");
        }
    }
}

#[test]
fn resident_memory_is_flat_over_the_last_half() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let scene = Scene::new("6");
    summary(&scene.run(
        "llama-scaled-rope",
        &["--steps", "80", "--max-tokens", "16", "--beta", "0.04", "--lr", "1e-4", "--eval", "0", "--answer", "last-number"],
    ));
    let memory: Vec<f64> = scene.lines("metrics.jsonl").iter().map(|line| line["rss_mb"].as_f64().unwrap()).collect();
    let highest = |steps: &[f64]| steps.iter().copied().fold(0.0, f64::max);
    let (third, last) = (highest(&memory[40..60]), highest(&memory[60..]));
    // One step's graph here is about 10 MB: kept, it would be 200 MB more. The allocator's own pages come and go by a few.
    assert!(last < third + 20.0, "from {third} MB to {last} MB");
}

#[test]
fn chat_prompts_with_a_form_are_rendered_and_rewarded() {
    let scene = Scene::new(")");
    let flags = ["--prompt", "chat", "--system", "be brief", "--answer", "tag", "--format", "think-answer", "--steps", "1", "--eval", "4"];
    // A number is asked for, and the gold answers are letters: that reward does not apply, the form's does.
    summary(&scene.run("qwen3", &flags));
    let line = &scene.lines("metrics.jsonl")[0];
    assert_eq!(line["rewards/format/mean"], 0.0, "{line}");
    assert_eq!(line.get("rewards/numeric_answer/mean"), None, "{line}");
    let none = complaint(&scene.run("llama-scaled-rope", &flags));
    assert!(none.contains("no chat template") && none.contains("--prompt raw"), "{none}");
}

#[test]
fn a_broken_line_is_named_before_anything_is_trained() {
    let good = row("1 + 1 =", "#### 2");
    for (broken, problem) in [
        (good[..good.len() - 2].to_owned(), "EOF"),
        (r#"{"question": "1 + 1 ="}"#.to_owned(), "missing field `answer`"),
        (r#"{"question": 2, "answer": "2"}"#.to_owned(), "invalid type"),
        (row("1 + 1 =", "2"), "must end in `#### N`"),
        (row("1 + 1 =", "so ####  "), "must end in `#### N`"),
    ] {
        let scene = Scene::new("1");
        std::fs::write(scene.path("rows.jsonl"), format!("{good}\n\n{broken}\n{good}\n")).unwrap();
        let said = complaint(&scene.run("qwen2", &["--steps", "1"]));
        assert!(said.contains("rows.jsonl, line 3: ") && said.contains(problem), "{said}");
        assert!(!scene.path("out").exists());
    }
}

#[test]
fn a_prompt_longer_than_the_context_is_named_with_its_line() {
    let scene = Scene::new("1");
    let long = "1 + ".repeat(100) + "1 =";
    std::fs::write(scene.path("rows.jsonl"), [row("1 =", "#### 1"), row(&long, "#### 101")].join("\n")).unwrap();
    let said = complaint(&scene.run("qwen2", &["--steps", "1"]));
    assert!(said.contains("line 2: ") && said.contains("context of 128"), "{said}");
}

#[test]
fn files_that_are_not_there_are_named() {
    let scene = Scene::new("1");
    let said = complaint(&scene.run("no-such-model", &[]));
    assert!(said.contains("no-such-model"), "{said}");
    std::fs::remove_file(scene.path("rows.jsonl")).unwrap();
    let said = complaint(&scene.run("qwen2", &[]));
    assert!(said.contains("rows.jsonl"), "{said}");
    std::fs::write(scene.path("rows.jsonl"), "\n").unwrap();
    let said = complaint(&scene.run("qwen2", &[]));
    assert!(said.contains("no question"), "{said}");
}

#[test]
fn flags_with_values_that_are_none_are_refused_with_what_is_allowed() {
    let scene = Scene::new("1");
    for (flags, allowed) in [
        (["--device", "abacus"], "flex"),
        (["--prompt", "poem"], "raw, chat"),
        (["--answer", "guess"], "last-number"),
        (["--group", "1"], "at least 2"),
        (["--prompts", "0"], "at least 1"),
        (["--micro-tokens", "0"], "at least 1"),
        (["--lr", "nan"], "above 0"),
        (["--beta", "-0.1"], "at least 0"),
        (["--steps", "many"], "invalid"),
        (["--clip", "2"], "at most 1"),
    ] {
        // In one piece: a value may begin with a minus.
        let said = complaint(&scene.run("qwen2", &[&flags.join("=")]));
        assert!(said.contains(allowed), "{flags:?}: {said}");
        assert!(!scene.path("out").exists());
    }
    let said = complaint(&scene.run("qwen2", &["--full", "--lora-rank", "4"]));
    assert!(said.contains("cannot be used with"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_learnt_is_written_though_a_step_fails() {
    let scene = Scene::new("1");
    std::fs::create_dir(scene.path("out")).unwrap();
    // A disk that is full.
    std::os::unix::fs::symlink("/dev/full", scene.path("out/metrics.jsonl")).unwrap();
    let said = complaint(&scene.run("qwen2", &["--steps", "3", "--lr", "0.02"]));
    assert!(said.contains("metrics.jsonl") && said.contains("No space left"), "{said}");
    // One step was taken: the factors B are no longer 0.
    let adapter = scene.adapter();
    assert!(adapter.factors.values().any(|f| f.b.data.iter().any(|b| *b != 0.0)));
    base("qwen2").load_lora(&adapter).unwrap();
}
