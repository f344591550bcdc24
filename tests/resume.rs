//! A run of a language model that was interrupted and resumed is the unbroken one in every bit, on every backend that computes the same twice:
//! weights, moments, metrics, sampled tokens.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../crates/grpo-train/tests/it/files.rs"]
mod files;

use std::path::Path;

use burn::tensor::Device;
use grpo_core::{Completion, GrpoConfig, KlPenalty, Prompt, Rewards, SamplingParams, Schedule, TokenId, from_fn};
use grpo_lm::config::ModelConfig;
use grpo_lm::{Decoder, LmSampler, LoraConfig};
use grpo_train::observe::{CompletionsLog, MetricsLog, RunEnd};
use grpo_train::{CheckpointConfig, Drawn, Resume, TrainConfig, Trainer};
use serde_json::Value;

const STEPS: u64 = 6;

/// Trains up to a step, each rollout for two steps, and leaves everything in a folder.
fn train(device: &Device, lora: bool, folder: &Path, resume: Resume, steps: u64) {
    // A resumed run takes its weights from the checkpoint, so it may begin with others. With factors, what they are beside must be the same.
    let seed = if lora || resume == Resume::Fresh { 1 } else { 2 };
    let policy = Decoder::random(&ModelConfig { vocab_size: 37, ..ModelConfig::default() }, seed, &device.clone().autodiff()).unwrap();
    let policy = if lora { policy.with_lora(&LoraConfig { rank: 4, ..LoraConfig::default() }).unwrap() } else { policy };
    let config = TrainConfig {
        steps,
        prompts: 4,
        group_size: 4,
        sampling: SamplingParams { max_tokens: 6, end_tokens: vec![0], ..SamplingParams::default() },
        grpo: GrpoConfig { kl: Some(KlPenalty::plain_k3(0.1)), updates_per_rollout: 2, ..GrpoConfig::default() },
        learning_rate: Schedule::Constant { peak: 1e-2, warmup_steps: 0 },
        checkpoints: Some(CheckpointConfig { every: 1, keep_last: 9, ..CheckpointConfig::new(folder.join("checkpoints")) }),
        ..TrainConfig::default()
    };
    let small = from_fn("small", |_: &(), completion: &Completion| {
        let small = completion.tokens.iter().filter(|&&token| token < 12).count();
        Ok((small as f64 / completion.tokens.len() as f64).into())
    });
    let prompts = Drawn::new(|draw, count| (0..count as u64).map(|i| Prompt::new(vec![((draw * 5 + i) % 37) as TokenId, 3], ())).collect());
    let mut trainer = Trainer::new(config, LmSampler::new(), Rewards::new().with(1.0, small), prompts)
        .with_observer(MetricsLog::new(folder).unwrap())
        .with_observer(CompletionsLog::new(folder).unwrap())
        .with_resume(resume);
    assert_eq!(trainer.run(policy).end.unwrap(), RunEnd::Finished);
}

/// Every line of a log but its times.
fn lines(folder: &Path, file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let timed = |name: &str| name == "step_time" || name.starts_with("time/");
    let parse = |line: &str| -> Value {
        let mut line: serde_json::Map<_, _> = serde_json::from_str(line).unwrap();
        line.retain(|name, _| !timed(name));
        line.into()
    };
    text.lines().map(parse).collect()
}

#[test]
fn a_resumed_run_is_the_unbroken_one_in_every_bit_on_the_host() {
    for name in grpo_device::compiled() {
        if !["flex", "ndarray", "tch"].contains(&name) {
            println!("{name}: not promised, a graphics adapter may add up in another order each time");
            continue;
        }
        let device = grpo_device::open(name).unwrap();
        for lora in [false, true] {
            let whole = tempfile::tempdir().unwrap();
            train(&device, lora, whole.path(), Resume::Fresh, STEPS);
            let tensors = |folder: &Path, step| files::tensors(&folder.join("checkpoints"), step);
            assert!(tensors(whole.path(), STEPS) != tensors(whole.path(), STEPS - 1), "{name}: nothing was learnt");
            // 2 is between two rollouts, 3 within one.
            for stop in [2, 3] {
                let broken = tempfile::tempdir().unwrap();
                train(&device, lora, broken.path(), Resume::Fresh, stop);
                train(&device, lora, broken.path(), Resume::Newest, STEPS);
                for file in ["metrics.jsonl", "completions.jsonl"] {
                    let (got, want) = (lines(broken.path(), file), lines(whole.path(), file));
                    assert!(!want.is_empty());
                    assert_eq!(got, want, "{name}, stopped after {stop}: {file}");
                }
                for step in stop..=STEPS {
                    assert!(tensors(broken.path(), step) == tensors(whole.path(), step), "{name}, stopped after {stop}: weights of {step}");
                }
            }
        }
        println!("{name}: stopped and resumed, the same in every bit");
    }
}
