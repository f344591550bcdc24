//! A matrix product, with or without low-rank factors beside the matrix.

use burn::Tensor;
use burn::module::{Module, Param};

/// y = x·Wᵀ + b, and with factors y = x·Wᵀ + b + s·(x·A)·B.
#[derive(Module, Debug)]
pub(crate) struct Linear {
    /// W, `[out, in]`.
    pub(crate) weight: Param<Tensor<2>>,
    /// b, `[out]`.
    pub(crate) bias: Option<Param<Tensor<1>>>,
    /// A and B.
    pub(crate) lora: Option<Factors>,
}

/// The low-rank factors of one matrix: its change is s·(A·B)ᵀ.
#[derive(Module, Debug)]
pub(crate) struct Factors {
    /// A, `[in, r]`.
    pub(crate) a: Param<Tensor<2>>,
    /// B, `[r, out]`.
    pub(crate) b: Param<Tensor<2>>,
    /// s = alpha / r.
    pub(crate) scale: f64,
}

impl Linear {
    pub(crate) fn new(weight: Tensor<2>, bias: Option<Tensor<1>>) -> Self {
        Self { weight: Param::from_tensor(weight), bias: bias.map(Param::from_tensor), lora: None }
    }

    /// `[R, in]` to `[R, out]`.
    pub(crate) fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let y = x.clone().matmul(self.weight.val().transpose()); // [R, out]
        let y = match &self.lora {
            // The scale goes on the narrow side: R·r products and not R·out.
            Some(lora) => y + x.matmul(lora.a.val()).mul_scalar(lora.scale).matmul(lora.b.val()), // [R, out]
            None => y,
        };
        match &self.bias {
            Some(bias) => y + bias.val().unsqueeze(), // [R, out]
            None => y,
        }
    }

    /// W + s·(A·B)ᵀ, `[out, in]`.
    pub(crate) fn merged_weight(&self) -> Tensor<2> {
        let weight = self.weight.val();
        match &self.lora {
            Some(lora) => {
                // Bᵀ·Aᵀ comes out as [out, in]: no transposed copy of a whole matrix.
                let change = lora.b.val().transpose().mul_scalar(lora.scale).matmul(lora.a.val().transpose()); // [out, in]
                weight + change
            }
            None => weight,
        }
    }
}
