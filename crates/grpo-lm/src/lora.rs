//! Low-rank adaptation: small factors beside frozen matrices.

use std::collections::{BTreeMap, BTreeSet};

use burn::module::{Module as _, Param};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use serde::{Deserialize, Serialize};

use crate::checkpoint::HostTensor;
use crate::decoder::{Decoder, Factors, Linear, to_host, upload};
use crate::error::{Error, Result};

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

    fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }
}

/// The factors of one matrix in host memory.
#[derive(Debug, Clone, PartialEq)]
pub struct HostFactors {
    /// A, `[in, rank]`. PEFT stores its transpose.
    pub a: HostTensor,
    /// B, `[rank, out]`. PEFT stores its transpose.
    pub b: HostTensor,
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
        config.validate()?;
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

    /// The same model with given factors, under the names that [`lora_factors`](Self::lora_factors) gives them; every other weight is frozen.
    ///
    /// # Errors
    /// A setting out of range; a model that has factors already; factors that are missing, superfluous or of another shape, by name.
    pub fn load_lora(self, config: &LoraConfig, factors: &BTreeMap<String, HostFactors>) -> Result<Self> {
        config.validate()?;
        let device = self.device();
        let mut used = BTreeSet::new();
        let loaded = self.attach(config, |name, linear, _| {
            let Some(given) = factors.get(name) else {
                return Err(Error::Adapter(format!("{name} has no factors")));
            };
            used.insert(name.to_owned());
            let [out, from] = linear.weight.val().dims();
            let part = |part: &str, tensor: &HostTensor, shape: [usize; 2]| {
                if tensor.shape != shape || tensor.data.len() != shape[0] * shape[1] {
                    return Err(Error::Adapter(format!("{name}: {part} has shape {:?}, must be {shape:?}", tensor.shape)));
                }
                Ok(upload(tensor.data.clone(), shape, &device))
            };
            Ok((part("A", &given.a, [from, config.rank])?, part("B", &given.b, [config.rank, out])?))
        })?;
        match factors.keys().find(|name| !used.contains(*name)) {
            Some(name) => Err(Error::Adapter(format!("{name} is not among the targets of this model"))),
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

    /// The factors of every matrix that has them, under names like `model.layers.0.self_attn.q_proj`.
    ///
    /// # Errors
    /// Values that the device does not give back.
    pub fn lora_factors(&self) -> Result<BTreeMap<String, HostFactors>> {
        let mut all = BTreeMap::new();
        for (layer, block) in self.layers.iter().enumerate() {
            for (module, linear) in block.linears() {
                if let Some(lora) = &linear.lora {
                    let name = format!("model.layers.{layer}.{module}");
                    let factors = HostFactors { a: to_host(&name, lora.a.val())?, b: to_host(&name, lora.b.val())? };
                    all.insert(name, factors);
                }
            }
        }
        Ok(all)
    }

    /// A plain model with the factors multiplied into their matrices, as a model to roll out or to export: without autodiff, nothing trainable.
    ///
    /// Matrices without factors are shared, not copied.
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
