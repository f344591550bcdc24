//! sampling.json

use grpo_core::{SamplingParams, filter};

use super::{Check, Golden, Library, Step};
use crate::cases::SamplingCase;
use crate::compare::Compare;
use crate::reference;

impl Golden for SamplingCase {
    fn validate(&self) -> Result<(), String> {
        SamplingCase::validate(self)
    }

    fn checks(&self) -> Vec<Check<'_>> {
        vec![Check {
            variant: String::new(),
            reference: Box::new(|seen| {
                for row in 0..self.logits.rows {
                    let (probs, kept) = reference::sampling::filter(self, row);
                    self.compare(row, &probs, &kept, seen);
                }
                Ok(())
            }),
            library: Library::Host(Box::new(|seen| self.on_host(seen))),
        }]
    }
}

impl SamplingCase {
    fn compare(&self, row: usize, probs: &[f64], kept: &[bool], seen: &mut Compare) {
        let kept: Vec<f64> = kept.iter().map(|&k| f64::from(u8::from(k))).collect();
        seen.vector(&format!("kept, row {row}"), &kept, self.kept.row(row));
        seen.vector(&format!("probs, row {row}"), probs, self.probs.row(row));
    }

    fn on_host(&self, seen: &mut Compare) -> Step {
        let params = SamplingParams {
            temperature: self.temperature,
            top_k: (self.top_k > 0).then_some(self.top_k),
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            ..SamplingParams::default()
        };
        for row in 0..self.logits.rows {
            let filtered = filter(self.logits.row(row), &self.previous_ids[row], &params)?;
            let kept: Vec<bool> = filtered.probs.iter().map(|p| *p > 0.0).collect();
            self.compare(row, &filtered.probs, &kept, seen);
        }
        Ok(())
    }
}
