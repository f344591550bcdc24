//! `config.json` in and out.

use serde_json::{Map, Value, json};

use super::{Architecture, ModelConfig, RopeScaling};
use crate::error::{Error, Result};

const FAMILIES: &str = "llama, qwen2, qwen3";
const SCALINGS: &str = "default, linear, llama3";

/// Fields of models that are not what this crate computes, with the one value that changes nothing.
const MUST_BE_OFF: [(&str, ChangesNothing); 16] = [
    ("quantization_config", never),
    ("num_experts", zero),
    ("num_local_experts", zero),
    ("n_routed_experts", zero),
    ("use_sliding_window", off),
    ("rope_interleaved", off),
    ("no_rope_layers", never),
    ("attn_logit_softcapping", never),
    ("final_logit_softcapping", never),
    ("partial_rotary_factor", one),
    ("embedding_multiplier", one),
    ("residual_multiplier", one),
    ("attention_multiplier", never),
    ("logits_scaling", one),
    ("logit_scale", one),
    ("is_encoder_decoder", off),
];

type ChangesNothing = fn(&Value) -> bool;

fn never(_: &Value) -> bool {
    false
}
fn zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}
fn one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}
fn off(value: &Value) -> bool {
    value == &Value::Bool(false)
}

impl ModelConfig {
    /// Reads the text of a Hugging Face `config.json`.
    ///
    /// Fields that do not change the computation are ignored; what is left out has the default of
    /// `transformers`. The rotary base is read from `rope_theta` or, as `transformers` 5 writes it,
    /// from `rope_parameters`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] names what this crate cannot run: another family, a sliding window,
    /// experts, another rotary scaling or activation. [`Error::Config`] names a field that is missing
    /// or cannot be.
    ///
    /// ```
    /// use grpo_lm::config::ModelConfig;
    ///
    /// let error = ModelConfig::from_hf_json(r#"{"model_type": "mamba"}"#).unwrap_err();
    /// assert_eq!(error.to_string(), "model_type = mamba is not supported; supported: llama, qwen2, qwen3");
    /// ```
    pub fn from_hf_json(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).map_err(|error| Error::Config {
            field: "config.json",
            given: error.to_string(),
            allowed: "must be JSON".into(),
        })?;
        let Value::Object(object) = value else {
            return Err(Error::Config { field: "config.json", given: "no object".into(), allowed: "must be a JSON object".into() });
        };
        let fields = Fields(&object);
        let architecture = fields.architecture()?;
        fields.refuse_what_we_do_not_compute(architecture)?;
        let qwen = architecture != Architecture::Llama;
        let hidden_size = fields.size("hidden_size", None)?;
        let num_attention_heads = fields.size("num_attention_heads", None)?;
        let head_dim = match architecture {
            Architecture::Qwen3 => 128,
            // A division by zero heads is refused below, by name.
            _ => hidden_size / num_attention_heads.max(1),
        };
        let (rope_theta, rope_scaling) = fields.rope()?;
        let config = Self {
            architecture,
            vocab_size: fields.size("vocab_size", None)?,
            hidden_size,
            intermediate_size: fields.size("intermediate_size", None)?,
            num_hidden_layers: fields.size("num_hidden_layers", None)?,
            num_attention_heads,
            num_key_value_heads: fields.size("num_key_value_heads", Some(num_attention_heads))?,
            head_dim: fields.size("head_dim", Some(head_dim))?,
            rms_norm_eps: fields.number("rms_norm_eps", 1e-6)?,
            rope_theta,
            rope_scaling,
            tie_word_embeddings: fields.switch("tie_word_embeddings")?,
            attention_bias: architecture == Architecture::Qwen2 || fields.switch("attention_bias")?,
            mlp_bias: !qwen && fields.switch("mlp_bias")?,
            qk_norm: architecture == Architecture::Qwen3,
            max_position_embeddings: fields.size("max_position_embeddings", Some(if qwen { 32_768 } else { 2048 }))?,
        };
        config.validate()?;
        Ok(config)
    }

    /// The `config.json` of this model, as `transformers` 4 and 5 read it; weights in float32.
    ///
    /// Reading it back gives the same configuration.
    #[must_use]
    pub fn to_hf_json(&self) -> Value {
        let mut json = json!({
            "architectures": [self.architecture.class_name()],
            "model_type": self.architecture.name(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": scaling_to_json(self.rope_scaling),
            "tie_word_embeddings": self.tie_word_embeddings,
            "max_position_embeddings": self.max_position_embeddings,
            "attention_dropout": 0.0,
            "initializer_range": 0.02,
            "use_cache": true,
            "torch_dtype": "float32",
        });
        match self.architecture {
            Architecture::Llama => {
                json["attention_bias"] = self.attention_bias.into();
                json["mlp_bias"] = self.mlp_bias.into();
            }
            Architecture::Qwen2 => json["use_sliding_window"] = false.into(),
            Architecture::Qwen3 => {
                json["attention_bias"] = self.attention_bias.into();
                json["use_sliding_window"] = false.into();
            }
        }
        json
    }
}

