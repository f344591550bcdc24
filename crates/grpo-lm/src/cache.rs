//! Keys and values of what has been read: each prompt once, and what its completions have added.

use burn::Tensor;
use burn::tensor::{DType, Device, Int};
use grpo_core::TokenId;

use crate::config::ModelConfig;
use crate::decoder::{Angles, Decoder, KeyBlock, Layout, Projected, attend, block_of, causal_bias, index, length_bias};

/// How many tokens a block of a completion's own keys holds. A growing block is copied at each token, a full one never again.
const BLOCK: usize = 32;

/// Which completions are being decoded: for each prompt in the cache its rows, each one token per step.
///
/// Slots are `[P, G]` with G the largest group; a smaller group's last slots hold junk that nobody reads.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    /// For each prompt its number of rows, each at least 1.
    sizes: Vec<usize>,
    group: usize,
}

impl Slots {
    pub(crate) fn new(sizes: Vec<usize>) -> Self {
        let group = sizes.iter().copied().max().unwrap_or(0);
        Self { sizes, group }
    }

    fn layout(&self, device: &Device) -> Layout {
        let lengths: Vec<Vec<usize>> = self.sizes.iter().map(|&size| vec![1; size]).collect();
        Layout::new(0, &lengths, device)
    }

    /// The slot of each row, in order.
    fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.sizes.iter().enumerate().flat_map(move |(p, &size)| (0..size).map(move |g| p * self.group + g))
    }
}

/// Keys and values of all layers.
pub(crate) struct Cache {
    layers: Vec<LayerCache>,
    prompt_lengths: Vec<usize>,
    prompt_bias: Option<Tensor<5>>,
    slots: Slots,
    layout: Layout,
    device: Device,
    dtype: DType,
}

#[derive(Default)]
struct LayerCache {
    /// `[P, K, 1, Tp, d]`, keys and values.
    prompt: Option<(Tensor<5>, Tensor<5>)>,
    /// `[P, K, G, BLOCK, d]` each.
    full: Vec<(Tensor<5>, Tensor<5>)>,
    /// `[P, K, G, 1..BLOCK, d]`
    growing: Option<(Tensor<5>, Tensor<5>)>,
}

impl LayerCache {
    fn push(&mut self, keys: Tensor<5>, values: Tensor<5>) {
        let (keys, values) = match self.growing.take() {
            Some((k, v)) => (Tensor::cat(vec![k, keys], 3), Tensor::cat(vec![v, values], 3)),
            None => (keys, values),
        };
        if keys.dims()[3] == BLOCK {
            self.full.push((keys, values));
        } else {
            self.growing = Some((keys, values));
        }
    }

    fn blocks(&self, prompt_bias: &Option<Tensor<5>>) -> Vec<KeyBlock> {
        let block = |bias: &Option<Tensor<5>>, (keys, values): &(Tensor<5>, Tensor<5>)| KeyBlock {
            keys: keys.clone(),
            values: values.clone(),
            bias: bias.clone(),
        };
        let prompt = self.prompt.iter().map(|pair| block(prompt_bias, pair));
        prompt.chain(self.full.iter().chain(&self.growing).map(|pair| block(&None, pair))).collect()
    }
}

impl Cache {
    /// Reads prompts, each not empty, once. `samples` says how many completions each will have.
    /// Gives the final hidden state of each prompt's last token too, `[P, H]`.
    pub(crate) fn prefill(decoder: &Decoder, prompts: &[&[TokenId]], samples: Vec<usize>) -> (Self, Tensor<2>) {
        let (config, device, dtype) = (decoder.config(), decoder.device(), decoder.dtype());
        let lengths: Vec<usize> = prompts.iter().map(|p| p.len()).collect();
        let layout = Layout::new(0, &lengths.iter().map(|&l| vec![l]).collect::<Vec<_>>(), &device);
        let width = layout.width();
        let rep = config.num_attention_heads / config.num_key_value_heads;
        let bias = (width > 1).then(|| causal_bias(rep, width, &device, dtype));
        let positions: Vec<usize> = lengths.iter().flat_map(|&l| 0..l).collect();
        let angles = Angles::new(config, &positions, &device, dtype);

        let mut layers = Vec::with_capacity(decoder.layers.len());
        let mut x = decoder.embed(prompts.iter().flat_map(|p| p.iter().map(|&t| i64::from(t))).collect()); // [R, H]
        for block in &decoder.layers {
            x = block.forward(x, &angles, config, |projected| {
                let keys = block_of(&projected, &layout, bias.clone(), config);
                layers.push(LayerCache { prompt: Some((keys.keys.clone(), keys.values.clone())), ..LayerCache::default() });
                layout.rows(attend(queries(projected, &layout, config), &[keys]))
            }); // [R, H]
        }
        let last: Vec<i64> = lengths.iter().scan(0, |end, &l| Some((*end += l as i64, *end - 1).1)).collect();
        let hidden = decoder.finish(x.select(0, index(last, &device))); // [P, H]
        let slots = Slots::new(samples);
        let cache = Self {
            prompt_bias: length_bias(&lengths, width, &device, dtype),
            layout: slots.layout(&device),
            prompt_lengths: lengths,
            layers,
            slots,
            device,
            dtype,
        };
        (cache, hidden)
    }

