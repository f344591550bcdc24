#![doc = include_str!("../README.md")]

mod cache;
pub mod chat;
pub mod checkpoint;
pub mod config;
pub mod decoder;
pub mod error;
pub mod export;
#[cfg(feature = "hub")]
pub mod hub;
pub mod lora;
mod policy;
pub mod reward;
pub mod sampler;
pub mod tokenizer;

pub use checkpoint::Checkpoint;
pub use config::ModelConfig;
pub use decoder::Decoder;
pub use error::{Error, Result};
pub use lora::{LoraConfig, LoraTarget};
pub use reward::{ModelReward, RewardModel};
pub use sampler::LmSampler;
pub use tokenizer::Tokenizer;
