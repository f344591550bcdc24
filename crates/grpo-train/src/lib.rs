#![doc = include_str!("../README.md")]

mod batches;
mod checkpoint;
mod clock;
mod collect;
mod conclude;
mod config;
mod episode;
mod error;
mod evaluate;
mod inspect;
pub mod observe;
mod optimizer;
mod prompts;
mod reference;
mod rules;
mod run;
mod save;
mod state;
mod stop;
mod told;
mod trainer;
mod weights;

pub use checkpoint::{Best, Better, CheckpointConfig, Refused, has_any as has_checkpoint, list as list_checkpoints};
pub use config::{EpisodeLimits, ReferenceConfig, ReplayConfig, SelectionConfig, TrainConfig, Truncated};
pub use episode::{Environment, Turn, rollout_episodes};
pub use error::{Error, Result};
pub use evaluate::{EvaluationConfig, pass_at_k};
pub use optimizer::{Optimizer, OptimizerConfig};
pub use prompts::{Drawn, PromptSource, Shuffled};
pub use stop::{EarlyStop, StopFlag};
pub use trainer::{Outcome, Resume, Task, Trainer};
