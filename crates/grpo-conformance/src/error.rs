//! What can go wrong before a check runs. A check that goes wrong is a failed check, not an error.

use std::path::PathBuf;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A folder or file that cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that is not what its name says.
    #[error("{}: not golden vectors: {problem}", path.display())]
    Malformed {
        /// Where.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A folder without a file this suite knows.
    #[error("{}: holds none of {known}", path.display())]
    Empty {
        /// Where.
        path: PathBuf,
        /// The names that are looked for.
        known: String,
    },
    /// A device that is not known, not compiled in, or does not open.
    #[error(transparent)]
    Device(#[from] grpo_device::Error),
    /// A precision that the device does not have.
    #[error("the device does not compute {0}")]
    Precision(crate::Precision),
}

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;
