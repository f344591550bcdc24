//! Attention: one function for prompts, completions and cached decoding, with and without autodiff.

use burn::Tensor;
use burn::module::Module;
use burn::tensor::{DType, Device, TensorData};

use super::linear::Linear;
use super::norm::RmsNorm;
use super::rope::Angles;
use crate::config::ModelConfig;

/// Keys and values that queries attend to, as one block of several.
///
/// P prompts, K key/value heads, S keys, head size d. Where the block is shared by the G completions of a prompt its third
/// dimension is 1, and the queries of all completions meet it in one product: nothing is copied G times.
#[derive(Debug, Clone)]
pub(crate) struct KeyBlock {
    /// `[P, K, G or 1, S, d]`
    pub(crate) keys: Tensor<5>,
    /// `[P, K, G or 1, S, d]`
    pub(crate) values: Tensor<5>,
    /// Added to the scores; broadcast to `[P, K, G, Q, S]`.
    pub(crate) bias: Option<Tensor<5>>,
}

/// softmax(q·kᵀ + bias)·v over the keys of all blocks together.
///
/// Queries `[P, K, G, Q, d]` already carry the scale 1/√d; Q holds the query heads that share a key head, times positions.
/// The answer has the same shape. The blocks are never joined: the maximum m runs over all blocks, then
/// o = Σ_blocks exp(s − m)·v / Σ_blocks Σ_keys exp(s − m).
///
/// Autodiff may track everything but the biases; m is a constant, which changes no gradient. A block whose keys are all masked
/// contributes exactly 0, as long as the query has one key elsewhere.
pub(crate) fn attend(queries: Tensor<5>, blocks: &[KeyBlock]) -> Tensor<5> {
    let scores: Vec<Tensor<5>> = blocks.iter().map(|block| block.scores(queries.clone())).collect(); // each [P, K, G, Q, S]
    let highest = scores.iter().map(|s| s.clone().detach().max_dim(4)).reduce(Tensor::max_pair); // [P, K, G, Q, 1]
    let mut sums: Option<(Tensor<5>, Tensor<5>)> = None;
    for (block, scores) in blocks.iter().zip(scores) {
        let Some(highest) = highest.clone() else { continue };
        let weights = (scores - highest).exp(); // [P, K, G, Q, S]
        let (total, mixed) = (weights.clone().sum_dim(4), block.mix(weights)); // [P, K, G, Q, 1], [P, K, G, Q, d]
        sums = Some(match sums {
            Some((t, m)) => (t + total, m + mixed),
            None => (total, mixed),
        });
    }
    match sums {
        Some((total, mixed)) => mixed / total, // [P, K, G, Q, d]
        None => queries.zeros_like(),
    }
}

impl KeyBlock {
    fn is_shared_by(&self, group: usize) -> bool {
        self.keys.dims()[2] == 1 && group > 1
    }

    fn scores(&self, queries: Tensor<5>) -> Tensor<5> {
        let [p, k, g, q, d] = queries.dims();
        let keys = self.keys.clone().transpose(); // [P, K, G or 1, d, S]
        let s = keys.dims()[4];
        let scores = if self.is_shared_by(g) {
            queries.reshape([p, k, 1, g * q, d]).matmul(keys).reshape([p, k, g, q, s])
        } else {
            queries.matmul(keys)
        }; // [P, K, G, Q, S]
        match &self.bias {
            Some(bias) => scores + bias.clone(),
            None => scores,
        }
    }

    fn mix(&self, weights: Tensor<5>) -> Tensor<5> {
        let [p, k, g, q, s] = weights.dims();
        let d = self.values.dims()[4];
        if self.is_shared_by(g) {
            weights.reshape([p, k, 1, g * q, s]).matmul(self.values.clone()).reshape([p, k, g, q, d]) // [P, K, G, Q, d]
        } else {
            weights.matmul(self.values.clone()) // [P, K, G, Q, d]
        }
    }
}

/// What is added to the score of a key that must not be seen: finite, so that a fully masked block gives no NaN, and so low
/// that exp of it is 0 in every type.
fn masked(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => -3e4,
        _ => -1e9,
    }
}

/// The bias that hides later positions: query `(head, i)` of T positions sees the keys 0..=i. `[1, 1, 1, heads·T, T]`.
pub(crate) fn causal_bias(heads: usize, positions: usize, device: &Device, dtype: DType) -> Tensor<5> {
    let mut bias = Vec::with_capacity(heads * positions * positions);
    for _ in 0..heads {
        for i in 0..positions {
            bias.extend((0..positions).map(|j| if j <= i { 0.0 } else { masked(dtype) }));
        }
    }
    Tensor::from_data(TensorData::new(bias, [1, 1, 1, heads * positions, positions]), (device, dtype))
}

/// The bias that hides what follows a shorter prompt, `[P, 1, 1, 1, T]`; none where all are of one length.
pub(crate) fn length_bias(lengths: &[usize], width: usize, device: &Device, dtype: DType) -> Option<Tensor<5>> {
    if lengths.iter().all(|&l| l == width) {
        return None;
    }
    let bias: Vec<f64> = lengths.iter().flat_map(|&l| (0..width).map(move |j| if j < l { 0.0 } else { masked(dtype) })).collect();
    Some(Tensor::from_data(TensorData::new(bias, [lengths.len(), 1, 1, 1, width]), (device, dtype)))
}

