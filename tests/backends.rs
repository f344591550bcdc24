//! A language model is the same on every backend: scores, gradients, greedy answers. What is compiled in is compared with flex; built with the
//! default features there is nothing to compare with, and only flex is held against itself.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use burn::module::{Module as _, ModuleVisitor, Param};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{DType, Device, Tensor};
use grpo_core::{
    Batch, GroupId, GrpoConfig, KlEstimator, KlPenalty, Padded, Policy as _, Row, SampleRequest, Sampler as _, SamplingParams,
    ScoreRequest, StepStats, TokenBatch, TokenId, gradients, to_host,
};
use grpo_lm::config::{Architecture, ModelConfig};
use grpo_lm::{Decoder, LmSampler, LoraConfig};

/// One of each family: shared keys, tied and untied, with and without biases and norms of heads. 37 tokens: no multiple of 32.
fn families() -> [ModelConfig; 3] {
    let llama = ModelConfig {
        vocab_size: 37,
        hidden_size: 24,
        intermediate_size: 40,
        num_attention_heads: 6,
        num_key_value_heads: 2,
        head_dim: 4,
        max_position_embeddings: 64,
        ..ModelConfig::default()
    };
    let qwen2 = ModelConfig {
        architecture: Architecture::Qwen2,
        attention_bias: true,
        tie_word_embeddings: false,
        num_key_value_heads: 1,
        ..llama.clone()
    };
    let qwen3 = ModelConfig { architecture: Architecture::Qwen3, qk_norm: true, num_key_value_heads: 3, ..llama.clone() };
    [llama, qwen2, qwen3]
}

fn tokens(seed: usize, length: usize) -> Vec<TokenId> {
    (0..length).map(|i| ((seed * 7 + i * i * 5 + i * 3 + 1) % 37) as TokenId).collect()
}

/// Three prompts, uneven groups, ragged lengths.
fn ragged() -> TokenBatch {
    let prompts: Vec<_> = [5, 9, 3].iter().enumerate().map(|(i, &l)| tokens(i, l)).collect();
    let completions: Vec<_> = [4, 1, 6, 2, 5].iter().enumerate().map(|(i, &l)| tokens(i + 20, l)).collect();
    TokenBatch::new(Padded::new(&prompts).unwrap(), Padded::new(&completions).unwrap(), vec![2, 0, 1, 0, 2]).unwrap()
}

/// What is compiled in, of the four that run everywhere. The program is built with a backend or without; one that does not open fails.
fn names() -> impl Iterator<Item = &'static str> {
    grpo_device::compiled().into_iter().filter(|name| ["flex", "ndarray", "tch", "wgpu"].contains(name))
}

/// The devices to be compared with flex.
fn others() -> impl Iterator<Item = (&'static str, Device)> {
    names().filter(|name| *name != "flex").map(|name| (name, grpo_device::open(name).unwrap()))
}

fn close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * w.abs().max(1.0), "{what}: at {i} {g}, on flex {w}");
    }
}

/// Scores, then the gradient of every parameter.
fn scored(config: &ModelConfig, device: &Device) -> Vec<Vec<f64>> {
    let model = Decoder::random(config, 11, &device.clone().autodiff()).unwrap();
    let batch = ragged();
    let scores = model.score(&batch, &ScoreRequest::at(0.9).with_entropies()).unwrap();
    let weights: Vec<f32> =
        (0..30).map(|i| if i % 6 < batch.completions().lengths()[i / 6] { (i * 5 % 7) as f32 * 0.3 - 0.8 } else { 0.0 }).collect();
    let weights = Tensor::<1>::from_floats(weights.as_slice(), device).reshape([5, 6]);
    // What stands in the padding is nobody's business.
    let places = weights.clone().abs().greater_elem(0.0).float();
    let mut found: Vec<Vec<f64>> = [Some(scores.log_probs.clone()), scores.entropies]
        .into_iter()
        .flatten()
        .map(|t| to_host(t * places.clone(), "scores").unwrap())
        .collect();
    struct Collect<'a>(&'a GradientsParams, &'a mut Vec<Vec<f64>>);
    impl ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.push(to_host(self.0.get::<D>(param.id).unwrap(), "gradient").unwrap());
        }
    }
    let gradients = GradientsParams::from_grads((scores.log_probs * weights).sum().backward(), &model);
    model.visit(&mut Collect(&gradients, &mut found));
    found
}

#[test]
fn scores_and_the_gradient_of_every_parameter_are_those_of_flex() {
    for config in families() {
        let want = scored(&config, &grpo_device::open("flex").unwrap());
        assert!(want.len() > 20);
        for (name, device) in others() {
            let got = scored(&config, &device);
            assert_eq!(got.len(), want.len());
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                close(&format!("{name}, {:?}, tensor {i}", config.architecture), got, want, 1e-4);
            }
        }
    }
}

/// Greedy completions of three prompts, with their log-probabilities.
fn greedy(config: &ModelConfig, device: &Device) -> Vec<(Vec<TokenId>, Vec<f32>)> {
    let model = Decoder::random(config, 11, device).unwrap();
    let prompts: Vec<Vec<TokenId>> = (0..3).map(|i| tokens(i, 4 + i)).collect();
    let requests: Vec<_> =
        (0..).zip(&prompts).map(|(i, prefix)| SampleRequest { group: GroupId(i), prefix, samples: 1, seed: i }).collect();
    let params = SamplingParams { max_tokens: 12, ..SamplingParams::default() }.greedy();
    let samples = LmSampler::new().sample(&model, &requests, &params).unwrap();
    samples.into_iter().flatten().map(|sample| (sample.tokens, sample.log_probs)).collect()
}

