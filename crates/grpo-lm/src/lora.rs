//! Low-rank adaptation: small factors beside frozen matrices.

use std::collections::{BTreeMap, BTreeSet};

use burn::module::{Module as _, Param};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use serde::{Deserialize, Serialize};

use crate::checkpoint::HostTensor;
use crate::config::ModelConfig;
use crate::decoder::{Decoder, Factors, Linear, to_host, upload};
use crate::error::{Error, Result};
use crate::export::{LoraFactors, PeftAdapter};

/// One of the seven matrices of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoraTarget {
    /// `q_proj`
    Query,
    /// `k_proj`
    Key,
    /// `v_proj`
    Value,
    /// `o_proj`
    Output,
    /// `gate_proj`
    Gate,
    /// `up_proj`
    Up,
    /// `down_proj`
    Down,
}

impl LoraTarget {
    /// All seven.
    pub const ALL: [Self; 7] = [Self::Query, Self::Key, Self::Value, Self::Output, Self::Gate, Self::Up, Self::Down];

    /// The name of the matrix, as PEFT's `target_modules` writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "q_proj",
            Self::Key => "k_proj",
            Self::Value => "v_proj",
            Self::Output => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }

    /// `[out, in]` of the matrix in this model.
    const fn sides(self, model: &ModelConfig) -> [usize; 2] {
        let (hidden, inner) = (model.hidden_size, model.intermediate_size);
        match self {
            Self::Query => [model.num_attention_heads * model.head_dim, hidden],
            Self::Key | Self::Value => [model.num_key_value_heads * model.head_dim, hidden],
            Self::Output => [hidden, model.num_attention_heads * model.head_dim],
            Self::Gate | Self::Up => [inner, hidden],
            Self::Down => [hidden, inner],
        }
    }
}

/// Which matrices get factors, and of what size.
///
/// A matrix W `[out, in]` becomes W + (alpha / rank)·(A·B)ᵀ with A `[in, rank]` and B `[rank, out]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoraConfig {
    /// The rank r. At least 1.
    pub rank: usize,
    /// The change is scaled by alpha / rank.
    pub alpha: f64,
    /// The matrices, the same in each block. At least one.
    pub targets: BTreeSet<LoraTarget>,
    /// The seed of A.
    pub seed: u64,
}

impl Default for LoraConfig {
    /// Rank 16, alpha 32, all seven matrices.
    fn default() -> Self {
        Self { rank: 16, alpha: 32.0, targets: LoraTarget::ALL.into(), seed: 0 }
    }
}

impl LoraConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        let wrong = |field, given: String, allowed: &str| Err(Error::Config { field, given, allowed: allowed.to_owned() });
        if self.rank == 0 {
            return wrong("lora rank", "0".into(), "must be at least 1");
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return wrong("lora alpha", self.alpha.to_string(), "must be finite and above 0");
        }
        if self.targets.is_empty() {
            return wrong("lora targets", "none".into(), "must be at least one matrix");
        }
        Ok(())
    }

    /// Checks every field, also against the model: a rank above the larger side of a matrix could say nothing more.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate_for(&self, model: &ModelConfig) -> Result<()> {
        self.validate()?;
        let larger = |target: &LoraTarget| (target.sides(model).into_iter().max().unwrap_or(0), target.name());
        match self.targets.iter().map(larger).min() {
            Some((most, name)) if self.rank > most => {
                let allowed = format!("must be at most {most}, the larger side of {name}");
                Err(Error::Config { field: "lora rank", given: self.rank.to_string(), allowed })
            }
            _ => Ok(()),
        }
    }

    fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }
}

impl Decoder {
    /// The same model with low-rank factors; every other weight is frozen.
    ///
    /// A is uniform in ±1/√in from the host's generator, B is zero: nothing changes until the first step. Only the factors are
    /// tracked by autodiff, so only they have gradients and optimiser state.
    ///
    /// # Errors
    /// A setting out of range, or a model that has factors already.
    ///
    /// # Source
    /// Hu et al. (2021), with PEFT's initialisation.
    pub fn with_lora(self, config: &LoraConfig) -> Result<Self> {
        config.validate_for(self.config())?;
        let device = self.device();
        self.attach(config, |_, linear, stream| {
            let [out, from] = linear.weight.val().dims();
            let mut rng = ChaCha8Rng::seed_from_u64(config.seed);
            rng.set_stream(stream);
            let bound = (from as f64).sqrt().recip();
            let a = (0..from * config.rank).map(|_| ((rng.random::<f64>() * 2.0 - 1.0) * bound) as f32).collect();
            let b = vec![0.0; config.rank * out];
            Ok((upload(a, [from, config.rank], &device), upload(b, [config.rank, out], &device)))
        })
    }

