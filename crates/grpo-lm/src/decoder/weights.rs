//! Weights in and out: from a checkpoint, from a seed, and back under Hugging Face's names.

use std::collections::BTreeMap;
use std::path::Path;

use burn::Tensor;
use burn::module::Param;
use burn::tensor::Device;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::attention::Attention;
use super::block::{Block, Mlp};
use super::norm::RmsNorm;
use super::{Decoder, Linear, upload};
use crate::checkpoint::{Checkpoint, HostTensor, names};
use crate::config::ModelConfig;
use crate::error::{Error, Result};

/// Where weights come from: the name and shape that the model asks for, to values.
type Source<'a> = dyn FnMut(&str, &[usize]) -> Result<Vec<f32>> + 'a;

impl Decoder {
    /// The model of a checkpoint, in float32 on a device. On an autodiff device it is ready to train.
    ///
    /// In memory there are the checkpoint, the weights on the device, and one matrix between them.
    ///
    /// # Errors
    /// A tensor that is missing, superfluous or of another shape than the configuration asks for, by name.
    pub fn from_checkpoint(checkpoint: &Checkpoint, device: &Device) -> Result<Self> {
        checkpoint.validate()?;
        let mut source = |name: &str, _: &[usize]| match checkpoint.tensors.get(name) {
            Some(tensor) => Ok(tensor.data.clone()),
            None => Err(Error::tensor(Path::new("checkpoint"), name, "is missing")),
        };
        Self::build(&checkpoint.config, &mut source, device)
    }

    /// A model with random weights, the same for a seed on every device.
    ///
    /// Each matrix is drawn from N(0, 2 / (5·in)), which at GPT-2's width of 768 is its 0.02 and at smaller widths keeps the scale of
    /// what flows through; matrices that write to the residual stream are smaller by √(2·layers), so that its variance does not grow with
    /// depth; the embedding is drawn as a matrix with in = H, so that a tied model starts close to uniform. Norms are 1, biases 0.
    ///
    /// # Errors
    /// A configuration that no model can have.
    ///
    /// # Source
    /// Nguyen and Salazar (2019) for the width, Radford et al. (GPT-2, 2019) for the depth.
    pub fn random(config: &ModelConfig, seed: u64, device: &Device) -> Result<Self> {
        config.validate()?;
        let depth = (2.0 * config.num_hidden_layers as f64).sqrt().recip();
        let mut stream = 0;
        let mut source = |name: &str, shape: &[usize]| {
            // One stream a tensor: a tensor's values do not hang on the others' sizes.
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(stream);
            stream += 1;
            let length = shape.iter().product();
            let [_, fan_in] = shape else {
                let value = if name.ends_with(".bias") { 0.0 } else { 1.0 };
                return Ok(vec![value; length]);
            };
            let residual = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
            let deviation = (0.4 / *fan_in as f64).sqrt() * if residual { depth } else { 1.0 };
            Ok(normal(&mut rng, length, deviation))
        };
        Self::build(config, &mut source, device)
    }

