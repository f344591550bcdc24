//! One block: attention and MLP, each behind a norm and added to what came in.

use burn::Tensor;
use burn::module::Module;
use grpo_kernels::gated_silu;

use super::attention::{Attention, Projected};
use super::linear::Linear;
use super::norm::RmsNorm;
use super::rope::Angles;
use crate::config::ModelConfig;

/// The gated MLP: down(silu(gate(x)) · up(x)).
#[derive(Module, Debug)]
pub(crate) struct Mlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
}

impl Mlp {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate = self.gate_proj.forward(x.clone()); // [R, inner]
        let up = self.up_proj.forward(x); // [R, inner]
        self.down_proj.forward(gated_silu(gate, up)) // [R, H]
    }
}

/// One block of a decoder.
#[derive(Module, Debug)]
pub(crate) struct Block {
    pub(crate) input_layernorm: RmsNorm,
    pub(crate) self_attn: Attention,
    pub(crate) post_attention_layernorm: RmsNorm,
    pub(crate) mlp: Mlp,
}

impl Block {
    /// `[R, H]` to `[R, H]`. `mix` takes queries, keys and values of the rows and gives what each row read, `[R, query heads · d]`:
    /// who sees whom, and what is remembered, is the caller's business.
    pub(crate) fn forward(
        &self,
        x: Tensor<2>,
        angles: &Angles,
        config: &ModelConfig,
        mix: impl FnOnce(Projected) -> Tensor<2>,
    ) -> Tensor<2> {
        let projected = self.self_attn.project(self.input_layernorm.forward(x.clone()), angles, config);
        let x = x + self.self_attn.o_proj.forward(mix(projected)); // [R, H]
        let normed = self.post_attention_layernorm.forward(x.clone()); // [R, H]
        x + self.mlp.forward(normed) // [R, H]
    }
}
