//! A folder that `transformers` loads.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{make_folder, write_atomically, write_json, write_safetensors};
use crate::checkpoint::Checkpoint;
use crate::error::Result;

/// The type of weights in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WeightType {
    /// 32 bits: what training computes, exactly.
    #[default]
    F32,
    /// 16 bits, rounded: 11 bits of precision, overflows above 65504.
    F16,
    /// 16 bits, rounded: 8 bits of precision.
    Bf16,
}

/// Writes a model as a Hugging Face folder, which [`Checkpoint::open`] and `transformers` load.
///
/// `model.safetensors` (without `lm_head.weight` when the embedding is tied), `config.json`,
/// `generation_config.json`, and where there is a tokenizer `tokenizer.json` (byte for byte, if it came
/// from one) and `tokenizer_config.json` with the chat template. Each file replaces its predecessor only
/// when it is whole; the weights come first.
///
/// # Errors
///
/// [`Error::Tensor`](crate::error::Error::Tensor) names a tensor that does not fit the configuration,
/// before anything is written; [`Error::Io`](crate::error::Error::Io) names a file that cannot be written.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use grpo_lm::checkpoint::{Checkpoint, GenerationDefaults, HostTensor, names};
/// use grpo_lm::config::ModelConfig;
/// use grpo_lm::export::{WeightType, write_hf_folder};
///
/// let config = ModelConfig::default();
/// let zeros = |shape: Vec<usize>| HostTensor { data: vec![0.0; shape.iter().product()], shape };
/// let checkpoint = Checkpoint {
///     tensors: names::tensors(&config).into_iter().map(|(name, shape)| (name, zeros(shape))).collect(),
///     config,
///     tokenizer: None,
///     generation: GenerationDefaults::default(),
///     chat_template: None,
/// };
/// let folder = tempfile::tempdir()?;
/// write_hf_folder(folder.path(), &checkpoint, WeightType::Bf16)?;
/// assert_eq!(Checkpoint::open(folder.path())?.tensors, checkpoint.tensors);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_hf_folder(folder: impl AsRef<Path>, checkpoint: &Checkpoint, weights: WeightType) -> Result<()> {
    let folder = folder.as_ref();
    checkpoint.validate()?;
    make_folder(folder)?;
    let tensors = checkpoint.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    write_safetensors(&folder.join("model.safetensors"), tensors, weights)?;

    let generation = generation_config(checkpoint);
    let mut config = checkpoint.config.to_hf_json();
    for name in ["bos_token_id", "eos_token_id", "pad_token_id"] {
        // Without a value here the classes of `transformers` have ids of their own.
        config[name] = generation.get(name).cloned().unwrap_or_default();
    }
    config["torch_dtype"] = match weights {
        WeightType::F32 => "float32",
        WeightType::F16 => "float16",
        WeightType::Bf16 => "bfloat16",
    }
    .into();
    if let Some(tokenizer) = &checkpoint.tokenizer {
        let bytes = tokenizer.to_json()?;
        write_atomically(&folder.join("tokenizer.json"), |out| std::io::Write::write_all(out, &bytes))?;
        let settings = Value::Object(tokenizer_config(checkpoint, tokenizer.config()));
        write_json(&folder.join("tokenizer_config.json"), &settings)?;
    }
    write_json(&folder.join("generation_config.json"), &Value::Object(generation))?;
    write_json(&folder.join("config.json"), &config)
}

fn generation_config(checkpoint: &Checkpoint) -> Map<String, Value> {
    let generation = &checkpoint.generation;
    let end = match generation.end_tokens.as_slice() {
        [] => None,
        [one] => Some(json!(one)),
        several => Some(json!(several)),
    };
    let number = |value: Option<f64>| value.map(Value::from);
    // A model that has settings for sampling wants to be sampled.
    let sampled = generation.temperature.or(generation.top_p).or(generation.min_p).is_some();
    let fields = [
        ("bos_token_id", generation.bos_token.map(Value::from)),
        ("eos_token_id", end),
        ("pad_token_id", generation.pad_token.map(Value::from)),
        ("do_sample", (sampled || generation.top_k.is_some()).then_some(true.into())),
        ("temperature", number(generation.temperature)),
        ("top_k", generation.top_k.map(Value::from)),
        ("top_p", number(generation.top_p)),
        ("min_p", number(generation.min_p)),
        ("repetition_penalty", number(generation.repetition_penalty)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The file the tokenizer came with, or a new one, and the chat template.
fn tokenizer_config(checkpoint: &Checkpoint, source: &Map<String, Value>) -> Map<String, Value> {
    let mut config = source.clone();
    if source.is_empty() {
        config.insert("tokenizer_class".into(), "PreTrainedTokenizerFast".into());
        config.insert("clean_up_tokenization_spaces".into(), false.into());
        let length = checkpoint.config.max_position_embeddings;
        config.insert("model_max_length".into(), length.into());
        let generation = &checkpoint.generation;
        let tokens = [
            ("bos_token", generation.bos_token),
            ("eos_token", generation.end_tokens.first().copied()),
            ("pad_token", generation.pad_token),
        ];
        for (name, id) in tokens {
            let text = id.and_then(|id| checkpoint.tokenizer.as_ref()?.id_to_token(id));
            if let Some(text) = text {
                config.insert(name.into(), text.into());
            }
        }
        let prefix = checkpoint.tokenizer.as_ref().and_then(|tokenizer| tokenizer.prefix_token());
        config.insert("add_bos_token".into(), prefix.is_some().into());
    }
    // A list holds templates for other uses too, the default one among them.
    if let Some(template) = &checkpoint.chat_template
        && !config.get("chat_template").is_some_and(Value::is_array)
    {
        config.insert("chat_template".into(), template.source().into());
    }
    config
}