    fn build(config: &ModelConfig, source: &mut Source<'_>, device: &Device) -> Result<Self> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let query = config.num_attention_heads * config.head_dim;
        let key = config.num_key_value_heads * config.head_dim;
        let matrix = |name: &str, out: usize, from: usize, source: &mut Source<'_>| -> Result<Tensor<2>> {
            Ok(upload(source(name, &[out, from])?, [out, from], device))
        };
        let vector = |name: &str, length: usize, source: &mut Source<'_>| -> Result<Tensor<1>> {
            Ok(upload(source(name, &[length])?, [length], device))
        };
        let embed_tokens = Param::from_tensor(matrix(names::EMBEDDING, config.vocab_size, hidden, source)?);
        let mut layers = Vec::with_capacity(config.num_hidden_layers);
        for layer in 0..config.num_hidden_layers {
            let mut linear = |name: &str, out: usize, from: usize, bias: bool| -> Result<Linear> {
                let prefix = format!("model.layers.{layer}.{name}");
                let weight = matrix(&format!("{prefix}.weight"), out, from, source)?;
                let bias = bias.then(|| vector(&format!("{prefix}.bias"), out, source)).transpose()?;
                Ok(Linear::new(weight, bias))
            };
            let q_proj = linear("self_attn.q_proj", query, hidden, config.qkv_bias())?;
            let k_proj = linear("self_attn.k_proj", key, hidden, config.qkv_bias())?;
            let v_proj = linear("self_attn.v_proj", key, hidden, config.qkv_bias())?;
            let o_proj = linear("self_attn.o_proj", hidden, query, config.output_bias())?;
            let gate_proj = linear("mlp.gate_proj", inner, hidden, config.mlp_bias)?;
            let up_proj = linear("mlp.up_proj", inner, hidden, config.mlp_bias)?;
            let down_proj = linear("mlp.down_proj", hidden, inner, config.mlp_bias)?;
            let mut norm = |name: &str, length: usize| -> Result<RmsNorm> {
                let weight = vector(&format!("model.layers.{layer}.{name}.weight"), length, source)?;
                Ok(RmsNorm::new(weight, config.rms_norm_eps))
            };
            let mut head_norm = |name: &str| config.qk_norm.then(|| norm(name, config.head_dim)).transpose();
            let (q_norm, k_norm) = (head_norm("self_attn.q_norm")?, head_norm("self_attn.k_norm")?);
            layers.push(Block {
                input_layernorm: norm("input_layernorm", hidden)?,
                self_attn: Attention { q_proj, k_proj, v_proj, o_proj, q_norm, k_norm },
                post_attention_layernorm: norm("post_attention_layernorm", hidden)?,
                mlp: Mlp { gate_proj, up_proj, down_proj },
            });
        }
        let norm = RmsNorm::new(vector("model.norm.weight", hidden, source)?, config.rms_norm_eps);
        let lm_head = match config.tie_word_embeddings {
            true => None,
            false => Some(Param::from_tensor(matrix(names::HEAD, config.vocab_size, hidden, source)?)),
        };
        Ok(Self { embed_tokens, layers, norm, lm_head, config: config.clone(), lora: None })
    }

    /// Every weight in host memory under its Hugging Face name, in float32; what [`from_checkpoint`](Self::from_checkpoint) reads.
    ///
    /// LoRA factors are merged into their matrices.
    ///
    /// # Errors
    /// Values that the device does not give back.
    pub fn to_host_tensors(&self) -> Result<BTreeMap<String, HostTensor>> {
        let mut all = BTreeMap::new();
        put(&mut all, names::EMBEDDING, self.embed_tokens.val())?;
        for (layer, block) in self.layers.iter().enumerate() {
            let name = |rest: &str| format!("model.layers.{layer}.{rest}");
            for (module, linear) in block.linears() {
                put(&mut all, &name(&format!("{module}.weight")), linear.merged_weight())?;
                if let Some(bias) = &linear.bias {
                    put(&mut all, &name(&format!("{module}.bias")), bias.val())?;
                }
            }
            put(&mut all, &name("input_layernorm.weight"), block.input_layernorm.weight.val())?;
            put(&mut all, &name("post_attention_layernorm.weight"), block.post_attention_layernorm.weight.val())?;
            for (module, norm) in [("q_norm", &block.self_attn.q_norm), ("k_norm", &block.self_attn.k_norm)] {
                if let Some(norm) = norm {
                    put(&mut all, &name(&format!("self_attn.{module}.weight")), norm.weight.val())?;
                }
            }
        }
        put(&mut all, "model.norm.weight", self.norm.weight.val())?;
        if let Some(head) = &self.lm_head {
            put(&mut all, names::HEAD, head.val())?;
        }
        Ok(all)
    }
}

impl Block {
    /// The seven matrices with their names within a block.
    pub(crate) fn linears(&self) -> [(&'static str, &Linear); 7] {
        let (attention, mlp) = (&self.self_attn, &self.mlp);
        [
            ("self_attn.q_proj", &attention.q_proj),
            ("self_attn.k_proj", &attention.k_proj),
            ("self_attn.v_proj", &attention.v_proj),
            ("self_attn.o_proj", &attention.o_proj),
            ("mlp.gate_proj", &mlp.gate_proj),
            ("mlp.up_proj", &mlp.up_proj),
            ("mlp.down_proj", &mlp.down_proj),
        ]
    }

    /// The same, to change them.
    pub(crate) fn linears_mut(&mut self) -> [(&'static str, &mut Linear); 7] {
        let (attention, mlp) = (&mut self.self_attn, &mut self.mlp);
        [
            ("self_attn.q_proj", &mut attention.q_proj),
            ("self_attn.k_proj", &mut attention.k_proj),
            ("self_attn.v_proj", &mut attention.v_proj),
            ("self_attn.o_proj", &mut attention.o_proj),
            ("mlp.gate_proj", &mut mlp.gate_proj),
            ("mlp.up_proj", &mut mlp.up_proj),
            ("mlp.down_proj", &mut mlp.down_proj),
        ]
    }
}

fn put<const D: usize>(all: &mut BTreeMap<String, HostTensor>, name: &str, tensor: Tensor<D>) -> Result<()> {
    all.insert(name.to_owned(), to_host(name, tensor)?);
    Ok(())
}

/// A tensor's values in host memory.
pub(crate) fn to_host<const D: usize>(name: &str, tensor: Tensor<D>) -> Result<HostTensor> {
    let shape = tensor.dims().to_vec();
    let data = tensor.try_into_vec_as::<f32>().map_err(|error| Error::Device { what: name.to_owned(), problem: error.to_string() })?;
    Ok(HostTensor { shape, data })
}

/// Normal numbers in pairs, by Box and Muller.
fn normal(rng: &mut ChaCha8Rng, length: usize, deviation: f64) -> Vec<f32> {
    let mut values = Vec::with_capacity(length + 1);
    while values.len() < length {
        // 1 − u is above 0: its logarithm is finite.
        let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt() * deviation;
        let (sin, cos) = (core::f64::consts::TAU * rng.random::<f64>()).sin_cos();
        values.push((radius * cos) as f32);
        values.push((radius * sin) as f32);
    }
    values.truncate(length);
    values
}
