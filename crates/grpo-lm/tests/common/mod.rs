//! What the tests of the decoder share.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;

use burn::Tensor;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, ElementConversion as _};
use grpo_core::{Padded, ScoreRequest, TokenBatch, TokenId};
use grpo_lm::config::{Architecture, ModelConfig, RopeScaling};
use grpo_lm::{Decoder, LoraConfig};

pub fn llama() -> ModelConfig {
    ModelConfig {
        vocab_size: 37,
        hidden_size: 24,
        intermediate_size: 40,
        num_attention_heads: 6,
        num_key_value_heads: 2,
        head_dim: 4,
        max_position_embeddings: 96,
        rope_scaling: RopeScaling::Llama3 {
            factor: 4.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 32,
        },
        ..ModelConfig::default()
    }
}

/// One of each family: tied and untied, with and without biases and head norms.
pub fn families() -> [ModelConfig; 3] {
    let qwen2 = ModelConfig {
        architecture: Architecture::Qwen2,
        attention_bias: true,
        tie_word_embeddings: false,
        num_key_value_heads: 1,
        ..llama()
    };
    let qwen3 = ModelConfig { architecture: Architecture::Qwen3, qk_norm: true, num_key_value_heads: 3, ..llama() };
    [llama(), qwen2, qwen3]
}

pub fn decoder(config: &ModelConfig, device: &Device) -> Decoder {
    Decoder::random(config, 11, device).unwrap()
}

/// With factors that are not zero, so that they change something.
pub fn with_lora(config: &ModelConfig, device: &Device) -> Decoder {
    let decoder = decoder(config, device).with_lora(&LoraConfig { rank: 3, alpha: 6.0, ..LoraConfig::default() }).unwrap();
    let mut adapter = decoder.lora_adapter("base").unwrap();
    for (i, factors) in adapter.factors.values_mut().enumerate() {
        factors.b.data.iter_mut().enumerate().for_each(|(j, b)| *b = ((i * 31 + j * 17) % 13) as f32 * 0.01 - 0.06);
    }
    Decoder::random(config, 11, device).unwrap().load_lora(&adapter).unwrap()
}

pub fn tokens(seed: usize, length: usize) -> Vec<TokenId> {
    (0..length).map(|i| ((seed * 7 + i * i * 5 + i * 3 + 1) % 37) as TokenId).collect()
}

/// Four prompts, one of them without completions; uneven groups, ragged lengths, rows in no order.
pub fn ragged() -> TokenBatch {
    let prompts: Vec<_> = [5, 9, 3, 7].iter().enumerate().map(|(i, &l)| tokens(i, l)).collect();
    let completions: Vec<_> = [4, 1, 6, 2, 5, 3, 1].iter().enumerate().map(|(i, &l)| tokens(i + 20, l)).collect();
    TokenBatch::new(Padded::new(&prompts).unwrap(), Padded::new(&completions).unwrap(), vec![3, 0, 1, 0, 3, 3, 1]).unwrap()
}

/// Two prompts of one length with three completions of one length each.
pub fn even() -> TokenBatch {
    let prompts: Vec<_> = (0..2).map(|i| tokens(i, 6)).collect();
    let completions: Vec<_> = (0..6).map(|i| tokens(i + 20, 4)).collect();
    TokenBatch::new(Padded::new(&prompts).unwrap(), Padded::new(&completions).unwrap(), vec![0, 0, 0, 1, 1, 1]).unwrap()
}

/// Completions of one prompt that begin with the same token, or are the same.
pub fn twins() -> TokenBatch {
    let prompts: Vec<_> = (0..2).map(|i| tokens(i, 6)).collect();
    let completions = [vec![4, 5, 6], vec![4, 9], vec![4], vec![8, 4], vec![4, 5, 6], vec![4]];
    TokenBatch::new(Padded::new(&prompts).unwrap(), Padded::new(&completions).unwrap(), vec![0, 0, 1, 0, 0, 1]).unwrap()
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.try_into_vec_as::<f64>().unwrap()
}

pub fn close(given: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(given.len(), expected.len(), "{what}");
    for (i, (g, e)) in given.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= tolerance * e.abs().max(1.0), "{what}: at {i} {g}, expected {e}");
    }
}

/// Which places of `[N, Tc]` hold a token.
pub fn places(batch: &TokenBatch) -> Vec<bool> {
    let c = batch.completions();
    (0..c.rows()).flat_map(|n| (0..c.width()).map(move |t| t < c.lengths()[n])).collect()
}

/// A weighted sum of all log-probs: every token with a weight of its own, padding with weight 0.
pub fn weighted(log_probs: Tensor<2>, batch: &TokenBatch) -> Tensor<1> {
    let weights: Vec<f64> =
        places(batch).iter().enumerate().map(|(i, &real)| if real { ((i * 5) % 7) as f64 * 0.3 - 0.8 } else { 0.0 }).collect();
    let [n, t] = log_probs.dims();
    let weights = Tensor::<2>::from_data(burn::tensor::TensorData::new(weights, [n, t]), (&log_probs.device(), log_probs.dtype()));
    (log_probs * weights).sum()
}

/// Log-probs by the book: every completion behind a copy of its own prompt, plain causal logits of the whole row.
pub fn flattened(decoder: &Decoder, batch: &TokenBatch, temperature: f64) -> Tensor<2> {
    let (prompts, completions) = (batch.prompts(), batch.completions());
    let rows: Vec<Vec<TokenId>> =
        (0..completions.rows()).map(|n| [prompts.row(batch.prompt_of()[n]), completions.row(n)].concat()).collect();
    let logits = decoder.logits(&Padded::new(&rows).unwrap()).unwrap();
    let [n, t, v] = logits.dims();
    let flat = burn::tensor::activation::log_softmax(logits.div_scalar(temperature), 2).reshape([n * t * v]);
    let mut index = Vec::new();
    for row in 0..n {
        let prompt = prompts.lengths()[batch.prompt_of()[row]];
        for position in 0..completions.width() {
            let token = completions.row(row).get(position).copied();
            // Any place will do for padding: it has weight 0.
            index.push(token.map_or(0, |token| (row * t + prompt + position - 1) * v + token as usize) as i64);
        }
    }
    let length = index.len();
    let index = Tensor::<1, burn::tensor::Int>::from_data(burn::tensor::TensorData::new(index, [length]), &decoder.device());
    flat.select(0, index).reshape([n, completions.width()])
}

/// The gradients of a scalar by parameter.
pub fn gradients(decoder: &Decoder, loss: Tensor<1>) -> BTreeMap<String, Vec<f64>> {
    let gradients = GradientsParams::from_grads(loss.backward(), decoder);
    struct Collect<'a>(&'a GradientsParams, Vec<String>, BTreeMap<String, Vec<f64>>);
    impl ModuleVisitor for Collect<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.1.push(name.to_owned());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.1.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.get::<D>(param.id) {
                self.2.insert(self.1.join("."), values(gradient));
            }
        }
    }
    let mut collect = Collect(&gradients, Vec::new(), BTreeMap::new());
    decoder.visit(&mut collect);
    collect.2
}

pub fn log_probs(decoder: &Decoder, batch: &TokenBatch, temperature: f64) -> Tensor<2> {
    use grpo_core::Policy as _;
    decoder.score(batch, &ScoreRequest::at(temperature)).unwrap().log_probs
}

pub fn scalar(tensor: Tensor<1>) -> f64 {
    tensor.into_scalar::<f64>().elem()
}
