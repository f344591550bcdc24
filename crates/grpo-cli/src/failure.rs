//! What went wrong, and which exit code says so.

use std::fmt;
use std::process::ExitCode;

use grpo_core::BoxError;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// What was given is not right. Nothing was computed.
    Input(BoxError),
    /// It failed while it ran.
    Run(BoxError),
}

/// Stopped by Ctrl-C, and saved.
pub const INTERRUPTED: u8 = 3;
/// Stopped by a second Ctrl-C, at once: what shells say of SIGINT.
pub const AT_ONCE: i32 = 130;

impl Failure {
    /// The input is not right.
    pub fn input(error: impl Into<BoxError>) -> Self {
        Self::Input(error.into())
    }

    /// It failed while it ran.
    pub fn run(error: impl Into<BoxError>) -> Self {
        Self::Run(error.into())
    }

    /// The exit code.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Run(_) => 1,
            Self::Input(_) => 2,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Input(error) | Self::Run(error)) = self;
        write!(f, "{error}")
    }
}
