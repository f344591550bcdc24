//! What can go wrong, and how it is said.
//!
//! A message names the thing, what was given and what is allowed. Core never panics on input.

/// An error from user code (a reward, a sampler, a policy), boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting that is out of range, or two settings that contradict each other.
    #[error("{field} = {given}, must be {allowed}")]
    Config {
        /// The name of the setting.
        field: &'static str,
        /// The value that was given.
        given: String,
        /// What would have been accepted.
        allowed: &'static str,
    },
    /// A tensor or a list whose length does not fit.
    #[error("{what} has shape {given:?}, expected {expected:?}")]
    Shape {
        /// The name of the tensor or list.
        what: &'static str,
        /// Its shape.
        given: Vec<usize>,
        /// The shape that fits.
        expected: Vec<usize>,
    },
    /// Data that breaks a rule which is not about shapes.
    #[error("{what}: {problem}")]
    Invalid {
        /// The name of the thing.
        what: &'static str,
        /// What is wrong with it and what is allowed.
        problem: String,
    },
    /// A tensor that autodiff tracks where it must not, or the other way round.
    #[error("{what} must {} by autodiff: {hint}", if *tracked { "be tracked" } else { "not be tracked" })]
    Tracking {
        /// The name of the tensor.
        what: &'static str,
        /// Whether it should have been tracked.
        tracked: bool,
        /// What to do.
        hint: &'static str,
    },
    /// A reward function failed, panicked, or returned something that is not a reward.
    #[error("reward `{name}`, group {group}, completion {completion}: {source}")]
    Reward {
        /// The reward function's name.
        name: String,
        /// The group's id.
        group: u64,
        /// The position of the completion within its group.
        completion: usize,
        /// What happened.
        source: BoxError,
    },
    /// A policy failed to score.
    #[error("policy: {0}")]
    Policy(#[source] BoxError),
    /// A sampler failed.
    #[error("sampler: {0}")]
    Sampler(#[source] BoxError),
    /// Values could not be read back from a device.
    #[error("reading {what} from the device: {problem}")]
    Device {
        /// What was read.
        what: &'static str,
        /// What the device said.
        problem: String,
    },
}

impl Error {
    /// A [`Error::Config`] with the given value written out.
    pub fn config(field: &'static str, given: impl std::fmt::Display, allowed: &'static str) -> Self {
        Self::Config { field, given: given.to_string(), allowed }
    }

    /// A [`Error::Invalid`].
    pub fn invalid(what: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { what, problem: problem.into() }
    }

    /// `Ok` if the shapes agree, a [`Error::Shape`] otherwise.
    pub fn check_shape(what: &'static str, given: &[usize], expected: &[usize]) -> Result<()> {
        if given == expected { Ok(()) } else { Err(Self::Shape { what, given: given.to_vec(), expected: expected.to_vec() }) }
    }
}
