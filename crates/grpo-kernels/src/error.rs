//! What can be wrong with a request, found before any tensor is computed.

/// Why row statistics could not be computed. Every variant is found from shapes and settings alone, before burn sees the tensors.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A dimension that must be at least one is zero.
    #[error("{name} = 0, must be at least 1")]
    Empty {
        /// Which dimension.
        name: &'static str,
    },
    /// Two dimensions that must agree do not.
    #[error("{name} = {given}, must be {expected}: {rule}")]
    Mismatch {
        /// Which dimension.
        name: &'static str,
        /// Its size as given.
        given: usize,
        /// The size it must have.
        expected: usize,
        /// Why it must have that size.
        rule: &'static str,
    },
    /// The temperature cannot divide logits.
    #[error("temperature = {given}, must be finite and greater than 0")]
    Temperature {
        /// The temperature as given.
        given: f64,
    },
    /// Hidden states and weight have different element types.
    #[error("{name} has element type {given}, must be {expected}, the type of its hidden states")]
    ElementType {
        /// Which weight.
        name: &'static str,
        /// Its element type.
        given: String,
        /// The element type of the hidden states.
        expected: String,
    },
    /// A tensor is on another device than the hidden states.
    #[error("{name} is on device {given}, must be on {expected}, where the hidden states are")]
    Device {
        /// Which tensor.
        name: &'static str,
        /// Its device.
        given: String,
        /// The device of the hidden states.
        expected: String,
    },
}