fn scaling_to_json(scaling: RopeScaling) -> Value {
    match scaling {
        RopeScaling::None => Value::Null,
        RopeScaling::Linear { factor } => json!({ "rope_type": "linear", "factor": factor }),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low_freq_factor,
            "high_freq_factor": high_freq_factor,
            "original_max_position_embeddings": original_max_position_embeddings,
        }),
    }
}

struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// A field that is there and not null.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    fn architecture(&self) -> Result<Architecture> {
        let model_type = self.get("model_type").and_then(Value::as_str).unwrap_or("missing");
        let Some(architecture) = Architecture::ALL.into_iter().find(|a| a.name() == model_type) else {
            return Err(Error::unsupported("model_type", model_type, FAMILIES));
        };
        // The same family has heads for other tasks, with other tensors.
        match self.get("architectures") {
            Some(Value::Array(classes)) if !classes.iter().any(|class| class == architecture.class_name()) => {
                let given = Value::Array(classes.clone());
                Err(Error::unsupported("architectures", given, architecture.class_name()))
            }
            _ => Ok(architecture),
        }
    }

    fn refuse_what_we_do_not_compute(&self, architecture: Architecture) -> Result<()> {
        for (field, changes_nothing) in MUST_BE_OFF {
            if let Some(value) = self.get(field)
                && !changes_nothing(value)
            {
                return Err(Error::unsupported(field, value, "models without it"));
            }
        }
        // Qwen configs name a window that only `use_sliding_window` switches on.
        if architecture == Architecture::Llama
            && self.get("use_sliding_window").is_none()
            && let Some(window) = self.get("sliding_window")
        {
            return Err(Error::unsupported("sliding_window", window, "models without it"));
        }
        if let Some(Value::Array(kinds)) = self.get("layer_types")
            && let Some(kind) = kinds.iter().find(|kind| *kind != "full_attention")
        {
            return Err(Error::unsupported("layer_types", kind, "full_attention"));
        }
        match self.get("hidden_act").map(|value| (value, value.as_str())) {
            None | Some((_, Some("silu" | "swish"))) => Ok(()),
            Some((given, _)) => Err(Error::unsupported("hidden_act", given, "silu")),
        }
    }

    fn rope(&self) -> Result<(f64, RopeScaling)> {
        let none = Map::new();
        let object = |field: &'static str| match self.get(field) {
            None => Ok(Fields(&none)),
            Some(Value::Object(object)) => Ok(Fields(object)),
            Some(given) => Err(wrong(field, given, "must be an object")),
        };
        let parameters = object("rope_parameters")?;
        let scaling = object("rope_scaling")?;
        let theta = self.number("rope_theta", 10_000.0)?;
        let theta = parameters.number("rope_theta", theta)?;
        let source = if parameters.0.is_empty() { scaling } else { parameters };
        for field in ["mrope_section", "full_attention", "sliding_attention"] {
            if source.get(field).is_some() {
                return Err(Error::unsupported("rope scaling", field, SCALINGS));
            }
        }
        if let Some(part) = source.get("partial_rotary_factor").filter(|part| !one(part)) {
            return Err(Error::unsupported("partial_rotary_factor", part, "1"));
        }
        let kind = source.get("rope_type").or_else(|| source.get("type"));
        let required = |field: &'static str| match source.get(field).map(Value::as_f64) {
            Some(Some(number)) => Ok(number),
            _ => Err(wrong(field, source.get(field).unwrap_or(&Value::Null), "must be a number")),
        };
        let scaling = match kind.map(|kind| kind.as_str().unwrap_or("no string")) {
            None if source.get("factor").is_some() => {
                return Err(Error::unsupported("rope_scaling without rope_type", "a factor", SCALINGS));
            }
            None | Some("default") => RopeScaling::None,
            Some("linear") => RopeScaling::Linear { factor: required("factor")? },
            Some("llama3") => RopeScaling::Llama3 {
                factor: required("factor")?,
                low_freq_factor: required("low_freq_factor")?,
                high_freq_factor: required("high_freq_factor")?,
                original_max_position_embeddings: source.size("original_max_position_embeddings", None)?,
            },
            Some(other) => return Err(Error::unsupported("rope_type", other, SCALINGS)),
        };
        Ok((theta, scaling))
    }

    fn size(&self, field: &'static str, default: Option<usize>) -> Result<usize> {
        match (self.get(field), default) {
            (None, Some(default)) => Ok(default),
            (None, None) => Err(wrong(field, &Value::Null, "must be there")),
            (Some(value), _) => {
                value.as_u64().and_then(|size| usize::try_from(size).ok()).ok_or_else(|| wrong(field, value, "must be a whole number"))
            }
        }
    }

    fn number(&self, field: &'static str, default: f64) -> Result<f64> {
        self.get(field).map_or(Ok(default), |value| value.as_f64().ok_or_else(|| wrong(field, value, "must be a number")))
    }

    fn switch(&self, field: &'static str) -> Result<bool> {
        self.get(field).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(field, value, "must be true or false")))
    }
}

