//! A case with an oracle: tensor code beside plain loops over f64.

use burn::Tensor;
use burn::tensor::DType;
use grpo_core::to_host;

use super::Compare;
use super::tools::seeded;
use crate::runner::{Bench, Step, leaf_gradient};

/// An operation, and what it must give.
pub(super) struct Op {
    pub name: &'static str,
    /// How many numbers each input has.
    pub inputs: &'static [usize],
    /// The operation: inputs and output are flat, shapes are given within.
    pub tensors: fn(&Bench<'_>, &[Tensor<1>]) -> Tensor<1>,
    /// The same in plain loops.
    pub loops: fn(&[Vec<f64>]) -> Vec<f64>,
    /// Whether 16 bits are enough for it.
    pub half: Half,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    /// Models of 16 bits do it.
    Too,
    /// It is done in 32 bits at least.
    Never,
}

impl Op {
    pub fn is_for(&self, dtype: DType) -> bool {
        self.half == Half::Too || !matches!(dtype, DType::F16 | DType::BF16)
    }

    pub fn check(&self, bench: &Bench<'_>, gradient_tolerance: f64, seen: &mut Compare) -> Step {
        let inputs: Vec<Vec<f64>> = self.inputs.iter().enumerate().map(|(which, &length)| seeded(which, length)).collect();
        let want = (self.loops)(&inputs);
        let leaves: Vec<Tensor<1>> = inputs.iter().map(|values| bench.leaf(values, [values.len()])).collect();
        let out = (self.tensors)(bench, &leaves);
        seen.vector("value", &to_host(out.clone(), "value")?, &want);
        // Without autodiff backends may take kernels of their own.
        let plain: Vec<Tensor<1>> = inputs.iter().map(|values| bench.constant(values, [values.len()])).collect();
        seen.vector("value without autodiff", &to_host((self.tensors)(bench, &plain), "value")?, &want);

        // Each output counts with a weight of its own.
        let weights = seeded(inputs.len(), want.len());
        let upstream = bench.constant(&weights, [weights.len()]).cast(out.dtype());
        let gradients = (out * upstream).sum().backward();
        seen.loosen(gradient_tolerance);
        for (which, leaf) in leaves.iter().enumerate() {
            let got = leaf_gradient(leaf, &gradients)?;
            seen.vector(&format!("gradient of input {which}"), &got, &self.differences(&inputs, which, &weights));
        }
        Ok(())
    }

    /// Central differences of Σ weightᵢ outᵢ.
    fn differences(&self, inputs: &[Vec<f64>], which: usize, weights: &[f64]) -> Vec<f64> {
        const STEP: f64 = 1e-5;
        let mut moved = inputs.to_vec();
        (0..inputs[which].len())
            .map(|i| {
                let mut at = |value: f64| {
                    moved[which][i] = value;
                    (self.loops)(&moved).iter().zip(weights).map(|(out, weight)| out * weight).sum::<f64>()
                };
                let x = inputs[which][i];
                let slope = (at(x + STEP) - at(x - STEP)) / (2.0 * STEP);
                moved[which][i] = x;
                slope
            })
            .collect()
    }
}
