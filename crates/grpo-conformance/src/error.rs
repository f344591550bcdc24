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
    /// A device name that means nothing here.
    #[error("device `{name}` is not known, must be one of {known}")]
    UnknownDevice {
        /// The name that was given.
        name: String,
        /// The names that are known.
        known: String,
    },
    /// A device that this program was built without.
    #[error("device `{name}` is not compiled in: build with `--features {name}`; compiled in: {compiled}")]
    NotCompiled {
        /// The name that was given.
        name: &'static str,
        /// The names that would work.
        compiled: String,
    },
    /// A device that does not open.
    #[error("device `{name}`: {problem}")]
    Open {
        /// The name that was given.
        name: &'static str,
        /// What the backend said.
        problem: String,
    },
    /// A precision that the device does not have.
    #[error("the device does not compute {0}")]
    Precision(crate::Precision),
}

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;
