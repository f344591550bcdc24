//! Recipes by name. A test pins every field.

use crate::advantage::{Ddof, Estimator, Standardise};
use crate::config::{GrpoConfig, KlPenalty, Reduction};

impl GrpoConfig {
    /// The formula of DeepSeekMath (arXiv 2402.03300): population std, sequence mean, β = 0.04 with k3 as it is written.
    pub fn deepseek_math() -> Self {
        Self {
            estimator: Estimator::Standardise(Standardise { ddof: Ddof::Population, ..Standardise::default() }),
            kl: Some(KlPenalty::plain_k3(0.04)),
            reduction: Reduction::SequenceMean,
            ..Self::default()
        }
    }
}
