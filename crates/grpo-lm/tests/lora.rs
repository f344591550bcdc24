//! Low-rank factors, snapshots, tied embeddings, and weights out and in again.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeSet;

use burn::module::Module as _;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::Device;
use common::*;
use grpo_core::{Policy as _, ScoreRequest};
use grpo_lm::checkpoint::{Checkpoint, GenerationDefaults};
use grpo_lm::{Decoder, LoraConfig, LoraTarget};

fn step(decoder: Decoder, rate: f64) -> Decoder {
    let batch = even();
    let loss = weighted(log_probs(&decoder, &batch, 1.0), &batch);
    let gradients = GradientsParams::from_grads(loss.backward(), &decoder);
    AdamWConfig::new().init().step(rate, decoder, gradients)
}

#[test]
fn fresh_factors_change_nothing_in_any_bit() {
    let device = Device::flex();
    let base = decoder(&llama(), &device);
    let adapted = decoder(&llama(), &device).with_lora(&LoraConfig::default()).unwrap();
    let batch = ragged();
    assert_eq!(values(log_probs(&adapted, &batch, 1.0)), values(log_probs(&base, &batch, 1.0)));
    assert_eq!(values(log_probs(&adapted.merged(), &batch, 1.0)), values(log_probs(&base, &batch, 1.0)));
}

#[test]
fn a_is_uniform_within_one_over_the_root_of_its_width_and_drawn_by_seed() {
    let lora = |seed| {
        decoder(&llama(), &Device::flex()).with_lora(&LoraConfig { seed, ..LoraConfig::default() }).unwrap().lora_adapter("b").unwrap()
    };
    let adapter = lora(1);
    let a: Vec<f32> = adapter.factors["model.layers.0.self_attn.q_proj"].a.data.clone();
    let bound = (24f32).sqrt().recip();
    assert!(a.iter().all(|x| x.abs() <= bound) && a.iter().any(|x| x.abs() > 0.95 * bound));
    let mean_square = a.iter().map(|x| x * x).sum::<f32>() / a.len() as f32;
    assert!((mean_square * 3.0 / (bound * bound) - 1.0).abs() < 0.15, "variance of a uniform: bound²/3");
    assert_ne!(a, adapter.factors["model.layers.1.self_attn.q_proj"].a.data);
    assert_eq!(lora(1), adapter);
    assert_ne!(lora(2), adapter);
}

#[test]
fn merged_is_unmerged() {
    for config in families() {
        let adapted = with_lora(&config, &Device::flex());
        let batch = ragged();
        let merged = values(log_probs(&adapted.merged(), &batch, 1.0));
        let expected = values(log_probs(&adapted, &batch, 1.0));
        close(&merged, &expected, 1e-5, "merged");
        let base = values(log_probs(&decoder(&config, &Device::flex()), &batch, 1.0));
        assert!(merged.iter().zip(&base).any(|(m, b)| (m - b).abs() > 1e-3), "the factors do something");
    }
}

#[test]
fn only_factors_have_gradients_and_one_step_changes_them_alone() {
    let device = Device::flex().autodiff();
    let targets = BTreeSet::from([LoraTarget::Query, LoraTarget::Down]);
    let adapted = decoder(&llama(), &device).with_lora(&LoraConfig { rank: 2, targets, ..LoraConfig::default() }).unwrap();
    let batch = even();
    let names: Vec<String> = gradients(&adapted, weighted(log_probs(&adapted, &batch, 1.0), &batch)).into_keys().collect();
    assert_eq!(names.len(), 2 * 2 * 2, "two matrices in two blocks, A and B: {names:?}");
    assert!(names.iter().all(|name| name.contains("lora") && (name.contains("q_proj") || name.contains("down_proj"))));
    let before = adapted.lora_adapter("b").unwrap();
    let base = decoder(&llama(), &device).to_host_tensors().unwrap();
    let stepped = step(adapted, 0.1);
    let after = stepped.lora_adapter("b").unwrap();
    for (name, factors) in &after.factors {
        assert_ne!(factors.b, before.factors[name].b, "{name}");
    }
    let merged = stepped.to_host_tensors().unwrap();
    for (name, tensor) in &base {
        assert_eq!(merged[name] != *tensor, name.contains("q_proj") || name.contains("down_proj"), "{name}");
    }
}

