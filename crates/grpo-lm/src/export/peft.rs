//! LoRA adapters in the format of PEFT.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};

use super::{WeightType, make_folder, write_json, write_safetensors};
use crate::checkpoint::HostTensor;
use crate::error::{Error, Result};

const WEIGHTS: &str = "adapter_model.safetensors";
const CONFIG: &str = "adapter_config.json";
const PREFIX: &str = "base_model.model.";

/// The two factors of one matrix: W + (alpha / r) · B · A.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraFactors {
    /// A, [r, in].
    pub a: HostTensor,
    /// B, [out, r].
    pub b: HostTensor,
}

/// A LoRA adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct PeftAdapter {
    /// The model that it belongs to: a hub id or a path.
    pub base_model: String,
    /// The rank r.
    pub rank: usize,
    /// The product B · A is multiplied by alpha / r.
    pub alpha: f64,
    /// The factors by module: `model.layers.0.self_attn.q_proj`.
    pub factors: BTreeMap<String, LoraFactors>,
}

impl PeftAdapter {
    /// The last names of the modules: `q_proj`, ….
    #[must_use]
    pub fn target_modules(&self) -> Vec<String> {
        let last = |module: &String| module.rsplit('.').next().unwrap_or_default().to_owned();
        self.factors.keys().map(last).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Checks rank, alpha and the shapes of the factors.
    ///
    /// # Errors
    ///
    /// [`Error::Adapter`] names what does not fit.
    pub fn validate(&self) -> Result<()> {
        let bad = |message: String| Err(Error::Adapter(message));
        if self.rank == 0 {
            return bad("r = 0, must be at least 1".into());
        }
        if !self.alpha.is_finite() {
            return bad(format!("lora_alpha = {}, must be finite", self.alpha));
        }
        if self.factors.is_empty() {
            return bad("no factors".into());
        }
        for (module, LoraFactors { a, b }) in &self.factors {
            if a.shape.len() != 2 || a.shape[0] != self.rank {
                return bad(format!("{module}: A has shape {:?}, must be [{}, in]", a.shape, self.rank));
            }
            if b.shape.len() != 2 || b.shape[1] != self.rank {
                return bad(format!("{module}: B has shape {:?}, must be [out, {}]", b.shape, self.rank));
            }
        }
        Ok(())
    }
}

/// Writes an adapter as a folder that PEFT, and what follows it, loads onto the base model.
///
/// # Errors
///
/// [`Error::Adapter`] names factors that do not fit; [`Error::Io`] a file that cannot be written.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use grpo_lm::checkpoint::HostTensor;
/// use grpo_lm::export::{LoraFactors, PeftAdapter, read_peft, write_peft};
///
/// let factors = LoraFactors {
///     a: HostTensor { shape: vec![1, 3], data: vec![1.0, 2.0, 3.0] },
///     b: HostTensor { shape: vec![2, 1], data: vec![0.0, 0.0] },
/// };
/// let adapter = PeftAdapter {
///     base_model: "HuggingFaceTB/SmolLM2-135M-Instruct".into(),
///     rank: 1,
///     alpha: 2.0,
///     factors: BTreeMap::from([("model.layers.0.self_attn.q_proj".into(), factors)]),
/// };
/// let folder = tempfile::tempdir()?;
/// write_peft(folder.path(), &adapter)?;
/// assert_eq!(read_peft(folder.path())?, adapter);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_peft(folder: impl AsRef<Path>, adapter: &PeftAdapter) -> Result<()> {
    let folder = folder.as_ref();
    adapter.validate()?;
    make_folder(folder)?;
    let mut tensors = BTreeMap::new();
    for (module, factors) in &adapter.factors {
        tensors.insert(format!("{PREFIX}{module}.lora_A.weight"), &factors.a);
        tensors.insert(format!("{PREFIX}{module}.lora_B.weight"), &factors.b);
    }
    let tensors = tensors.iter().map(|(name, tensor)| (name.as_str(), *tensor));
    write_safetensors(&folder.join(WEIGHTS), tensors, WeightType::F32)?;
    // PEFT declares alpha a whole number, and some readers insist.
    let whole = adapter.alpha.fract() == 0.0 && adapter.alpha.abs() < 1e15;
    let alpha = if whole { json!(adapter.alpha as i64) } else { json!(adapter.alpha) };
    let config = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": adapter.base_model,
        "r": adapter.rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": adapter.target_modules(),
        "fan_in_fan_out": false,
        "use_rslora": false,
        "use_dora": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "modules_to_save": null,
    });
    write_json(&folder.join(CONFIG), &config)
}

/// Reads an adapter that PEFT, or [`write_peft`], wrote.
///
/// # Errors
///
/// [`Error::Unsupported`] names what is not plain LoRA; [`Error::Adapter`], [`Error::File`] and
/// [`Error::Tensor`] name what is missing, superfluous or damaged.
pub fn read_peft(folder: impl AsRef<Path>) -> Result<PeftAdapter> {
    let folder = folder.as_ref();
    let path = folder.join(CONFIG);
    let text = std::fs::read(&path).map_err(Error::io(&path))?;
    let config: Map<String, Value> = serde_json::from_slice(&text).map_err(|error| Error::file(&path, error.to_string()))?;
    refuse_what_is_not_plain_lora(&config)?;
    let number = |field: &str| {
        let value = config.get(field).unwrap_or(&Value::Null);
        value.as_f64().ok_or_else(|| Error::file(&path, format!("{field} = {value}, must be a number")))
    };
    let rank = config.get("r").and_then(Value::as_u64).and_then(|rank| usize::try_from(rank).ok());
    let adapter = PeftAdapter {
        base_model: config.get("base_model_name_or_path").and_then(Value::as_str).unwrap_or_default().to_owned(),
        rank: rank.ok_or_else(|| Error::file(&path, "r must be a whole number"))?,
        alpha: number("lora_alpha")?,
        factors: read_factors(&folder.join(WEIGHTS))?,
    };
    adapter.validate()?;
    Ok(adapter)
}

