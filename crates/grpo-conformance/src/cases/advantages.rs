//! advantages.json, advantages_multi.json, advantages_token.json

use serde::Deserialize;

use super::{Matrix, case, fits, groups_fit};

case! {
    /// One scalar reward a completion.
    ScalarCase {
        num_groups: usize,
        group_size: usize,
        rewards: Vec<f64>,
        expected: Vec<ScalarResult>,
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScalarResult {
    pub method: Method,
    pub params: ScalarParams,
    pub advantages: Vec<f64>,
    #[serde(default, rename = "oracle")]
    _oracle: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    Grpo,
    DrGrpo,
    Rloo,
    PassAtK,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScalarParams {
    #[serde(default)]
    pub scale: Scale,
    #[serde(default)]
    pub eps: f64,
    #[serde(default)]
    pub ddof: Ddof,
    #[serde(default)]
    pub singleton: Singleton,
    #[serde(default)]
    pub normalize_by_std: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scale {
    #[default]
    Group,
    Batch,
    None,
}

/// 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "u8")]
pub(crate) struct Ddof(pub u8);

impl TryFrom<u8> for Ddof {
    type Error = String;
    fn try_from(ddof: u8) -> Result<Self, String> {
        if ddof < 2 { Ok(Self(ddof)) } else { Err(format!("ddof is {ddof}, must be 0 or 1")) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(crate) enum Singleton {
    #[default]
    #[serde(rename = "n/a")]
    NotApplicable,
    #[serde(rename = "zero")]
    Zero,
    #[serde(rename = "raw")]
    Raw,
}

impl ScalarCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        groups_fit("rewards", self.rewards.len(), self.num_groups, self.group_size)
    }
}

case! {
    /// Several reward functions; `None` is a missing reward.
    MultiCase {
        num_groups: usize,
        group_size: usize,
        num_reward_functions: usize,
        weights: Vec<f64>,
        rewards: Vec<Vec<Option<f64>>>,
        expected: Vec<MultiResult>,
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MultiResult {
    /// Always `grpo`.
    #[serde(rename = "method")]
    _method: Method,
    pub aggregation: Aggregation,
    pub params: MultiParams,
    pub advantages: Vec<f64>,
    #[serde(default, rename = "oracle")]
    _oracle: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Aggregation {
    SumThenNormalize,
    NormalizeThenSum,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MultiParams {
    #[serde(default)]
    pub scale: Scale,
    pub eps: f64,
    pub ddof: Ddof,
}

impl MultiCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        fits("weights", self.weights.len(), self.num_reward_functions)?;
        groups_fit("rewards", self.rewards.len(), self.num_groups, self.group_size)?;
        self.rewards.iter().try_for_each(|row| fits("a row of rewards", row.len(), self.num_reward_functions))
    }
}

case! {
    /// Rewards, values and advantages a token.
    TokenCase {
        num_groups: usize,
        group_size: usize,
        token_rewards: Matrix,
        values: Matrix,
        remax_baseline: Vec<f64>,
        mask: Matrix,
        expected: Vec<TokenResult>,
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenResult {
    pub method: TokenMethod,
    pub params: TokenParams,
    #[serde(default)]
    pub advantages: Option<Matrix>,
    #[serde(default)]
    pub advantages_raw: Option<Matrix>,
    #[serde(default)]
    pub advantages_whitened: Option<Matrix>,
    #[serde(default)]
    pub returns: Option<Matrix>,
    #[serde(default, rename = "oracle")]
    _oracle: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TokenMethod {
    Gae,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    Opo,
    Remax,
    GrpoToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenParams {
    #[serde(default = "one")]
    pub gamma: f64,
    #[serde(default = "one")]
    pub lambda: f64,
    #[serde(default)]
    pub scale: Scale,
    #[serde(default)]
    pub eps: f64,
    #[serde(default)]
    pub ddof: Ddof,
    #[serde(default)]
    pub singleton: Singleton,
}

fn one() -> f64 {
    1.0
}

impl TokenCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        groups_fit("mask", self.mask.rows, self.num_groups, self.group_size)?;
        fits("remax_baseline", self.remax_baseline.len(), self.mask.rows)?;
        self.mask.same_shape("token_rewards", &self.token_rewards)?;
        self.mask.same_shape("values", &self.values)
    }
}