#[test]
fn a_snapshot_stays_while_the_policy_moves() {
    let device = Device::flex().autodiff();
    for policy in [decoder(&llama(), &device), with_lora(&llama(), &device)] {
        let reference = policy.snapshot();
        let batch = even();
        let before = values(log_probs(&reference, &batch, 1.0));
        assert_eq!(values(log_probs(&policy, &batch, 1.0)), before);
        let policy = step(policy, 0.05);
        assert_eq!(values(log_probs(&reference, &batch, 1.0)), before);
        assert_ne!(values(log_probs(&policy, &batch, 1.0)), before);
        assert!(!log_probs(&reference, &batch, 1.0).is_tracked());
        assert!(!log_probs(&reference.clone().train(), &batch, 1.0).is_tracked(), "frozen for good");
    }
}

#[test]
fn a_tied_embedding_is_one_parameter_with_one_gradient() {
    let device = Device::flex().autodiff();
    let tied = decoder(&llama(), &device);
    let batch = even();
    let names = gradients(&tied, weighted(log_probs(&tied, &batch, 1.0), &batch));
    assert_eq!(names.keys().filter(|n| n.contains("embed") || n.contains("head")).count(), 1);
    let stepped = step(tied, 0.05);
    assert!(!stepped.to_host_tensors().unwrap().contains_key("lm_head.weight"));
    // Its reading and its writing side are the same numbers still.
    let rows = stepped.score(&batch, &ScoreRequest::at(1.0).with_rows()).unwrap().rows.unwrap();
    let grpo_core::ReferenceRows::Hidden { head, .. } = rows else { panic!("hidden states") };
    let embedding: Vec<f64> = stepped.to_host_tensors().unwrap()["model.embed_tokens.weight"].data.iter().map(|&x| f64::from(x)).collect();
    assert_eq!(values(head), embedding);
}

#[test]
fn weights_go_out_and_come_back_unchanged() {
    for config in families() {
        let original = step(decoder(&config, &Device::flex().autodiff()), 0.01);
        let checkpoint = Checkpoint {
            config: config.clone(),
            tensors: original.to_host_tensors().unwrap(),
            tokenizer: None,
            generation: GenerationDefaults::default(),
            chat_template: None,
        };
        let back = Decoder::from_checkpoint(&checkpoint, &Device::flex()).unwrap();
        let batch = ragged();
        assert_eq!(values(log_probs(&back, &batch, 1.0)), values(log_probs(&original.valid(), &batch, 1.0)));
    }
}

#[test]
fn an_adapter_that_does_not_fit_is_refused_by_name() {
    let fresh = || decoder(&llama(), &Device::flex());
    let adapter = with_lora(&llama(), &Device::flex()).lora_adapter("base").unwrap();
    let message = |change: &dyn Fn(&mut grpo_lm::export::PeftAdapter)| {
        let mut adapter = adapter.clone();
        change(&mut adapter);
        fresh().load_lora(&adapter).unwrap_err().to_string()
    };
    let missing = message(&|a| drop(a.factors.remove("model.layers.1.mlp.up_proj")));
    assert_eq!(missing, "LoRA adapter: model.layers.1.mlp.up_proj has no factors");
    let more = message(&|a| drop(a.factors.insert("model.layers.7.mlp.up_proj".into(), a.factors["model.layers.1.mlp.up_proj"].clone())));
    assert_eq!(more, "LoRA adapter: model.layers.7.mlp.up_proj is not a matrix of this model");
    let shape = message(&|a| {
        let a = a.factors.get_mut("model.layers.0.self_attn.k_proj").unwrap();
        a.a.shape = vec![3, 8];
    });
    assert!(shape.starts_with("LoRA adapter: model.layers.0.self_attn.k_proj: A has shape"), "{shape}");
    let twice = fresh().with_lora(&LoraConfig::default()).unwrap().with_lora(&LoraConfig::default()).unwrap_err().to_string();
    assert_eq!(twice, "LoRA adapter: the model has factors already: merge them first");
    let none = LoraConfig { rank: 0, ..LoraConfig::default() };
    assert_eq!(fresh().with_lora(&none).unwrap_err().to_string(), "model config: lora rank = 0, must be at least 1");
}
