//! The one error type of this crate.

use std::path::{Path, PathBuf};

/// What can go wrong between a file of weights and a policy.
///
/// Every message names the thing, what was given and what is allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read or write.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },

    /// A file of a model is missing, damaged, or not what its name says.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// A tensor is missing, damaged, superfluous, or has another shape or type than the model needs.
    #[error("{path}: tensor {tensor}: {reason}", path = path.display())]
    Tensor {
        /// The file that holds, or should hold, the tensor.
        path: PathBuf,
        /// The name of the tensor.
        tensor: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A field of a model configuration has a value that no model can have.
    #[error("model config: {field} = {given}, {allowed}")]
    Config {
        /// The field.
        field: &'static str,
        /// The value.
        given: String,
        /// What is allowed.
        allowed: String,
    },

    /// A model that this crate cannot run.
    #[error("{what} = {given} is not supported; supported: {supported}")]
    Unsupported {
        /// The property of the model.
        what: String,
        /// Its value.
        given: String,
        /// The values that are supported.
        supported: String,
    },

    /// A tokenizer could not be built, or failed on a text.
    #[error("tokenizer: {0}")]
    Tokenizer(String),

    /// A chat template does not compile, or failed on a conversation.
    #[error("chat template: {0}")]
    ChatTemplate(String),

    /// Tokens, requests or settings that a model cannot work with.
    #[error("{what}: {problem}")]
    Input {
        /// The thing.
        what: &'static str,
        /// What is wrong with it, and what is allowed.
        problem: String,
    },

    /// Values could not be read back from a device.
    #[error("reading {what} from the device: {problem}")]
    Device {
        /// What was read.
        what: String,
        /// What the device said.
        problem: String,
    },

    /// The rows of the output matrix and what is asked of them do not fit together.
    #[error(transparent)]
    Rows(#[from] grpo_kernels::KernelError),

    /// Logits that no token can be drawn from, or sampling parameters out of range.
    #[error(transparent)]
    Sampling(#[from] grpo_core::Error),

    /// A LoRA adapter that does not fit its own description.
    #[error("LoRA adapter: {0}")]
    Adapter(String),

    /// A model could not be fetched by its hub id.
    #[error("hub: {id}: {reason}")]
    Hub {
        /// The id, `owner/name`.
        id: String,
        /// What is wrong.
        reason: String,
    },
}

/// A result, with this crate's [`Error`] unless another is named.
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_path_buf(), source }
    }

    pub(crate) fn file(path: &Path, reason: impl Into<String>) -> Self {
        Self::File { path: path.to_path_buf(), reason: reason.into() }
    }

    pub(crate) fn tensor(path: &Path, tensor: &str, reason: impl Into<String>) -> Self {
        Self::Tensor { path: path.to_path_buf(), tensor: tensor.to_owned(), reason: reason.into() }
    }

    pub(crate) fn input(what: &'static str, problem: impl Into<String>) -> Self {
        Self::Input { what, problem: problem.into() }
    }

    pub(crate) fn unsupported(what: impl Into<String>, given: impl std::fmt::Display, supported: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into(), given: given.to_string(), supported: supported.into() }
    }
}
