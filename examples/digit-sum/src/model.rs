//! A small decoder-only transformer, as a GRPO policy: learned positions, RMS norm, ReLU MLP, and a prompt that is read once
//! for all its completions.

use burn::module::{Module, Param};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use grpo_core::{BoxError, Policy, ScoreRequest, Scores, TokenBatch, Want, log_softmax_at, stream};
use rand::RngExt;

/// The sizes of a model.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub vocabulary: usize,
    pub positions: usize,
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
}

#[derive(Module, Debug)]
pub struct Transformer {
    embed: Param<Tensor<2>>,    // [V, D]
    position: Param<Tensor<2>>, // [T, D]
    blocks: Vec<Block>,
    norm: Param<Tensor<1>>, // [D]
    head: Param<Tensor<2>>, // [D, V]
}

#[derive(Module, Debug)]
struct Block {
    norm1: Param<Tensor<1>>, // [D]
    qkv: Param<Tensor<2>>,   // [D, 3D]
    out: Param<Tensor<2>>,   // [D, D]
    norm2: Param<Tensor<1>>, // [D]
    up: Param<Tensor<2>>,    // [D, 4D]
    down: Param<Tensor<2>>,  // [4D, D]
    heads: usize,
}

/// Keys and values `[R, H, T, dh]`.
#[derive(Clone)]
pub struct Memory(Tensor<4>, Tensor<4>);

fn rms(x: Tensor<3>, weight: &Param<Tensor<1>>) -> Tensor<3> {
    let scale = (x.clone().square().mean_dim(2) + 1e-6).sqrt();
    x / scale * weight.val().unsqueeze()
}

fn linear(x: Tensor<3>, weight: &Param<Tensor<2>>) -> Tensor<3> {
    let [r, t, d] = x.dims();
    let w = weight.val();
    let out = w.dims()[1];
    x.reshape([r * t, d]).matmul(w).reshape([r, t, out])
}

impl Block {
    /// x [R, T, D]; `prompt` of [P,..]: R = P·G; `past` of the rows themselves.
    fn forward(&self, x: Tensor<3>, prompt: Option<&Memory>, past: Option<Memory>) -> (Tensor<3>, Memory) {
        let [r, t, d] = x.dims();
        let (h, dh) = (self.heads, d / self.heads);
        let qkv = linear(rms(x.clone(), &self.norm1), &self.qkv).reshape([r, t, 3, h, dh]).permute([2, 0, 3, 1, 4]);
        let part = |i: usize| qkv.clone().slice([i..i + 1, 0..r, 0..h, 0..t, 0..dh]).reshape([r, h, t, dh]);
        let (q, mut k, mut v) = (part(0) / (dh as f64).sqrt(), part(1), part(2));
        if let Some(Memory(pk, pv)) = past {
            (k, v) = (Tensor::cat(vec![pk, k], 2), Tensor::cat(vec![pv, v], 2));
        }
        let s = k.dims()[2];
        let bias: Vec<f32> = (0..t * s).map(|i| if i % s > i / s + (s - t) { -1e9 } else { 0.0 }).collect();
        let bias = Tensor::<4>::from_data(TensorData::new(bias, [1, 1, t, s]), &x.device());
        let own = q.clone().matmul(k.clone().swap_dims(2, 3)) + bias; // [R, H, T, S]
        let mixed = match prompt {
            None => softmax(own).matmul(v.clone()),
            Some(Memory(pk, pv)) => {
                let [p, _, tp, _] = pk.dims();
                let g = r / p;
                let q = q.reshape([p, g, h, t, dh]).permute([0, 2, 1, 3, 4]).reshape([p, h, g * t, dh]);
                let scores = q.matmul(pk.clone().swap_dims(2, 3)); // [P, H, G·T, Tp]
                let scores = scores.reshape([p, h, g, t, tp]).permute([0, 2, 1, 3, 4]).reshape([r, h, t, tp]);
                let w = softmax(Tensor::cat(vec![scores, own], 3)); // [R, H, T, Tp + S]
                let wp = w.clone().slice([0..r, 0..h, 0..t, 0..tp]);
                let wo = w.slice([0..r, 0..h, 0..t, tp..tp + s]);
                let wp = wp.reshape([p, g, h, t, tp]).permute([0, 2, 1, 3, 4]).reshape([p, h, g * t, tp]);
                let from_prompt = wp.matmul(pv.clone()).reshape([p, h, g, t, dh]).permute([0, 2, 1, 3, 4]).reshape([r, h, t, dh]);
                wo.matmul(v.clone()) + from_prompt
            }
        };
        let mixed = mixed.swap_dims(1, 2).reshape([r, t, d]);
        let x = x + linear(mixed, &self.out);
        let x = x.clone() + linear(relu(linear(rms(x, &self.norm2), &self.up)), &self.down);
        (x, Memory(k, v))
    }
}