    /// Reads one more token of every row, prompt after prompt; `step` tokens of each were read before.
    /// Gives the final hidden states, `[rows, H]`.
    pub(crate) fn step(&mut self, decoder: &Decoder, tokens: &[TokenId], step: usize) -> Tensor<2> {
        let config = decoder.config();
        let positions: Vec<usize> =
            self.prompt_lengths.iter().zip(&self.slots.sizes).flat_map(|(&l, &size)| std::iter::repeat_n(l + step, size)).collect();
        let angles = Angles::new(config, &positions, &self.device, self.dtype);
        let mut x = decoder.embed(tokens.iter().map(|&t| i64::from(t)).collect()); // [rows, H]
        for (block, cache) in decoder.layers.iter().zip(&mut self.layers) {
            let (layout, bias) = (&self.layout, &self.prompt_bias);
            x = block.forward(x, &angles, config, |projected| {
                let new = block_of(&projected, layout, None, config);
                cache.push(new.keys, new.values);
                layout.rows(attend(queries(projected, layout, config), &cache.blocks(bias)))
            }); // [rows, H]
        }
        decoder.finish(x) // [rows, H]
    }

    /// Keeps some rows, given by their positions in order. Prompts without rows leave, too.
    pub(crate) fn keep(&mut self, rows: &[usize]) {
        let old: Vec<usize> = self.slots.slots().collect();
        let group = self.slots.group;
        let mut kept: Vec<Vec<usize>> = vec![Vec::new(); self.slots.sizes.len()];
        for &row in rows {
            kept[old[row] / group].push(old[row]);
        }
        let prompts: Vec<usize> = (0..kept.len()).filter(|&p| !kept[p].is_empty()).collect();
        let slots = Slots::new(prompts.iter().map(|&p| kept[p].len()).collect());
        let all_prompts = prompts.len() == kept.len();
        // A slot without a row takes the prompt's first: finite, and never read.
        let from: Vec<i64> = prompts
            .iter()
            .flat_map(|&p| (0..slots.group).map(|g| kept[p].get(g).unwrap_or(&kept[p][0])).map(|&s| s as i64).collect::<Vec<_>>())
            .collect();
        let from = index(from, &self.device); // [P', G']
        let prompt_index = index(prompts.iter().map(|&p| p as i64).collect(), &self.device); // [P']
        let (p, g) = (prompts.len(), slots.group);
        let take = |(keys, values): (Tensor<5>, Tensor<5>)| (take_slots(keys, &from, p, g), take_slots(values, &from, p, g));
        for layer in &mut self.layers {
            layer.full = std::mem::take(&mut layer.full).into_iter().map(take).collect();
            layer.growing = layer.growing.take().map(take);
            if !all_prompts {
                let pick = |tensor: Tensor<5>| tensor.select(0, prompt_index.clone()); // [P', K, 1, Tp, d]
                layer.prompt = layer.prompt.take().map(|(keys, values)| (pick(keys), pick(values)));
            }
        }
        if !all_prompts {
            self.prompt_bias = self.prompt_bias.take().map(|bias| bias.select(0, prompt_index)); // [P', 1, 1, 1, Tp]
            self.prompt_lengths = prompts.iter().map(|&p| self.prompt_lengths[p]).collect();
        }
        self.layout = slots.layout(&self.device);
        self.slots = slots;
    }
}

fn queries(projected: Projected, layout: &Layout, config: &ModelConfig) -> Tensor<5> {
    layout.queries(projected.queries, config.num_key_value_heads, config.head_dim)
}

/// `[P, K, G, S, d]` to `[P', K, G', S, d]`: the slots `from`, counted through P and G.
fn take_slots(tensor: Tensor<5>, from: &Tensor<1, Int>, p: usize, g: usize) -> Tensor<5> {
    let [old_p, k, old_g, s, d] = tensor.dims();
    let rows: Tensor<4> = tensor.swap_dims(1, 2).reshape([old_p * old_g, k, s, d]); // [P·G, K, S, d]
    rows.select(0, from.clone()).reshape([p, g, k, s, d]).swap_dims(1, 2) // [P', K, G', S, d]
}
