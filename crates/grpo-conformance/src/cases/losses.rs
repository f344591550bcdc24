//! losses.json

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Matrix, case, fits, groups_fit};

case! {
    /// Log-probabilities, advantages and a mask.
    LossCase {
        num_groups: usize,
        group_size: usize,
        max_len: usize,
        logp: Matrix,
        old_logp: Option<Matrix>,
        ref_logp: Option<Matrix>,
        mask: Matrix,
        advantages: Vec<f64>,
        token_advantages: Option<Matrix>,
        expected: Vec<LossResult>,
    }
}

/// One loss of a case, in one of the two conventions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "convention", rename_all = "snake_case")]
pub(crate) enum LossResult {
    Trl { variant: String, params: TrlParams, loss: f64, grad_logp: Matrix, metrics: BTreeMap<String, f64> },
    Verl { variant: String, policy_loss: PolicyLoss, params: VerlParams, loss: f64, grad_logp: Matrix, metrics: BTreeMap<String, f64> },
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrlParams {
    pub loss_type: LossType,
    pub importance_sampling_level: Level,
    pub epsilon_low: Option<f64>,
    pub epsilon_high: Option<f64>,
    pub delta: Option<f64>,
    pub beta: Option<f64>,
    #[serde(default)]
    pub use_bias_correction_kl: bool,
    pub off_policy_mask_threshold: Option<f64>,
    pub sapo_temperature_pos: Option<f64>,
    pub sapo_temperature_neg: Option<f64>,
    pub vespo_k_pos: Option<f64>,
    pub vespo_k_neg: Option<f64>,
    pub vespo_lambda_pos: Option<f64>,
    pub vespo_lambda_neg: Option<f64>,
    pub num_items_in_batch: Option<f64>,
    pub max_completion_length: Option<f64>,
    pub gradient_accumulation_steps: Option<f64>,
    pub entropy_coef: Option<f64>,
    pub top_entropy_quantile: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LossType {
    Grpo,
    Bnpo,
    Dapo,
    DrGrpo,
    Luspo,
    Cispo,
    Sapo,
    Vespo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Token,
    Sequence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PolicyLoss {
    Vanilla,
    Gspo,
    Sapo,
    Cispo,
    GeoMean,
    Gpg,
    Dro,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerlParams {
    pub clip_ratio_low: Option<f64>,
    pub clip_ratio_high: Option<f64>,
    pub clip_ratio_c: Option<f64>,
    pub tau_pos: Option<f64>,
    pub tau_neg: Option<f64>,
    pub dro_beta: Option<f64>,
    pub loss_agg_mode: Aggregate,
    pub loss_scale_factor: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Aggregate {
    TokenMean,
    TokenSum,
    SeqMeanTokenSum,
    SeqMeanTokenMean,
    SeqMeanTokenSumNorm,
    #[serde(rename = "mean over sequences")]
    Sequences,
}

impl LossCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        groups_fit("mask", self.mask.rows, self.num_groups, self.group_size)?;
        fits("a row of the mask", self.mask.cols, self.max_len)?;
        fits("advantages", self.advantages.len(), self.mask.rows)?;
        self.mask.same_shape("logp", &self.logp)?;
        let others = [("old_logp", &self.old_logp), ("ref_logp", &self.ref_logp), ("token_advantages", &self.token_advantages)];
        others.iter().try_for_each(|(what, given)| given.as_ref().map_or(Ok(()), |m| self.mask.same_shape(what, m)))
    }
}