fn softmax(z: Tensor<4>) -> Tensor<4> {
    log_softmax_at(z, 1.0).exp()
}

impl Transformer {
    pub fn new(sizes: Sizes, seed: u64, device: &Device) -> Self {
        let mut rng = stream(seed, usize::MAX);
        let mut matrix = |rows: usize, columns: usize, std: f64| {
            let bound = std * 3f64.sqrt();
            let values: Vec<f32> = (0..rows * columns).map(|_| rng.random_range(-bound..bound) as f32).collect();
            Param::from_tensor(Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), device))
        };
        let ones = || Param::from_tensor(Tensor::<1>::ones([sizes.width], device));
        let d = sizes.width;
        let std = (1.0 / d as f64).sqrt();
        let es: f64 = env("ES", 0.5);
        Self {
            embed: matrix(sizes.vocabulary, d, es),
            position: matrix(sizes.positions, d, es),
            blocks: (0..sizes.layers)
                .map(|_| Block {
                    norm1: ones(),
                    qkv: matrix(d, 3 * d, std),
                    out: matrix(d, d, std / (2.0 * sizes.layers as f64).sqrt()),
                    norm2: ones(),
                    up: matrix(d, 4 * d, std),
                    down: matrix(4 * d, d, std / 2.0 / (2.0 * sizes.layers as f64).sqrt()),
                    heads: sizes.heads,
                })
                .collect(),
            norm: ones(),
            head: matrix(d, sizes.vocabulary, std * 0.2),
        }
    }

    fn embed(&self, tokens: Tensor<2, Int>, first: usize) -> Tensor<3> {
        let [r, t] = tokens.dims();
        let x = self.embed.val().select(0, tokens.reshape([r * t])).reshape([r, t, self.embed.dims()[1]]);
        x + self.position.val().slice([first..first + t, 0..self.embed.dims()[1]]).unsqueeze()
    }

    /// Logits after the last prompt token [P, 1, V], and each layer's memory.
    pub fn read(&self, prompts: Tensor<2, Int>) -> (Tensor<3>, Vec<Memory>) {
        let [p, tp] = prompts.dims();
        let mut x = self.embed(prompts, 0);
        let mut memories = Vec::new();
        for block in &self.blocks {
            let (y, memory) = block.forward(x, None, None);
            x = y;
            memories.push(memory);
        }
        let d = x.dims()[2];
        (self.logits(x.slice([0..p, tp - 1..tp, 0..d])), memories)
    }

    /// Logits after each token [N, T, V].
    pub fn go_on(&self, tokens: Tensor<2, Int>, prompts: &[Memory], past: Vec<Option<Memory>>) -> (Tensor<3>, Vec<Option<Memory>>) {
        let first = prompts[0].0.dims()[2] + past[0].as_ref().map_or(0, |m| m.0.dims()[2]);
        let mut x = self.embed(tokens, first);
        let mut memories = Vec::new();
        for ((block, prompt), past) in self.blocks.iter().zip(prompts).zip(past) {
            let (y, memory) = block.forward(x, Some(prompt), past);
            x = y;
            memories.push(Some(memory));
        }
        (self.logits(x), memories)
    }

    fn logits(&self, x: Tensor<3>) -> Tensor<3> {
        linear(rms(x, &self.norm), &self.head)
    }

    pub fn layers(&self) -> usize {
        self.blocks.len()
    }

    pub fn device(&self) -> Device {
        self.embed.val().device()
    }
}

pub fn env<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

impl Policy for Transformer {
    fn score(&self, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> Result<Scores, BoxError> {
        let (p, n, tc) = (batch.prompts().rows(), batch.completions().rows(), batch.completions().width());
        let g = n / p;
        let device = self.device();
        let (first, memories) = self.read(batch.prompts().to_tensor(&device));
        let v = first.dims()[2];
        let first = first.unsqueeze_dim::<4>(1).expand([p, g, 1, v]).reshape([n, 1, v]);
        let tokens = batch.completions().to_tensor(&device);
        let logits = if tc > 1 {
            let (rest, _) = self.go_on(tokens.clone().slice([0..n, 0..tc - 1]), &memories, vec![None; self.layers()]);
            Tensor::cat(vec![first, rest], 1)
        } else {
            first
        };
        let log_probs = log_softmax_at(logits, ask.temperature); // [N, Tc, V]
        let mut scores = Scores::new(log_probs.clone().gather(2, tokens.reshape([n, tc, 1])).reshape([n, tc]));
        if ask.entropies != Want::No {
            scores.entropies = Some((log_probs.clone().exp() * log_probs).sum_dim(2).reshape([n, tc]).neg());
        }
        Ok(scores)
    }
}
