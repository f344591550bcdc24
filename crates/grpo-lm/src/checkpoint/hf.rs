//! A Hugging Face folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::{Map, Value};

use super::{Checkpoint, GenerationDefaults, HostTensor, check_shape, elements, names};
use crate::chat::ChatTemplate;
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const TYPES: &str = "F64, F32, F16, BF16";

pub(super) fn open(folder: &Path) -> Result<Checkpoint> {
    let text = config_text(folder)?;
    let config = ModelConfig::from_hf_json(&text)?;
    // Parsed above already, so this cannot fail on a readable config.
    let config_json = serde_json::from_str(&text).unwrap_or_default();
    let tensors = Weights::open(folder)?.read(names::tensors(&config), config.tie_word_embeddings)?;
    assemble(folder, config, &config_json, tensors)
}

fn config_text(folder: &Path) -> Result<String> {
    let path = folder.join("config.json");
    std::fs::read_to_string(&path).map_err(Error::io(&path))
}

/// Config and weights, with what else lies in the folder.
fn assemble(
    folder: &Path,
    config: ModelConfig,
    config_json: &Map<String, Value>,
    tensors: BTreeMap<String, HostTensor>,
) -> Result<Checkpoint> {
    let tokenizer_config = object(&folder.join("tokenizer_config.json"))?;
    let tokenizer = tokenizer(folder, &tokenizer_config)?;
    let generation = generation(folder, config_json, &tokenizer_config, tokenizer.as_ref())?;
    let chat_template = chat_template(folder, &tokenizer_config)?;
    Ok(Checkpoint { config, tensors, tokenizer, generation, chat_template })
}

/// The object in a JSON file; empty if there is no such file.
fn object(path: &Path) -> Result<Map<String, Value>> {
    if !path.exists() {
        return Ok(Map::new());
    }
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    serde_json::from_slice(&bytes).map_err(|error| Error::file(path, error.to_string()))
}

/// The safetensors files of a folder, headers read, with what each holds.
struct Weights {
    files: Vec<WeightFile>,
}

struct WeightFile {
    path: PathBuf,
    file: File,
    data_start: u64,
    infos: BTreeMap<String, TensorInfo>,
}

impl Weights {
    fn open(folder: &Path) -> Result<Self> {
        let single = folder.join(SINGLE);
        if single.exists() {
            return Ok(Self { files: vec![WeightFile::open(single)?] });
        }
        let index_path = folder.join(INDEX);
        if !index_path.exists() {
            let reason = format!("no weights: neither {SINGLE} nor {INDEX} is there");
            return Err(Error::file(folder, reason));
        }
        let index = object(&index_path)?;
        let Some(Value::Object(map)) = index.get("weight_map") else {
            return Err(Error::file(&index_path, "weight_map is missing"));
        };
        let mut shards = BTreeSet::new();
        for (tensor, shard) in map {
            // A path could lead out of the folder.
            match shard.as_str() {
                Some(name) if Path::new(name).file_name().is_some_and(|file| file == name) => {
                    shards.insert(name);
                }
                _ => {
                    let reason = format!("shard {shard} must be the name of a file in the folder");
                    return Err(Error::tensor(&index_path, tensor, reason));
                }
            }
        }
        let files = shards.into_iter().map(|name| WeightFile::open(folder.join(name))).collect::<Result<Vec<_>>>()?;
        for (tensor, shard) in map {
            let held = files.iter().find(|file| file.path.file_name().and_then(|name| name.to_str()) == shard.as_str());
            if let Some(file) = held.filter(|file| !file.infos.contains_key(tensor)) {
                let reason = format!("is not in this file, though {INDEX} says so");
                return Err(Error::tensor(&file.path, tensor, reason));
            }
        }
        Ok(Self { files })
    }