    /// The same model with the factors of an adapter; every other weight is frozen.
    ///
    /// # Errors
    /// An adapter that has factors for one block and not for another, for something that is not a matrix of this model, or of another
    /// shape, by name; a model that has factors already.
    pub fn load_lora(self, adapter: &PeftAdapter) -> Result<Self> {
        adapter.validate()?;
        let names = adapter.target_modules();
        let targets = LoraTarget::ALL.into_iter().filter(|target| names.iter().any(|name| name == target.name())).collect();
        let config = LoraConfig { rank: adapter.rank, alpha: adapter.alpha, targets, seed: 0 };
        config.validate()?;
        let device = self.device();
        let mut used = BTreeSet::new();
        let loaded = self.attach(&config, |name, linear, _| {
            let Some(given) = adapter.factors.get(name) else {
                return Err(Error::Adapter(format!("{name} has no factors")));
            };
            used.insert(name.to_owned());
            let [out, from] = linear.weight.val().dims();
            let part = |part: &str, tensor: &HostTensor, [rows, columns]: [usize; 2]| {
                if tensor.shape != [rows, columns] || tensor.data.len() != rows * columns {
                    return Err(Error::Adapter(format!("{name}: {part} has shape {:?}, must be [{rows}, {columns}]", tensor.shape)));
                }
                Ok(upload(transposed(&tensor.data, rows, columns), [columns, rows], &device))
            };
            Ok((part("A", &given.a, [config.rank, from])?, part("B", &given.b, [out, config.rank])?))
        })?;
        match adapter.factors.keys().find(|name| !used.contains(*name)) {
            Some(name) => Err(Error::Adapter(format!("{name} is not a matrix of this model"))),
            None => Ok(loaded),
        }
    }

    fn attach(
        self,
        config: &LoraConfig,
        mut factors: impl FnMut(&str, &Linear, u64) -> Result<(burn::Tensor<2>, burn::Tensor<2>)>,
    ) -> Result<Self> {
        if self.lora.is_some() {
            return Err(Error::Adapter("the model has factors already: merge them first".into()));
        }
        let dtype = self.dtype();
        let mut decoder = self.no_grad();
        let mut stream = 0;
        for (layer, block) in decoder.layers.iter_mut().enumerate() {
            for (target, (module, linear)) in LoraTarget::ALL.into_iter().zip(block.linears_mut()) {
                stream += 1;
                if !config.targets.contains(&target) {
                    continue;
                }
                let (a, b) = factors(&format!("model.layers.{layer}.{module}"), linear, stream)?;
                let param = |tensor: burn::Tensor<2>| Param::from_tensor(tensor.cast(dtype));
                linear.lora = Some(Factors { a: param(a), b: param(b), scale: config.scale() });
            }
        }
        decoder.lora = Some(config.clone());
        Ok(decoder)
    }

    /// What [`with_lora`](Self::with_lora) was given, if it was called.
    pub fn lora_config(&self) -> Option<&LoraConfig> {
        self.lora.as_ref()
    }

    /// The factors in PEFT's form, to be written with [`write_peft`](crate::export::write_peft) or read back with
    /// [`load_lora`](Self::load_lora). `base_model` is the hub id or path of the model they belong to.
    ///
    /// # Errors
    /// A model without factors, or values that the device does not give back.
    pub fn lora_adapter(&self, base_model: impl Into<String>) -> Result<PeftAdapter> {
        let Some(config) = &self.lora else {
            return Err(Error::Adapter("the model has no factors".into()));
        };
        let mut factors = BTreeMap::new();
        for (layer, block) in self.layers.iter().enumerate() {
            for (module, linear) in block.linears() {
                if let Some(lora) = &linear.lora {
                    let name = format!("model.layers.{layer}.{module}");
                    let a = to_host(&name, lora.a.val().transpose())?; // [r, in]
                    let b = to_host(&name, lora.b.val().transpose())?; // [out, r]
                    factors.insert(name, LoraFactors { a, b });
                }
            }
        }
        Ok(PeftAdapter { base_model: base_model.into(), rank: config.rank, alpha: config.alpha, factors })
    }

    /// A plain model with the factors multiplied into their matrices, as a model to roll out or to export: without autodiff, nothing trainable.
    ///
    /// Matrices without factors are shared, not copied. [`LmSampler`](crate::LmSampler) does this itself at each call: to sample, hand it the
    /// policy as it is.
    #[must_use]
    pub fn merged(&self) -> Self {
        let mut decoder = self.snapshot();
        for (_, linear) in decoder.layers.iter_mut().flat_map(|block| block.linears_mut()) {
            if linear.lora.is_some() {
                let weight = linear.merged_weight();
                linear.weight = Param::initialized(linear.weight.id, weight);
                linear.lora = None;
            }
        }
        decoder.lora = None;
        decoder
    }
}

/// A matrix of rows·columns values, read by columns.
fn transposed(data: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| data[r * columns + c])).collect()
}
