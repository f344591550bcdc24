//! Tiny checkpoints give the numbers of `transformers`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use common::*;
use grpo_core::{GroupId, Padded, SampleRequest, Sampler as _, SamplingParams, TokenBatch, TokenId};
use grpo_lm::{Checkpoint, Decoder, LmSampler};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tiny-models").join(name)
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn ids(value: &Value) -> Vec<TokenId> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as TokenId).collect()
}

fn check(name: &str) {
    let checkpoint = Checkpoint::open(folder(name)).unwrap();
    let reference: Value = serde_json::from_str(&std::fs::read_to_string(folder(name).join("reference.json")).unwrap()).unwrap();
    let tolerance = reference["tolerance"]["float32_logits_abs"].as_f64().unwrap();
    let decoder = Decoder::from_checkpoint(&checkpoint, &Device::flex()).unwrap();
    let cases = reference["cases"].as_array().unwrap();
    assert!(cases.len() >= 5);
    let absolute = |given: &[f64], expected: &[f64], what: &str| {
        assert_eq!(given.len(), expected.len());
        for (g, e) in given.iter().zip(expected) {
            assert!((g - e).abs() <= tolerance, "{name} {what}: {g}, expected {e}");
        }
    };
    for case in cases {
        let row = ids(&case["ids"]);
        let v = decoder.config().vocab_size;
        let logits = values(decoder.logits(&Padded::new(&[&row]).unwrap()).unwrap());
        absolute(&logits[(row.len() - 1) * v..], &numbers(&case["logits_last"]), "logits");
        for (t, first) in case["logits_first8"].as_array().unwrap().iter().enumerate() {
            absolute(&logits[t * v..t * v + 8], &numbers(first), "first logits");
        }
        if row.len() > 1 {
            // The first token as the prompt, the rest as the completion.
            let batch = TokenBatch::new(Padded::new(&[&row[..1]]).unwrap(), Padded::new(&[&row[1..]]).unwrap(), vec![0]).unwrap();
            absolute(&values(log_probs(&decoder, &batch, 1.0)), &numbers(&case["logp_next"]), "log-probs");
        }
        let request = [SampleRequest { group: GroupId(0), prefix: &row, samples: 1, seed: 0 }];
        let mut greedy = SamplingParams { max_tokens: 32, ..SamplingParams::default() }.greedy();
        let free = LmSampler::new().sample(&decoder, &request, &greedy).unwrap();
        assert_eq!(free[0][0].tokens, ids(&case["greedy_ids_32"]), "{name}");
        greedy.end_tokens = checkpoint.generation.end_tokens.clone();
        let ending = LmSampler::new().sample(&decoder, &request, &greedy).unwrap();
        assert_eq!(ending[0][0].tokens, ids(&case["greedy_ids_generate_f32_until_eos"]), "{name}");
    }
}

#[test]
fn llama_with_scaled_rope() {
    check("llama-scaled-rope");
}

#[test]
fn qwen2() {
    check("qwen2");
}

#[test]
fn qwen3() {
    check("qwen3");
}