    /// The tensors of a list, all of them and no others. A tied model may hold its output matrix a second time.
    fn read(mut self, expected: Vec<(String, Vec<usize>)>, tied: bool) -> Result<BTreeMap<String, HostTensor>> {
        let mut place = BTreeMap::new();
        for (at, file) in self.files.iter().enumerate() {
            for name in file.infos.keys() {
                if place.insert(name.clone(), at).is_some() {
                    return Err(Error::tensor(&file.path, name, "is in another shard too"));
                }
            }
        }
        // Names and shapes first: nothing is allocated for a model that does not fit.
        let mut order = Vec::with_capacity(expected.len());
        for (name, shape) in expected {
            let Some(at) = place.remove(&name) else {
                let reason = format!("is missing; the config asks for shape {shape:?}");
                return Err(Error::tensor(&self.where_to_look(), &name, reason));
            };
            let file = &self.files[at];
            if let Some(info) = file.infos.get(&name) {
                check_shape(&file.path, &name, &info.shape, &shape)?;
            }
            order.push((name, at));
        }
        let tied_head = if tied { place.remove_entry(names::HEAD) } else { None };
        for (name, at) in &place {
            if !name.ends_with("rotary_emb.inv_freq") {
                let reason = "is not part of the model that config.json describes";
                return Err(Error::tensor(&self.files[*at].path, name, reason));
            }
        }
        let mut tensors = BTreeMap::new();
        for (name, at) in order {
            let tensor = self.files[at].read(&name)?;
            tensors.insert(name, tensor);
        }
        if let Some((name, at)) = tied_head {
            let head = self.files[at].read(&name)?;
            if tensors.get(names::EMBEDDING) != Some(&head) {
                let reason = format!("differs from {}, though config.json says tie_word_embeddings = true", names::EMBEDDING,);
                return Err(Error::tensor(&self.files[at].path, &name, reason));
            }
        }
        Ok(tensors)
    }

    /// The one file, or the folder of the shards.
    fn where_to_look(&self) -> PathBuf {
        match self.files.as_slice() {
            [one] => one.path.clone(),
            files => files.first().and_then(|file| file.path.parent()).map_or_else(PathBuf::new, Path::to_path_buf),
        }
    }
}

impl WeightFile {
    /// Reads the header and checks it against the size of the file.
    fn open(path: PathBuf) -> Result<Self> {
        let mut file = File::open(&path).map_err(Error::io(&path))?;
        let size = file.metadata().map_err(Error::io(&path))?.len();
        let mut length = [0u8; 8];
        if size < 8 {
            return Err(Error::file(&path, format!("truncated: {size} bytes, no header")));
        }
        file.read_exact(&mut length).map_err(Error::io(&path))?;
        let length = u64::from_le_bytes(length);
        if length > size - 8 {
            let reason = format!("truncated: a header of {length} bytes in a file of {size}");
            return Err(Error::file(&path, reason));
        }
        let mut header = vec![0u8; usize::try_from(length).unwrap_or(0)];
        file.read_exact(&mut header).map_err(Error::io(&path))?;
        // Checks that the tensors lie one after the other and are as long as their shapes say.
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| Error::file(&path, format!("damaged header: {error}")))?;
        let wanted = metadata.data_len() as u64;
        let data_start = 8 + length;
        if wanted != size - data_start {
            let given = size - data_start;
            let word = if given < wanted { "truncated" } else { "damaged" };
            let reason = format!("{word}: {given} bytes of data, the header asks for {wanted}");
            // The first tensor that is not whole.
            let infos = metadata.tensors();
            let cut = infos.iter().filter(|(_, info)| info.data_offsets.1 as u64 > given).min_by_key(|(_, info)| info.data_offsets);
            return Err(match cut {
                Some((name, _)) => Error::tensor(&path, name, reason),
                None => Error::file(&path, reason),
            });
        }
        let infos = metadata.tensors().into_iter().map(|(name, info)| (name, info.clone()));
        Ok(Self { infos: infos.collect(), path, file, data_start })
    }

    fn read(&mut self, name: &str) -> Result<HostTensor> {
        let Some(info) = self.infos.get(name) else {
            return Err(Error::tensor(&self.path, name, "is missing"));
        };
        let convert: fn(&[u8]) -> Vec<f32> = match info.dtype {
            Dtype::F64 => |bytes| elements(bytes, |b| f64::from_le_bytes(b) as f32),
            Dtype::F32 => |bytes| elements(bytes, f32::from_le_bytes),
            Dtype::F16 => |bytes| elements(bytes, |b| half::f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => |bytes| elements(bytes, |b| half::bf16::from_le_bytes(b).to_f32()),
            other => {
                let reason = format!("type {other:?} is not supported; supported: {TYPES}");
                return Err(Error::tensor(&self.path, name, reason));
            }
        };
        let (start, end) = info.data_offsets;
        let mut bytes = vec![0u8; end - start];
        let start = self.data_start + start as u64;
        self.file.seek(SeekFrom::Start(start)).map_err(Error::io(&self.path))?;
        self.file.read_exact(&mut bytes).map_err(|error| Error::tensor(&self.path, name, error.to_string()))?;
        Ok(HostTensor { shape: info.shape.clone(), data: convert(&bytes) })
    }
}

