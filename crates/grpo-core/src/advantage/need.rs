//! What an estimator may ask for.

/// One thing an estimator cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// One reward a completion, or token rewards and masks.
    Rewards,
    /// The rewards of each function with their weights.
    Functions,
    /// Which tokens take part in the loss.
    Masks,
    /// The critic's value at each token.
    Values,
    /// A baseline a completion: the greedy answer's reward (ReMax), or the role's running mean.
    Baselines,
    /// Rewards of reasoning steps.
    Steps,
    /// The probability of each token and Σ_v π(v)² at its place.
    Probabilities,
}

impl Need {
    /// The method that gives it.
    pub(crate) fn call(self) -> &'static str {
        match self {
            Self::Rewards => "with_rewards or with_token_rewards",
            Self::Functions => "with_functions",
            Self::Masks => "with_masks or with_lengths",
            Self::Values => "with_values",
            Self::Baselines => "with_baselines",
            Self::Steps => "with_steps",
            Self::Probabilities => "with_probabilities",
        }
    }

    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rewards => "rewards",
            Self::Functions => "functions",
            Self::Masks => "masks",
            Self::Values => "values",
            Self::Baselines => "baselines",
            Self::Steps => "steps",
            Self::Probabilities => "probabilities",
        }
    }
}