fn refuse_what_is_not_plain_lora(config: &Map<String, Value>) -> Result<()> {
    let wanted = [
        ("peft_type", json!("LORA")),
        ("bias", json!("none")),
        ("fan_in_fan_out", json!(false)),
        ("use_rslora", json!(false)),
        ("use_dora", json!(false)),
        ("lora_bias", json!(false)),
        ("modules_to_save", json!([])),
        ("rank_pattern", json!({})),
        ("alpha_pattern", json!({})),
        ("trainable_token_indices", json!([])),
        ("layer_replication", json!([])),
    ];
    for (field, allowed) in wanted {
        if let Some(given) = config.get(field)
            && !given.is_null()
            && *given != allowed
        {
            return Err(Error::unsupported(field, given, allowed.to_string()));
        }
    }
    Ok(())
}

fn read_factors(path: &Path) -> Result<BTreeMap<String, LoraFactors>> {
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| Error::file(path, error.to_string()))?;
    let mut halves = [BTreeMap::new(), BTreeMap::new()];
    for (name, view) in file.iter() {
        let module = name.strip_prefix(PREFIX).and_then(|rest| {
            let in_a = rest.strip_suffix(".lora_A.weight").map(|module| (0, module));
            in_a.or_else(|| rest.strip_suffix(".lora_B.weight").map(|module| (1, module)))
        });
        let Some((half, module)) = module else {
            return Err(Error::tensor(path, name, "is not part of a plain LoRA adapter"));
        };
        let data = match view.dtype() {
            Dtype::F32 => crate::checkpoint::elements(view.data(), f32::from_le_bytes),
            Dtype::F16 => crate::checkpoint::elements(view.data(), |b| half::f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => crate::checkpoint::elements(view.data(), |b| half::bf16::from_le_bytes(b).to_f32()),
            other => {
                let reason = format!("type {other:?} is not supported; supported: F32, F16, BF16");
                return Err(Error::tensor(path, name, reason));
            }
        };
        halves[half].insert(module.to_owned(), HostTensor { shape: view.shape().to_vec(), data });
    }
    let [a, mut b] = halves;
    let mut factors = BTreeMap::new();
    for (module, a) in a {
        let Some(b) = b.remove(&module) else {
            return Err(Error::Adapter(format!("{module}: A is there, B is missing")));
        };
        factors.insert(module, LoraFactors { a, b });
    }
    match b.keys().next() {
        Some(module) => Err(Error::Adapter(format!("{module}: B is there, A is missing"))),
        None => Ok(factors),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn adapter() -> PeftAdapter {
        let tensor =
            |shape: [usize; 2]| HostTensor { data: (0..shape[0] * shape[1]).map(|i| i as f32 * 0.1).collect(), shape: shape.to_vec() };
        let factors = |out| LoraFactors { a: tensor([2, 4]), b: tensor([out, 2]) };
        PeftAdapter {
            base_model: "owner/name".into(),
            rank: 2,
            alpha: 4.0,
            factors: BTreeMap::from([
                ("model.layers.0.self_attn.q_proj".into(), factors(4)),
                ("model.layers.0.mlp.up_proj".into(), factors(8)),
                ("model.layers.1.self_attn.q_proj".into(), factors(4)),
            ]),
        }
    }

    #[test]
    fn names_and_settings_are_those_of_peft() {
        let folder = tempfile::tempdir().unwrap();
        write_peft(folder.path(), &adapter()).unwrap();
        let bytes = std::fs::read(folder.path().join(WEIGHTS)).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let name = "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight";
        assert_eq!(file.tensor(name).unwrap().shape(), [8, 2]);
        assert_eq!(file.len(), 6);
        let config = std::fs::read(folder.path().join(CONFIG)).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        assert_eq!(config["target_modules"], json!(["q_proj", "up_proj"]));
        assert_eq!(config["lora_alpha"], json!(4));
        assert_eq!(read_peft(folder.path()).unwrap(), adapter());
    }

    #[test]
    fn what_is_not_plain_lora_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        write_peft(folder.path(), &adapter()).unwrap();
        let path = folder.path().join(CONFIG);
        let good: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for (field, value) in
            [("use_dora", json!(true)), ("peft_type", json!("VERA")), ("modules_to_save", json!(["lm_head"])), ("r", json!(3))]
        {
            let mut bad = good.clone();
            bad[field] = value;
            std::fs::write(&path, bad.to_string()).unwrap();
            let message = read_peft(folder.path()).unwrap_err().to_string();
            assert!(message.contains(field) || message.contains("must be [3, in]"), "{message}");
        }
        let mut bad = adapter();
        bad.factors.values_mut().next().unwrap().b.shape = vec![2, 8];
        assert!(write_peft(folder.path(), &bad).unwrap_err().to_string().contains("up_proj: B has shape"));
    }
}