#[test]
fn greedy_answers_are_those_of_flex() {
    for config in families() {
        let want = greedy(&config, &grpo_device::open("flex").unwrap());
        for (name, device) in others() {
            for ((got, got_log_probs), (want, want_log_probs)) in greedy(&config, &device).iter().zip(&want) {
                let Some(at) = got.iter().zip(want).position(|(g, w)| g != w) else { continue };
                // Two tokens may be equally likely up to rounding; what follows another token is another text.
                let gap = (got_log_probs[at] - want_log_probs[at]).abs();
                println!("tie: {name}, token {at}: {} in place of {}, {gap:.1e} apart", got[at], want[at]);
                assert!(gap < 1e-5, "{name}: token {at} is {}, on flex {}, {gap:.1e} apart", got[at], want[at]);
            }
        }
    }
}

/// Weights after some steps with factors beside the matrices and a leash to the policy as it was.
fn trained(device: &Device, steps: u64) -> (Decoder, Vec<f64>) {
    let mut policy = Decoder::random(&families()[0], 3, &device.clone().autodiff()).unwrap().with_lora(&LoraConfig::default()).unwrap();
    let reference = policy.snapshot();
    let mut optimizer = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.0).init();
    let config = GrpoConfig { kl: Some(KlPenalty::new(0.1)), ..GrpoConfig::default() };
    let prompts: Vec<Vec<TokenId>> = (0..2).map(|i| tokens(i, 6)).collect();
    let prompts: Vec<&[TokenId]> = prompts.iter().map(Vec::as_slice).collect();
    let mut divergences = Vec::new();
    for step in 0..steps {
        let completions: Vec<Vec<TokenId>> = (0..8).map(|i| tokens(step as usize * 8 + i, 3 + i % 3)).collect();
        let rows: Vec<Row<'_>> = completions
            .iter()
            .enumerate()
            .map(|(i, tokens)| Row {
                prompt: i / 4,
                group: GroupId(i as u64 / 4),
                tokens,
                mask: vec![true; tokens.len()],
                advantages: vec![if i % 2 == 0 { 1.0 } else { -1.0 }; tokens.len()],
            })
            .collect();
        let mut batch = Batch::from_rows(&prompts, &rows, 1.0, device).unwrap();
        batch.score_reference(&reference, KlEstimator::K3).unwrap();
        let batches = [batch];
        let update = gradients(&policy, &batches, &StepStats::of(&batches), &config).unwrap();
        divergences.push(update.metrics.get("kl").unwrap());
        policy = update.apply(&mut optimizer, 1e-2, policy);
    }
    (policy, divergences)
}

fn weights(policy: &Decoder) -> Vec<u32> {
    policy.merged().to_host_tensors().unwrap().values().flat_map(|tensor| tensor.data.iter().map(|weight| weight.to_bits())).collect()
}

#[test]
fn the_divergence_from_the_policy_as_it_was_is_exactly_0_at_first_and_that_of_flex_later() {
    let (_, want) = trained(&grpo_device::open("flex").unwrap(), 5);
    assert!(want[0] == 0.0 && want[4] > 1e-3, "{want:?}");
    for (name, device) in others() {
        let (_, got) = trained(&device, 5);
        assert_eq!(got[0], 0.0, "{name}");
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() <= 0.01 * want, "{name}: {got}, on flex {want}");
        }
    }
}

#[test]
fn twenty_steps_give_the_same_weights_again_in_every_bit_on_the_host() {
    for name in names() {
        // A graphics adapter may add up in another order each time.
        if ["flex", "ndarray", "tch"].contains(&name) {
            let device = grpo_device::open(name).unwrap();
            let (first, again) = (trained(&device, 20).0, trained(&device, 20).0);
            assert!(weights(&first) == weights(&again), "{name}");
            assert!(weights(&first) != weights(&trained(&device, 19).0), "{name}");
        }
    }
}

#[test]
fn a_model_of_16_bits_scores_as_the_one_of_32_bits_where_16_bits_compute() {
    let batch = ragged();
    for name in names() {
        let device = grpo_device::open(name).unwrap();
        let model = Decoder::random(&families()[0], 11, &device).unwrap();
        let of = |model: &Decoder| to_host(model.score(&batch, &ScoreRequest::at(1.0)).unwrap().log_probs, "log-probs").unwrap();
        let want = of(&model);
        for dtype in [DType::F16, DType::BF16] {
            if !grpo_device::probe(name).unwrap().floats.contains(&dtype) {
                println!("{name} does not compute {dtype:?}");
                continue;
            }
            let half = model.clone().map(&mut To(dtype));
            assert_eq!(half.dtype(), dtype);
            for (row, (got, want)) in of(&half).chunks(6).zip(want.chunks(6)).enumerate() {
                let length = batch.completions().lengths()[row];
                close(&format!("{name} {dtype:?}"), &got[..length], &want[..length], 0.1);
            }
        }
    }
}

struct To(DType);

impl burn::module::ModuleMapper for To {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.cast(self.0))
    }
}
