//! Models: opened, and written when they have learnt.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use grpo_lm::export::{WeightType, write_hf_folder, write_peft};
use grpo_lm::{Checkpoint, Decoder};

use crate::config::{Config, ModelConfig};
use crate::failure::Failure;

/// Opens a model's files: what lies at that path, else what the hub has under that id.
pub fn open(model: &ModelConfig) -> Result<Checkpoint, Failure> {
    let path = Path::new(&model.path);
    let is_id = !path.exists()
        && !model.path.starts_with(['.', '/', '~'])
        && model.path.split('/').count() == 2
        && path.extension().is_none_or(|extension| extension != "gguf");
    if is_id { fetched(&model.path) } else { Checkpoint::open(path).map_err(Failure::input) }
}

#[cfg(feature = "hub")]
fn fetched(id: &str) -> Result<Checkpoint, Failure> {
    let fetched = grpo_lm::hub::fetch(id, &grpo_lm::hub::HubOptions::default());
    let folder = fetched.map_err(|error| Failure::input(format!("{id} is not a path here; {error}")))?;
    Checkpoint::open(folder).map_err(Failure::input)
}

#[cfg(not(feature = "hub"))]
fn fetched(id: &str) -> Result<Checkpoint, Failure> {
    Err(Failure::input(format!("{id}: no such file or folder; for models of the hub, build with the feature `hub`")))
}

/// That the settings suit the model.
pub fn suits(config: &Config, checkpoint: &Checkpoint) -> Result<(), Failure> {
    let vocabulary = checkpoint.config.vocab_size;
    if let Some(token) = config.train.sampling.end_tokens.iter().find(|token| **token as usize >= vocabulary) {
        return Err(Failure::input(format!("end_tokens has {token}, must be below the vocabulary of {vocabulary}")));
    }
    config.model.lora.as_ref().map_or(Ok(()), |lora| lora.validate_for(&checkpoint.config)).map_err(Failure::input)
}

/// The device that the settings name, without autodiff.
pub fn device(config: &Config) -> Result<Device, Failure> {
    grpo_device::open(&config.model.device).map_err(Failure::input)
}

/// The policy of the settings: a frozen model with factors, or a model as it is.
pub fn policy(config: &Config, checkpoint: &Checkpoint) -> Result<Decoder, Failure> {
    let model = Decoder::from_checkpoint(checkpoint, &device(config)?.autodiff()).map_err(Failure::input)?;
    match &config.model.lora {
        Some(lora) => model.with_lora(lora).map_err(Failure::input),
        None => Ok(model),
    }
}

/// Writes what was learnt, and returns where to: an adapter in PEFT's form, or the whole model as a Hugging Face folder.
pub fn save(config: &Config, policy: &Decoder, mut checkpoint: Checkpoint) -> Result<PathBuf, Failure> {
    if policy.lora_config().is_some() {
        let folder = config.run.join("adapter");
        let adapter = policy.lora_adapter(&config.model.path).map_err(Failure::run)?;
        write_peft(&folder, &adapter).map_err(Failure::run)?;
        return Ok(folder);
    }
    let folder = config.run.join("model");
    checkpoint.tensors = policy.to_host_tensors().map_err(Failure::run)?;
    write_hf_folder(&folder, &checkpoint, WeightType::F32).map_err(Failure::run)?;
    Ok(folder)
}
