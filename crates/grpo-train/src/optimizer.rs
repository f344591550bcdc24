//! The optimiser, with a state that can be saved and loaded exactly.

use std::sync::Arc;

use burn::module::ParamGroup;
use burn::optim::{
    AdamWConfig, DynOptimizer, DynState, GradientsParams, ModuleOptimizer, Optimizer as BurnOptimizer, OptimizerRecord, SgdConfig,
    StateSink, StateSource,
};
use burn::tensor::kind::BridgeTensor;
use burn::tensor::{Bytes, Device};
use serde::{Deserialize, Serialize};

use crate::config::core;
use crate::error::{Error, Result};

/// Which optimiser, where the trainer is not given another one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum OptimizerConfig {
    /// AdamW.
    AdamW {
        /// β₁, in [0, 1).
        #[serde(default = "beta_1")]
        beta_1: f64,
        /// β₂, in [0, 1).
        #[serde(default = "beta_2")]
        beta_2: f64,
        /// ε, above 0.
        #[serde(default = "epsilon")]
        epsilon: f64,
        /// λ, at least 0.
        #[serde(default)]
        weight_decay: f64,
    },
    /// Plain gradient descent.
    Sgd,
}

fn beta_1() -> f64 {
    0.9
}

fn beta_2() -> f64 {
    0.999
}

fn epsilon() -> f64 {
    1e-8
}

impl Default for OptimizerConfig {
    /// AdamW with the moments of PyTorch's, and no weight decay.
    fn default() -> Self {
        Self::AdamW { beta_1: beta_1(), beta_2: beta_2(), epsilon: epsilon(), weight_decay: 0.0 }
    }
}

impl OptimizerConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// A field out of range, by name.
    pub fn validate(&self) -> Result<()> {
        let Self::AdamW { beta_1, beta_2, epsilon, weight_decay } = *self else { return Ok(()) };
        if let Some(beta) = [beta_1, beta_2].into_iter().find(|beta| !(0.0..1.0).contains(beta)) {
            return Err(core("optimizer beta", beta, "at least 0 and below 1"));
        }
        if !(epsilon.is_finite() && epsilon > 0.0) {
            return Err(core("optimizer epsilon", epsilon, "finite and above 0"));
        }
        if !(weight_decay.is_finite() && weight_decay >= 0.0) {
            return Err(core("optimizer weight_decay", weight_decay, "finite and at least 0"));
        }
        Ok(())
    }

    /// The optimiser of these settings.
    pub fn init(&self) -> Optimizer {
        match *self {
            Self::AdamW { beta_1, beta_2, epsilon, weight_decay } => Optimizer::new(
                AdamWConfig::new()
                    .with_beta_1(beta_1 as f32)
                    .with_beta_2(beta_2 as f32)
                    .with_epsilon(epsilon as f32)
                    .with_weight_decay(weight_decay as f32)
                    .build(),
            ),
            Self::Sgd => Optimizer::new(SgdConfig::new().build()),
        }
    }
}

/// Any optimiser of burn, or several for groups of parameters, whose state is saved whole and loaded onto the parameters' device.
///
/// burn's own `load_record` builds the state on the default device of the program, which may be another one, of another precision, and
/// passes over state it cannot read; here the device is the policy's, and what cannot be read is an error.
///
/// ```
/// use burn::optim::AdamConfig;
/// use grpo_train::Optimizer;
/// let optimizer = Optimizer::new(AdamConfig::new().build());
/// ```
#[derive(Clone)]
pub struct Optimizer {
    groups: Vec<(ParamGroup, Arc<dyn DynOptimizer>)>,
    inner: ModuleOptimizer,
}

impl std::fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Optimizer").field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

impl Optimizer {
    /// One optimiser for all parameters. Gradients are clipped by the trainer, to a global norm; the optimiser clips nothing.
    pub fn new(optimizer: impl BurnOptimizer) -> Self {
        Self { groups: Vec::new(), inner: SgdConfig::new().init() }.with_group(ParamGroup::all(), optimizer)
    }

