//! What can go wrong while a run goes on, and how it is said.

use std::path::{Path, PathBuf};

use grpo_core::BoxError;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The core refused something, or user code it called failed.
    #[error(transparent)]
    Core(#[from] grpo_core::Error),
    /// A file or folder that could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A configuration that could not be read.
    #[error("configuration{}: {problem}", path.as_ref().map_or_else(String::new, |p| format!(" {}", p.display())))]
    Config {
        /// The file, if it came from one.
        path: Option<PathBuf>,
        /// What is wrong with it and what is allowed.
        problem: String,
    },
    /// A checkpoint that is damaged, incomplete, or of something else.
    #[error("checkpoint {}: {problem}", path.display())]
    Checkpoint {
        /// The checkpoint's folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Data that breaks a rule.
    #[error("{what}: {problem}")]
    Invalid {
        /// The name of the thing.
        what: &'static str,
        /// What is wrong with it and what is allowed.
        problem: String,
    },
    /// A source of prompts failed.
    #[error("prompts: {0}")]
    Prompts(#[source] BoxError),
    /// An environment failed.
    #[error("environment: {0}")]
    Environment(#[source] BoxError),
    /// An observer failed.
    #[error("observer `{name}`: {source}")]
    Observer {
        /// The observer's name.
        name: String,
        /// What happened.
        source: BoxError,
    },
}

impl Error {
    /// An [`Error::Io`]: use it in `map_err`.
    pub fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { path, source }
    }

    /// An [`Error::Invalid`].
    pub fn invalid(what: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { what, problem: problem.into() }
    }
}
