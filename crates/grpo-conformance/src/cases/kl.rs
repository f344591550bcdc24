//! kl_estimators.json, kl_exact.json

use serde::Deserialize;

use super::{Matrix, case, fits};

case! {
    /// Log-probabilities of the same tokens under the policy and the reference.
    EstimatorCase {
        logp: Vec<f64>,
        ref_logp: Vec<f64>,
        expected: Vec<EstimatorResult>,
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EstimatorResult {
    pub estimator: Estimator,
    #[serde(default)]
    pub clamp: bool,
    #[serde(default)]
    pub clamp_log_ratio: Option<f64>,
    #[serde(default)]
    pub clamp_value: Option<f64>,
    pub value: Vec<f64>,
    pub grad_logp: Vec<f64>,
    #[serde(default, rename = "oracle")]
    _oracle: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Estimator {
    #[serde(rename = "k1")]
    K1,
    #[serde(rename = "abs")]
    Abs,
    #[serde(rename = "k2")]
    K2,
    #[serde(rename = "k3")]
    K3,
    #[serde(rename = "k3_with_k2_gradient")]
    K3WithK2Gradient,
}

impl EstimatorCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        fits("ref_logp", self.ref_logp.len(), self.logp.len())
    }
}

case! {
    /// Logits of whole distributions, one a row.
    ExactCase {
        temperature: f64,
        policy_logits: Matrix,
        ref_logits: Matrix,
        kl_policy_ref: Vec<f64>,
        grad_policy_logits_of_sum: Matrix,
        kl_ref_policy: Vec<f64>,
    }
}

impl ExactCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.policy_logits.same_shape("ref_logits", &self.ref_logits)
    }
}