    /// Another optimiser for some parameters; where groups overlap, the last one counts. Before the first step.
    pub fn with_group(mut self, group: ParamGroup, optimizer: impl BurnOptimizer) -> Self {
        let optimizer: Arc<dyn DynOptimizer> = Arc::new(optimizer);
        self.inner = self.inner.with_group(group.clone(), Placed { optimizer: optimizer.clone(), device: None }, None);
        self.groups.push((group, optimizer));
        self
    }

    /// burn's own, as [`Update::apply`](grpo_core::Update::apply) takes it.
    pub fn inner(&mut self) -> &mut ModuleOptimizer {
        &mut self.inner
    }

    /// Takes a step with these gradients.
    pub fn step<P: burn::module::Module>(&mut self, learning_rate: f64, policy: P, gradients: GradientsParams) -> P {
        self.inner.step(learning_rate, policy, gradients)
    }

    /// The whole state as a burnpack file: moments and counters by parameter id. The same state gives the same bytes.
    ///
    /// # Errors
    /// A device that failed.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let record = self.inner.to_record().into_bytes().map_err(broken)?;
        let reader = burn_pack::Reader::from_bytes(record).map_err(broken)?;
        let (metadata, scalars) = (reader.metadata().clone(), reader.scalars().clone());
        // burn keeps state in a hash map, whose order is another one in each process.
        let mut tensors = reader.into_tensors().map_err(broken)?;
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        let mut writer = burn_pack::Writer::new(tensors);
        for (key, value) in &scalars {
            writer = writer.with_scalar(key, *value);
        }
        for (key, value) in &metadata {
            writer = writer.with_metadata(key, value);
        }
        Ok(writer.into_bytes().map_err(broken)?.to_vec())
    }

    /// The same optimiser with a saved state, on this device.
    ///
    /// # Errors
    /// A file that is broken, or of another optimiser: whatever of it cannot be taken over.
    pub fn with_state(&self, bytes: Vec<u8>, device: &Device) -> Result<Self> {
        let saved = OptimizerRecord::from_bytes(Bytes::from_bytes_vec(bytes)).map_err(broken)?;
        let tensors = saved.len();
        let device = device.clone().inner();
        let mut inner: ModuleOptimizer = SgdConfig::new().init();
        for (group, optimizer) in &self.groups {
            inner = inner.with_group(group.clone(), Placed { optimizer: optimizer.clone(), device: Some(device.clone()) }, None);
        }
        let inner = inner.load_record(saved);
        // burn leaves out what it cannot read, and would start such a parameter afresh.
        let read = inner.to_record().len();
        if read != tensors {
            let problem = format!("{read} of {tensors} saved tensors fit: the state is of another optimiser");
            return Err(Error::invalid("optimiser state", problem));
        }
        Ok(Self { groups: self.groups.clone(), inner })
    }
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::invalid("optimiser state", error.to_string())
}

/// An optimiser that builds loaded state on a device of its own choice.
struct Placed {
    optimizer: Arc<dyn DynOptimizer>,
    device: Option<Device>,
}

impl DynOptimizer for Placed {
    fn step_dyn(
        &self,
        rank: usize,
        lr: f64,
        tensor: BridgeTensor,
        grad: BridgeTensor,
        state: Option<DynState>,
    ) -> (BridgeTensor, Option<DynState>) {
        self.optimizer.step_dyn(rank, lr, tensor, grad, state)
    }

    fn to_device_dyn(&self, state: DynState, device: &Device) -> DynState {
        self.optimizer.to_device_dyn(state, device)
    }

    fn state_flatten(&self, prefix: &str, state: &DynState, out: &mut StateSink) {
        self.optimizer.state_flatten(prefix, state, out);
    }

    fn state_unflatten(&self, rank: usize, prefix: &str, source: &mut StateSource, default: &Device) -> Option<DynState> {
        self.optimizer.state_unflatten(rank, prefix, source, self.device.as_ref().unwrap_or(default))
    }
}
