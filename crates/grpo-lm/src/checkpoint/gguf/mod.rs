//! A GGUF file: weights, tokenizer and chat template in one.

mod blocks;
mod header;
mod tokenizer;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use header::{Header, Value};

use super::{Checkpoint, GenerationDefaults, HostTensor, check_shape, names};
use crate::chat::ChatTemplate;
use crate::config::{Architecture, ModelConfig, RopeScaling};
use crate::error::{Error, Result};

/// Divisors of the rotary frequencies, one a pair.
const ROPE_DIVISORS: &str = "rope_freqs.weight";

pub(super) fn open(path: &Path) -> Result<Checkpoint> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let header = header::read(path, &mut file)?;
    let mut config = header.config()?;
    if header.tensors.contains_key(ROPE_DIVISORS) {
        let divisors = header.tensor(&mut file, ROPE_DIVISORS)?;
        config.rope_scaling = llama3_scaling(path, &config, &divisors.data)?;
    }
    config.validate()?;
    let tensors = header.weights(&mut file, &config)?;
    let tokenizer = tokenizer::build(&header)?;
    let generation = header.generation()?;
    let chat_template = match header.metadata.get("tokenizer.chat_template") {
        Some(Value::Text(source)) => {
            let mut template = ChatTemplate::new(source)?;
            let names = ["bos", "eos", "padding", "unknown"];
            for (name, variable) in names.iter().zip(["bos", "eos", "pad", "unk"]) {
                let id = header.token(&format!("tokenizer.ggml.{name}_token_id"))?;
                let text = id.and_then(|id| tokenizer.as_ref()?.id_to_token(id));
                if let Some(text) = text {
                    template = template.with_variable(format!("{variable}_token"), text);
                }
            }
            Some(template)
        }
        _ => None,
    };
    Ok(Checkpoint { config, tensors, tokenizer, generation, chat_template })
}

impl Header {
    fn bad(&self, key: &str, allowed: &str) -> Error {
        let given = self.metadata.get(key).map_or("missing".into(), |value| format!("{value:?}"));
        Error::file(&self.path, format!("metadata {key} = {given:.80}, {allowed}"))
    }

    fn size(&self, key: &str, default: Option<usize>) -> Result<usize> {
        match (self.metadata.get(key), default) {
            (Some(Value::Whole(size)), _) => usize::try_from(*size).ok(),
            (None, default) => default,
            _ => None,
        }
        .ok_or_else(|| self.bad(key, "must be a whole number"))
    }

    fn real(&self, key: &str, default: Option<f64>) -> Result<f64> {
        match (self.metadata.get(key), default) {
            (Some(Value::Real(real)), _) => Some(*real),
            (None, default) => default,
            _ => None,
        }
        .ok_or_else(|| self.bad(key, "must be a number"))
    }

    fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(self.bad(key, "must be text")),
        }
    }

    fn switch(&self, key: &str) -> Result<Option<bool>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Switch(on)) => Ok(Some(*on)),
            Some(_) => Err(self.bad(key, "must be true or false")),
        }
    }

    fn token(&self, key: &str) -> Result<Option<u32>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Whole(id)) => u32::try_from(*id).map(Some).map_err(|_| self.bad(key, "must be a token id")),
            Some(_) => Err(self.bad(key, "must be a token id")),
        }
    }

    fn config(&self) -> Result<ModelConfig> {
        let name = self.text("general.architecture")?.unwrap_or("missing");
        let Some(architecture) = Architecture::ALL.into_iter().find(|a| a.name() == name) else {
            return Err(Error::unsupported("general.architecture", name, "llama, qwen2, qwen3"));
        };
        let key = |field: &str| format!("{name}.{field}");
        for field in ["expert_count", "attention.sliding_window"] {
            let count = self.size(&key(field), Some(0))?;
            if count != 0 {
                return Err(Error::unsupported(key(field), count, "models without it"));
            }
        }
        let hidden_size = self.size(&key("embedding_length"), None)?;
        let heads = self.size(&key("attention.head_count"), None)?;
        let head_dim = self.size(&key("attention.key_length"), Some(hidden_size / heads.max(1)))?;
        for field in ["attention.value_length", "rope.dimension_count"] {
            let given = self.size(&key(field), Some(head_dim))?;
            if given != head_dim {
                let supported = format!("the head size, {head_dim}");
                return Err(Error::unsupported(key(field), given, supported));
            }
        }
        let Some(embedding) = self.tensors.get("token_embd.weight") else {
            return Err(Error::tensor(&self.path, "token_embd.weight", "is missing"));
        };
        let has = |name: &str| self.tensors.contains_key(name);
        Ok(ModelConfig {
            architecture,
            // The rows that are there; the metadata may count the tokenizer's tokens instead.
            vocab_size: embedding.shape.first().copied().unwrap_or(0),
            hidden_size,
            intermediate_size: self.size(&key("feed_forward_length"), None)?,
            num_hidden_layers: self.size(&key("block_count"), None)?,
            num_attention_heads: heads,
            num_key_value_heads: self.size(&key("attention.head_count_kv"), Some(heads))?,
            head_dim,
            rms_norm_eps: self.real(&key("attention.layer_norm_rms_epsilon"), None)?,
            rope_theta: self.real(&key("rope.freq_base"), Some(10_000.0))?,
            rope_scaling: self.rope_scaling(name)?,
            tie_word_embeddings: !has("output.weight"),
            attention_bias: architecture == Architecture::Qwen2 || has("blk.0.attn_q.bias"),
            mlp_bias: has("blk.0.ffn_gate.bias"),
            qk_norm: architecture == Architecture::Qwen3,
            max_position_embeddings: self.size(&key("context_length"), None)?,
        })
    }

    fn rope_scaling(&self, name: &str) -> Result<RopeScaling> {
        let key = |field: &str| format!("{name}.rope.{field}");
        // An older spelling of linear scaling.
        let old = self.real(&key("scale_linear"), Some(1.0))?;
        match self.text(&key("scaling.type"))? {
            None | Some("none") if old == 1.0 => Ok(RopeScaling::None),
            None | Some("none") => Ok(RopeScaling::Linear { factor: old }),
            Some("linear") => {
                let factor = self.real(&key("scaling.factor"), Some(old))?;
                Ok(RopeScaling::Linear { factor })
            }
            Some(other) => Err(Error::unsupported(key("scaling.type"), other, "none, linear")),
        }
    }

    fn generation(&self) -> Result<GenerationDefaults> {
        let mut end_tokens = Vec::new();
        for name in ["eos", "eot"] {
            let id = self.token(&format!("tokenizer.ggml.{name}_token_id"))?;
            end_tokens.extend(id.filter(|id| !end_tokens.contains(id)));
        }
        Ok(GenerationDefaults {
            end_tokens,
            pad_token: self.token("tokenizer.ggml.padding_token_id")?,
            bos_token: self.token("tokenizer.ggml.bos_token_id")?,
            ..GenerationDefaults::default()
        })
    }

    /// Reads one tensor, whose place in the file is known to exist.
    fn tensor(&self, file: &mut File, name: &str) -> Result<HostTensor> {
        let Some(info) = self.tensors.get(name) else {
            return Err(Error::tensor(&self.path, name, "is missing"));
        };
        let mut bytes = vec![0u8; info.bytes];
        file.seek(SeekFrom::Start(info.start)).map_err(Error::io(&self.path))?;
        file.read_exact(&mut bytes).map_err(|error| Error::tensor(&self.path, name, error.to_string()))?;
        let data = info.block_type.decode(&bytes, &info.shape).map_err(|reason| Error::tensor(&self.path, name, reason))?;
        Ok(HostTensor { shape: info.shape.clone(), data })
    }

    fn weights(&self, file: &mut File, config: &ModelConfig) -> Result<BTreeMap<String, HostTensor>> {
        let mut wanted = Vec::new();
        let mut unused: BTreeSet<_> = self.tensors.keys().map(String::as_str).collect();
        unused.remove(ROPE_DIVISORS);
        for (name, shape) in names::tensors(config) {
            let in_file = names::to_gguf(&name).unwrap_or_else(|| name.clone());
            let Some(info) = self.tensors.get(&in_file) else {
                let reason = format!("is missing; the metadata asks for shape {shape:?}");
                return Err(Error::tensor(&self.path, &in_file, reason));
            };
            check_shape(&self.path, &in_file, &info.shape, &shape)?;
            unused.remove(in_file.as_str());
            wanted.push((name, in_file));
        }
        if let Some(name) = unused.first() {
            let reason = "is not part of the model that the metadata describes";
            return Err(Error::tensor(&self.path, name, reason));
        }
        let mut tensors = BTreeMap::new();
        for (name, in_file) in wanted {
            let mut tensor = self.tensor(file, &in_file)?;
            if config.architecture == Architecture::Llama && (name.contains(".q_proj.") || name.contains(".k_proj.")) {
                tensor.data = split_rotary_halves(&tensor, config.head_dim);
            }
            tensors.insert(name, tensor);
        }
        Ok(tensors)
    }
}

/// Undoes the row order of Llama GGUF files, in which the two halves of each head are interleaved:
/// [heads, d/2, 2, in] -> [heads, 2, d/2, in].
fn split_rotary_halves(tensor: &HostTensor, head_dim: usize) -> Vec<f32> {
    // A bias is a matrix of one column.
    let columns: usize = tensor.shape.iter().skip(1).product();
    let mut out = Vec::with_capacity(tensor.data.len());
    for head in tensor.data.chunks(head_dim * columns) {
        for half in 0..2 {
            let rows = head.chunks(columns).skip(half).step_by(2);
            rows.for_each(|row| out.extend_from_slice(row));
        }
    }
    out
}

/// The scaling that divides the frequencies as the tensor says. The file holds nothing but the divisors;
/// published models differ in the factor alone.
fn llama3_scaling(path: &Path, config: &ModelConfig, divisors: &[f32]) -> Result<RopeScaling> {
    let refuse = |reason: &str| Err(Error::tensor(path, ROPE_DIVISORS, reason));
    if divisors.len() != config.head_dim / 2 {
        return refuse("must have one divisor for each rotary pair");
    }
    let factor = divisors.iter().copied().fold(1.0f32, f32::max);
    let scaling =
        RopeScaling::Llama3 { factor: factor.into(), low_freq_factor: 1.0, high_freq_factor: 4.0, original_max_position_embeddings: 8192 };
    let same = divisors.iter().enumerate().all(|(pair, divisor)| {
        let exponent = -2.0 * pair as f64 / config.head_dim as f64;
        let wanted = scaling.divisor(config.rope_theta.powf(exponent));
        (wanted - f64::from(*divisor)).abs() <= 1e-4 * wanted
    });
    if config.rope_scaling != RopeScaling::None || !same {
        return refuse("is not the Llama 3 scaling with factors 1 and 4 of a context of 8192");
    }
    Ok(scaling)
}

#[cfg(test)]
mod tests;
