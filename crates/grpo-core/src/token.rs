//! Tokens, why a completion ended, and what kind of log-probability was recorded.

use serde::{Deserialize, Serialize};

/// A token of a model's vocabulary.
pub type TokenId = u32;

/// Why a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// An end token was sampled. It is the last token of the completion and takes part in the loss.
    EndToken,
    /// A stop string was produced.
    StopString,
    /// The length limit was reached: the completion is truncated.
    Length,
    /// Generation was given up from outside.
    Abort,
}

impl FinishReason {
    /// Whether the policy itself did not end the completion.
    ///
    /// ```
    /// use grpo_core::FinishReason;
    /// assert!(FinishReason::Length.is_truncated());
    /// assert!(!FinishReason::EndToken.is_truncated());
    /// ```
    pub fn is_truncated(self) -> bool {
        matches!(self, Self::Length | Self::Abort)
    }
}

/// What a sampler's log-probability means.
///
/// The importance ratio needs log-probabilities over the full support at the sampling temperature
/// ([`Self::Tempered`]); the others serve corrections at most and never enter a ratio silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogProbKind {
    /// log softmax(z): before the temperature.
    Raw,
    /// log softmax(z / T) over the whole vocabulary.
    Tempered,
    /// Renormalised over the tokens that survived top-k, top-p or min-p.
    Truncated,
}

/// Who wrote a stretch of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The policy: these tokens were sampled and take part in the loss.
    Policy,
    /// The environment (a tool, a game): read by the policy, never trained on.
    Environment,
}