fn tokenizer(folder: &Path, config: &Map<String, Value>) -> Result<Option<Tokenizer>> {
    let path = folder.join("tokenizer.json");
    if !path.exists() {
        return Ok(None);
    }
    let bytes = std::fs::read(&path).map_err(Error::io(&path))?;
    let tokenizer = Tokenizer::from_json(bytes).map_err(|error| Error::file(&path, error.to_string()))?;
    Ok(Some(tokenizer.with_config(config.clone())))
}

fn generation(
    folder: &Path,
    config: &Map<String, Value>,
    tokenizer_config: &Map<String, Value>,
    tokenizer: Option<&Tokenizer>,
) -> Result<GenerationDefaults> {
    let path = folder.join("generation_config.json");
    let own = object(&path)?;
    let get = |field: &str| own.get(field).filter(|value| !value.is_null());
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    // The file that is for it, else the model's config, else the tokenizer's.
    let token = |field: &str, name: &str| -> Result<Vec<u32>> {
        if let Some(value) = get(field).or_else(|| config.get(field).filter(|v| !v.is_null())) {
            let list = match value {
                Value::Array(list) => list.iter().map(id).collect(),
                one => id(one).map(|id| vec![id]),
            };
            let reason = || format!("{field} = {value}, must be a token id or a list of them");
            return list.ok_or_else(|| Error::file(&path, reason()));
        }
        let text = tokenizer_config.get(name).and_then(crate::chat::token_text);
        Ok(text.and_then(|text| tokenizer?.token_to_id(text)).into_iter().collect())
    };
    let number = |field: &str| get(field).and_then(Value::as_f64);
    Ok(GenerationDefaults {
        end_tokens: token("eos_token_id", "eos_token")?,
        pad_token: token("pad_token_id", "pad_token")?.first().copied(),
        bos_token: token("bos_token_id", "bos_token")?.first().copied(),
        temperature: number("temperature"),
        top_k: get("top_k").and_then(Value::as_u64).and_then(|k| usize::try_from(k).ok()),
        top_p: number("top_p"),
        min_p: number("min_p"),
        repetition_penalty: number("repetition_penalty"),
    })
}

fn chat_template(folder: &Path, config: &Map<String, Value>) -> Result<Option<ChatTemplate>> {
    let path = folder.join("chat_template.jinja");
    let source = if path.exists() {
        std::fs::read_to_string(&path).map_err(Error::io(&path))?
    } else {
        let named = |entry: &Value, name: &str| entry.get("name").is_some_and(|given| given == name);
        let text = match config.get("chat_template") {
            Some(Value::String(source)) => Some(source.as_str()),
            Some(Value::Array(list)) => list.iter().find(|entry| named(entry, "default")).and_then(|entry| entry.get("template")?.as_str()),
            _ => None,
        };
        let Some(text) = text else { return Ok(None) };
        text.to_owned()
    };
    let mut template = ChatTemplate::new(&source)?;
    for name in ["bos_token", "eos_token", "pad_token", "unk_token"] {
        if let Some(text) = config.get(name).and_then(crate::chat::token_text) {
            template = template.with_variable(name, text);
        }
    }
    Ok(Some(template))
}

mod classifier;
pub(crate) use classifier::Classifier;

#[cfg(test)]
mod tests;
