//! sampling.json

use super::{Matrix, case, fits};

case! {
    /// Rows of logits through the sampling filters.
    SamplingCase {
        logits: Matrix,
        previous_ids: Vec<Vec<u32>>,
        temperature: f64,
        top_k: usize,
        top_p: f64,
        min_p: f64,
        repetition_penalty: f64,
        kept: Matrix,
        probs: Matrix,
    }
}

impl SamplingCase {
    pub(crate) fn validate(&self) -> Result<(), String> {
        fits("previous_ids", self.previous_ids.len(), self.logits.rows)?;
        self.logits.same_shape("kept", &self.kept)?;
        self.logits.same_shape("probs", &self.probs)?;
        match self.previous_ids.iter().flatten().find(|id| **id as usize >= self.logits.cols) {
            Some(bad) => Err(format!("previous id {bad}, must be below {}", self.logits.cols)),
            None => Ok(()),
        }
    }
}