fn wrong(field: &'static str, given: &Value, allowed: &str) -> Error {
    Error::Config { field, given: given.to_string(), allowed: allowed.into() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn qwen2() -> Value {
        json!({
            "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu",
            "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
            "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
            "max_position_embeddings": 32768, "max_window_layers": 21, "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0, "sliding_window": 32768, "use_sliding_window": false,
            "tie_word_embeddings": true, "torch_dtype": "bfloat16", "eos_token_id": 151645,
        })
    }

    fn parse(value: &Value) -> Result<ModelConfig> {
        ModelConfig::from_hf_json(&value.to_string())
    }

    #[test]
    fn a_published_config_is_read() {
        let config = parse(&qwen2()).unwrap();
        assert_eq!(config.architecture, Architecture::Qwen2);
        assert_eq!((config.head_dim, config.num_key_value_heads), (64, 2));
        assert!(config.attention_bias && config.tie_word_embeddings && !config.output_bias());
        assert_eq!((config.rms_norm_eps, config.rope_theta), (1e-6, 1e6));
    }

    #[test]
    fn what_is_written_is_read_back_equal() {
        let llama = ModelConfig::default();
        let scaled =
            RopeScaling::Llama3 { factor: 32.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_max_position_embeddings: 8192 };
        for config in [
            ModelConfig { rope_scaling: scaled, ..llama.clone() },
            ModelConfig { attention_bias: true, mlp_bias: true, ..llama.clone() },
            ModelConfig { rope_scaling: RopeScaling::Linear { factor: 2.5 }, ..llama.clone() },
            ModelConfig { architecture: Architecture::Qwen2, attention_bias: true, ..llama.clone() },
            ModelConfig {
                architecture: Architecture::Qwen3,
                qk_norm: true,
                num_key_value_heads: 2,
                head_dim: 48,
                tie_word_embeddings: false,
                rms_norm_eps: 1.234e-6,
                ..llama.clone()
            },
            llama,
        ] {
            assert_eq!(parse(&config.to_hf_json()).unwrap(), config);
        }
    }

    #[test]
    fn rope_parameters_of_transformers_5_are_read() {
        let mut json = qwen2();
        json.as_object_mut().unwrap().remove("rope_theta");
        json["rope_parameters"] = json!({ "rope_theta": 5e5, "rope_type": "default" });
        let config = parse(&json).unwrap();
        assert_eq!((config.rope_theta, config.rope_scaling), (5e5, RopeScaling::None));
        json["rope_parameters"] = json!({ "rope_theta": 5e5, "rope_type": "linear", "factor": 4 });
        assert_eq!(parse(&json).unwrap().rope_scaling, RopeScaling::Linear { factor: 4.0 });
    }

    #[test]
    fn what_we_cannot_run_is_refused_by_name() {
        for (field, value, named) in [
            ("model_type", json!("mistral"), "model_type = mistral"),
            ("architectures", json!(["Qwen2ForTokenClassification"]), "Qwen2ForTokenClassification"),
            ("use_sliding_window", json!(true), "use_sliding_window = true"),
            ("layer_types", json!(["full_attention", "sliding_attention"]), "sliding_attention"),
            ("num_experts", json!(8), "num_experts = 8"),
            ("hidden_act", json!("gelu"), "hidden_act = \"gelu\""),
            ("rope_scaling", json!({ "type": "yarn", "factor": 4.0 }), "rope_type = yarn"),
            ("rope_scaling", json!({ "type": "dynamic", "factor": 4.0 }), "rope_type = dynamic"),
            ("rope_scaling", json!({ "rope_type": "longrope" }), "rope_type = longrope"),
            ("rope_scaling", json!({ "rope_type": "default", "mrope_section": [1] }), "mrope_section"),
            ("quantization_config", json!({ "bits": 4 }), "quantization_config"),
            ("vocab_size", json!("many"), "vocab_size = \"many\""),
            ("num_attention_heads", json!(0), "num_attention_heads = 0"),
            ("num_hidden_layers", json!(1u64 << 50), "num_hidden_layers = 1125899906842624"),
            ("hidden_size", Value::Null, "hidden_size = null, must be there"),
        ] {
            let mut json = qwen2();
            json[field] = value;
            let message = parse(&json).unwrap_err().to_string();
            assert!(message.contains(named), "{field}: {message}");
        }
        assert!(ModelConfig::from_hf_json("{").is_err());
        assert!(ModelConfig::from_hf_json("[]").is_err());
    }
}
