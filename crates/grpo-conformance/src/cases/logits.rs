//! logits.json

use serde::Deserialize;

use super::{Cube, Matrix, TrlParams, case, fits};

case! {
    /// Logits of every completion token, and what follows from them.
    LogitsCase {
        temperature: f64,
        logits: Cube,
        actions: Matrix,
        mask: Matrix,
        old_logp: Matrix,
        ref_logp: Matrix,
        advantages: Vec<f64>,
        logp: Matrix,
        entropy: Matrix,
        grad_of_masked_logp_sum: Cube,
        grad_of_masked_entropy_sum: Cube,
        expected: Vec<LogitsResult>,
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogitsResult {
    pub variant: String,
    /// Always `trl`.
    #[serde(rename = "convention")]
    _convention: Convention,
    pub params: TrlParams,
    pub loss: f64,
    pub grad_logits: Cube,
    #[serde(default)]
    pub entropy_mask: Option<Matrix>,
    #[serde(default, rename = "oracle")]
    _oracle: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Convention {
    Trl,
}

impl LogitsCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        let [rows, cols, depth] = self.logits.shape();
        fits("mask", self.mask.rows, rows)?;
        fits("a row of the mask", self.mask.cols, cols)?;
        fits("advantages", self.advantages.len(), rows)?;
        for (what, given) in [("actions", &self.actions), ("old_logp", &self.old_logp), ("ref_logp", &self.ref_logp)] {
            self.mask.same_shape(what, given)?;
        }
        match self.actions.data.iter().find(|a| **a < 0.0 || a.fract() != 0.0 || **a >= depth as f64) {
            Some(bad) => Err(format!("action {bad}, must be a token below {depth}")),
            None => Ok(()),
        }
    }

    pub(crate) fn action(&self, row: usize, col: usize) -> usize {
        self.actions.at(row, col) as usize
    }
}