/// The four projections of attention, and the norms of Qwen3.
#[derive(Module, Debug)]
pub(crate) struct Attention {
    pub(crate) q_proj: Linear,
    pub(crate) k_proj: Linear,
    pub(crate) v_proj: Linear,
    pub(crate) o_proj: Linear,
    pub(crate) q_norm: Option<RmsNorm>,
    pub(crate) k_norm: Option<RmsNorm>,
}

/// Queries, keys and values of R rows, turned to their positions.
#[derive(Debug, Clone)]
pub(crate) struct Projected {
    /// `[R, query heads · d]`
    pub(crate) queries: Tensor<2>,
    /// `[R, key heads · d]`
    pub(crate) keys: Tensor<2>,
    /// `[R, key heads · d]`
    pub(crate) values: Tensor<2>,
}

impl Attention {
    /// `[R, H]` to queries, keys and values.
    pub(crate) fn project(&self, x: Tensor<2>, angles: &Angles, config: &ModelConfig) -> Projected {
        let (r, d) = (x.dims()[0], config.head_dim);
        let heads = |linear: &Linear, norm: &Option<RmsNorm>, heads: usize| {
            let y = linear.forward(x.clone()).reshape([r, heads, d]); // [R, heads, d]
            norm.iter().fold(y, |y, norm| norm.forward(y))
        };
        let queries = angles.turn_queries(heads(&self.q_proj, &self.q_norm, config.num_attention_heads));
        let keys = angles.turn(heads(&self.k_proj, &self.k_norm, config.num_key_value_heads));
        Projected {
            queries: queries.reshape([r, config.num_attention_heads * d]),
            keys: keys.reshape([r, config.num_key_value_heads * d]),
            values: self.v_proj.forward(x.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: [usize; 5], seed: usize, device: &Device) -> Tensor<5> {
        let length: usize = shape.iter().product();
        let values: Vec<f64> = (0..length).map(|i| ((i * 37 + seed * 11) % 23) as f64 * 0.1 - 1.1).collect();
        Tensor::from_data(TensorData::new(values, shape), (device, DType::F32))
    }

    fn values(tensor: Tensor<5>) -> Vec<f32> {
        tensor.try_into_vec_as::<f32>().unwrap()
    }

    /// P = 2, K = 2, G = 3, Q = 4, d = 4; six keys shared by the group, five of each completion's own.
    fn case(device: &Device) -> (Tensor<5>, [KeyBlock; 2]) {
        let block = |g, s, seed| KeyBlock {
            keys: tensor([2, 2, g, s, 4], seed, device),
            values: tensor([2, 2, g, s, 4], seed + 1, device),
            bias: None,
        };
        (tensor([2, 2, 3, 4, 4], 1, device), [block(1, 6, 2), block(3, 5, 4)])
    }

    fn hidden(keys: usize, device: &Device) -> Option<Tensor<5>> {
        Some(Tensor::full([1, 1, 1, 1, keys], masked(DType::F32), device))
    }

    #[test]
    fn a_fully_masked_block_contributes_exactly_nothing() {
        let device = Device::flex();
        for masked in [0, 1] {
            let (queries, mut blocks) = case(&device);
            let alone = attend(queries.clone(), &[blocks[1 - masked].clone()]);
            blocks[masked].bias = hidden(blocks[masked].keys.dims()[3], &device);
            let order = [blocks.clone(), [blocks[1].clone(), blocks[0].clone()]];
            for blocks in order {
                assert_eq!(values(attend(queries.clone(), &blocks)), values(alone.clone()), "in every bit");
            }
        }
    }

    #[test]
    fn gradients_past_a_fully_masked_block_are_finite_and_zero_within_it() {
        let device = Device::flex().autodiff();
        let (queries, mut blocks) = case(&device);
        let queries = queries.require_grad();
        for block in &mut blocks {
            block.keys = block.keys.clone().require_grad();
            block.values = block.values.clone().require_grad();
        }
        blocks[0].bias = hidden(6, &device);
        let gradients = attend(queries.clone(), &blocks).square().sum().backward();
        let of = |tensor: &Tensor<5>| values(tensor.grad(&gradients).unwrap());
        assert!(of(&queries).iter().all(|g| g.is_finite()) && of(&queries).iter().any(|g| *g != 0.0));
        assert!(of(&blocks[0].keys).iter().chain(&of(&blocks[0].values)).all(|g| *g == 0.0));
        assert!(of(&blocks[1].keys).iter().chain(&of(&blocks[1].values)).all(|g| g.is_finite()));
    }

    #[test]
    fn blocks_together_are_one_softmax_over_all_their_keys() {
        let device = Device::flex();
        let (queries, blocks) = case(&device);
        let whole = |of: fn(&KeyBlock) -> &Tensor<5>| Tensor::cat(vec![of(&blocks[0]).clone().repeat_dim(2, 3), of(&blocks[1]).clone()], 3);
        let (keys, mixed) = (whole(|b| &b.keys), whole(|b| &b.values)); // [P, K, G, 11, d]
        let weights = burn::tensor::activation::softmax(queries.clone().matmul(keys.transpose()), 4); // [P, K, G, Q, 11]
        let expected = values(weights.matmul(mixed));
        for (given, expected) in values(attend(queries, &blocks)).iter().zip(expected) {
            approx::assert_relative_eq!(*given, expected, epsilon = 1e-6);
        }
    }
}
