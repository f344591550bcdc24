//! A sequence classifier in a Hugging Face folder: the body of a decoder, and `score.weight` in place of the output matrix.

use std::path::Path;

use serde_json::{Map, Value};

use super::{Weights, assemble, config_text};
use crate::checkpoint::{Checkpoint, HostTensor, names};
use crate::config::{Architecture, ModelConfig};
use crate::error::{Error, Result};

/// What `transformers` writes for a `…ForSequenceClassification`.
pub(crate) struct Classifier {
    /// The body, as a tied model: one without an output matrix of its own.
    pub(crate) body: Checkpoint,
    /// `[labels, hidden]`
    pub(crate) score: HostTensor,
    /// The names of the labels, as many as `score` has rows.
    pub(crate) labels: Vec<String>,
    /// The token that pads, as config.json says: the classifier looks at no other file for it.
    pub(crate) pad_token: Option<u32>,
}

impl Classifier {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        if !std::fs::metadata(folder).map_err(Error::io(folder))?.is_dir() {
            return Err(Error::file(folder, "no folder; a reward model is a Hugging Face folder"));
        }
        let text = config_text(folder)?;
        let mut json: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| Error::file(&folder.join("config.json"), error.to_string()))?;
        refuse_other_heads(&json)?;
        json.remove("architectures");
        json.insert("tie_word_embeddings".into(), true.into());
        let config = ModelConfig::from_hf_json(&Value::Object(json.clone()).to_string())?;
        let labels = labels(&json)?;
        let mut expected = names::tensors(&config);
        expected.push((names::SCORE.into(), vec![labels.len(), config.hidden_size]));
        let mut tensors = Weights::open(folder)?.read(expected, false)?;
        let Some(score) = tensors.remove(names::SCORE) else { return Err(Error::tensor(folder, names::SCORE, "is missing")) };
        let pad_token = json.get("pad_token_id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        Ok(Self { body: assemble(folder, config, &json, tensors)?, score, labels, pad_token })
    }
}

/// A config that names its class must name a sequence classifier.
fn refuse_other_heads(json: &Map<String, Value>) -> Result<()> {
    let classes = Architecture::ALL.map(|family| family.class_name().replace("CausalLM", "SequenceClassification"));
    match json.get("architectures") {
        Some(Value::Array(given)) if !given.iter().any(|class| classes.iter().any(|known| class == known)) => {
            Err(Error::unsupported("architectures", Value::Array(given.clone()), classes.join(", ")))
        }
        _ => Ok(()),
    }
}

/// `id2label` in the order of the ids; `transformers` leaves it out where there are its default of two.
fn labels(json: &Map<String, Value>) -> Result<Vec<String>> {
    let numbered = |count: u64| (0..count).map(|id| format!("LABEL_{id}")).collect();
    let refused = |given: &Value, allowed: &str| Error::Config { field: "id2label", given: given.to_string(), allowed: allowed.into() };
    match (json.get("id2label"), json.get("num_labels").and_then(Value::as_u64)) {
        (Some(Value::Object(map)), _) if !map.is_empty() => (0..map.len())
            .map(|id| map.get(&id.to_string()).and_then(Value::as_str).map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| refused(&Value::Object(map.clone()), "must name the labels 0, 1, …")),
        (None | Some(Value::Null), count) if count.is_none_or(|count| (1..=1 << 16).contains(&count)) => Ok(numbered(count.unwrap_or(2))),
        (given, count) => Err(refused(given.unwrap_or(&count.into()), "must name at least one label")),
    }
}
