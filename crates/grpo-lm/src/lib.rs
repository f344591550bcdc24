//! Language models as GRPO policies: files in and out, tokenizer, chat template, decoder, sampler, LoRA.

pub mod chat;
pub mod checkpoint;
pub mod config;
pub mod error;
pub mod export;
#[cfg(feature = "hub")]
pub mod hub;
pub mod tokenizer;

pub use checkpoint::Checkpoint;
pub use config::ModelConfig;
pub use error::{Error, Result};
pub use tokenizer::Tokenizer;
