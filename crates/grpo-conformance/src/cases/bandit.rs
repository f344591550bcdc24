//! bandit.json

use serde::Deserialize;

use super::{Ddof, case, fits};

case! {
    /// A policy that is one row of logits, one group, and SGD steps on it.
    BanditCase {
        params: BanditParams,
        logits: Vec<f64>,
        ref_logits: Vec<f64>,
        tokens: Vec<u32>,
        rewards: Vec<f64>,
        advantages: Vec<f64>,
        steps: Vec<BanditStep>,
        final_probability_of_good: f64,
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BanditParams {
    pub vocabulary: usize,
    pub group_size: usize,
    pub lr: f64,
    pub clip_low: f64,
    pub clip_high: f64,
    pub beta: f64,
    pub good_token: usize,
    pub ddof: Ddof,
    pub eps: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BanditStep {
    pub loss: f64,
    pub kl: f64,
    pub grad: Vec<f64>,
    pub logits_after: Vec<f64>,
}

impl BanditCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        let (v, g) = (self.params.vocabulary, self.params.group_size);
        fits("logits", self.logits.len(), v)?;
        fits("ref_logits", self.ref_logits.len(), v)?;
        fits("tokens", self.tokens.len(), g)?;
        fits("rewards", self.rewards.len(), g)?;
        match self.tokens.iter().map(|t| *t as usize).chain([self.params.good_token]).find(|t| *t >= v) {
            Some(bad) => Err(format!("token {bad}, must be below {v}")),
            None => Ok(()),
        }
    }
}
