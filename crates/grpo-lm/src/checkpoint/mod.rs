//! Models in files: read from a Hugging Face folder or a GGUF file into host memory.
//!
//! No tensor of burn is made here: a [`Checkpoint`] holds plain float32 vectors under Hugging Face's
//! names, whatever the file called them.

#[cfg(feature = "gguf")]
mod gguf;
mod hf;
pub mod names;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub(crate) use hf::Classifier;

use crate::chat::ChatTemplate;
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

/// A tensor in host memory.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTensor {
    /// The shape; matrices are [out, in].
    pub shape: Vec<usize>,
    /// The values in row-major order, as many as the shape says.
    pub data: Vec<f32>,
}

/// What a model's files say about generating text with it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationDefaults {
    /// Tokens that end a completion; none if the files name none.
    pub end_tokens: Vec<u32>,
    /// The token that pads.
    pub pad_token: Option<u32>,
    /// The token that begins a text.
    pub bos_token: Option<u32>,
    /// The temperature.
    pub temperature: Option<f64>,
    /// How many of the likeliest tokens stay.
    pub top_k: Option<usize>,
    /// How much of the probability stays.
    pub top_p: Option<f64>,
    /// The least probability relative to the likeliest token.
    pub min_p: Option<f64>,
    /// What the logits of earlier tokens are divided (or, when negative, multiplied) by.
    pub repetition_penalty: Option<f64>,
}

/// A whole model in host memory.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Sizes and switches.
    pub config: ModelConfig,
    /// The weights under the names and with the shapes of [`names::tensors`], none missing, none more.
    pub tensors: BTreeMap<String, HostTensor>,
    /// The tokenizer, where the files hold one.
    pub tokenizer: Option<Tokenizer>,
    /// End tokens and sampling settings.
    pub generation: GenerationDefaults,
    /// The chat template, where the files hold one.
    pub chat_template: Option<ChatTemplate>,
}

impl Checkpoint {
    /// Reads a model: a Hugging Face folder, or a GGUF file.
    ///
    /// A folder holds `config.json`, and `model.safetensors` or `model.safetensors.index.json` with its
    /// shards; `tokenizer.json`, `tokenizer_config.json`, `generation_config.json` and
    /// `chat_template.jinja` are read where they are. Weights of type F64, F32, F16, BF16, and in GGUF
    /// the block types, become float32.
    ///
    /// Every tensor the model needs must be there, and every tensor that is there must be needed.
    /// Allowed to lie about unused are `rotary_emb.inv_freq`, and in a tied model an `lm_head.weight`
    /// that equals the embedding.
    ///
    /// # Errors
    ///
    /// Whatever is missing, damaged, superfluous or not supported is named, with its file. A damaged
    /// file never makes this panic, nor allocate more than a small multiple of the file's own size.
    ///
    /// ```
    /// use grpo_lm::checkpoint::Checkpoint;
    ///
    /// let error = Checkpoint::open("no/such/model").unwrap_err();
    /// assert!(error.to_string().starts_with("no/such/model: "));
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let kind = std::fs::metadata(path).map_err(Error::io(path))?;
        if kind.is_dir() {
            return hf::open(path);
        }
        let mut magic = Vec::new();
        let file = File::open(path).map_err(Error::io(path))?;
        file.take(4).read_to_end(&mut magic).map_err(Error::io(path))?;
        if magic != b"GGUF" {
            let reason = "neither a folder with config.json nor a GGUF file";
            return Err(Error::file(path, reason));
        }
        #[cfg(feature = "gguf")]
        return gguf::open(path);
        #[cfg(not(feature = "gguf"))]
        Err(Error::file(path, "a GGUF file: switch on the feature `gguf` of grpo-lm"))
    }

    /// Checks that the tensors are the ones the configuration asks for, with their shapes.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for the configuration; [`Error::Tensor`] names the first tensor that is
    /// missing, superfluous or of another shape.
    pub fn validate(&self) -> Result<()> {
        self.config.validate()?;
        let here = Path::new("checkpoint");
        let expected: BTreeMap<_, _> = names::tensors(&self.config).into_iter().collect();
        for (name, shape) in &expected {
            let Some(tensor) = self.tensors.get(name) else {
                return Err(Error::tensor(here, name, "is missing"));
            };
            check_shape(here, name, &tensor.shape, shape)?;
            if Some(tensor.data.len()) != count(shape) {
                let reason = format!("{} values for shape {shape:?}", tensor.data.len());
                return Err(Error::tensor(here, name, reason));
            }
        }
        match self.tensors.keys().find(|name| !expected.contains_key(*name)) {
            Some(name) => Err(Error::tensor(here, name, "is not part of this model")),
            None => Ok(()),
        }
    }
}

/// The number of elements of a shape, unless it overflows.
fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
}

fn check_shape(path: &Path, name: &str, given: &[usize], wanted: &[usize]) -> Result<()> {
    if given == wanted {
        return Ok(());
    }
    let reason = format!("shape {given:?}, the config asks for {wanted:?}");
    Err(Error::tensor(path, name, reason))
}

/// The elements of a little-endian buffer, each of `N` bytes.
pub(crate) fn elements<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| convert(*chunk)).collect()
}
