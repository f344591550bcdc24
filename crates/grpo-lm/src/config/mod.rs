//! What a decoder looks like: sizes and switches, from and to Hugging Face's `config.json`.

mod hf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The family of a dense decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Architecture {
    /// Llama, and everything that has its shape: SmolLM2, TinyLlama, ….
    Llama,
    /// Qwen2 and Qwen2.5: Llama with biases on the query, key and value projections.
    Qwen2,
    /// Qwen3: Llama with a norm on each query and key head.
    Qwen3,
}

impl Architecture {
    /// Every family.
    pub const ALL: [Self; 3] = [Self::Llama, Self::Qwen2, Self::Qwen3];

    /// The name in `config.json` (`model_type`) and in GGUF (`general.architecture`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// The class name in `config.json` (`architectures`).
    #[must_use]
    pub const fn class_name(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }
}

/// How rotary frequencies are stretched for contexts longer than the first training's.
///
/// With head size d, base θ and pair index i, the plain frequency is f(i) = θ^(−2i/d).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type", deny_unknown_fields)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Plain frequencies.
    #[default]
    None,
    /// Every frequency divided by one factor.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Low frequencies divided by the factor, high ones kept, a linear blend between.
    ///
    /// With wavelength w = 2π/f and original context C: f for w < C/high, f/factor for w > C/low,
    /// else (1 − s)·f/factor + s·f with s = (C/w − low)/(high − low).
    ///
    /// # Source
    ///
    /// The reference code of Llama 3.1.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f64,
        /// C divided by the longest wavelength of the blend.
        low_freq_factor: f64,
        /// C divided by the shortest wavelength of the blend.
        high_freq_factor: f64,
        /// C, the context before the stretching.
        original_max_position_embeddings: usize,
    },
}

impl RopeScaling {
    /// What the plain frequency of a pair is divided by.
    ///
    /// ```
    /// use grpo_lm::config::RopeScaling;
    ///
    /// assert_eq!(RopeScaling::Linear { factor: 2.0 }.divisor(0.25), 2.0);
    /// ```
    #[must_use]
    pub fn divisor(&self, frequency: f64) -> f64 {
        match *self {
            Self::None => 1.0,
            Self::Linear { factor } => factor,
            Self::Llama3 { factor, low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings } => {
                // Turns within the original context: C / w.
                let turns = original_max_position_embeddings as f64 * frequency / core::f64::consts::TAU;
                if turns > high {
                    1.0
                } else if turns < low {
                    factor
                } else {
                    let smooth = (turns - low) / (high - low);
                    1.0 / ((1.0 - smooth) / factor + smooth)
                }
            }
        }
    }
}

/// A dense decoder: sizes and switches. The activation of the MLP is always SiLU.
///
/// The names are Hugging Face's. A model of your own is a literal; what you leave out comes from
/// [`ModelConfig::default`], a tiny Llama.
///
/// ```
/// use grpo_lm::config::ModelConfig;
///
/// let config = ModelConfig { vocab_size: 16, hidden_size: 32, head_dim: 8, ..ModelConfig::default() };
/// config.validate()?;
///
/// // Heads are shared evenly: 4 query heads cannot share 3 key/value heads.
/// let uneven = ModelConfig { num_key_value_heads: 3, ..config };
/// assert_eq!(
///     uneven.validate().unwrap_err().to_string(),
///     "model config: num_key_value_heads = 3, must divide num_attention_heads = 4",
/// );
/// # Ok::<(), grpo_lm::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The family.
    pub architecture: Architecture,
    /// Rows of the embedding, V. May exceed the tokenizer's vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the MLP.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; divides the query heads.
    pub num_key_value_heads: usize,
    /// Size of one head, even; need not be `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Added to the mean square in RMS norms.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Stretching of the rotary frequencies.
    pub rope_scaling: RopeScaling,
    /// Whether the embedding is the output matrix too.
    pub tie_word_embeddings: bool,
    /// Biases in attention. Llama and Qwen3: on all four projections. Qwen2 always has them, on
    /// query, key and value only; see [`qkv_bias`](Self::qkv_bias), [`output_bias`](Self::output_bias).
    pub attention_bias: bool,
    /// Biases on the three projections of the MLP (Llama only).
    pub mlp_bias: bool,
    /// A norm on each query and key head before the rotation; Qwen3 has it, the others do not.
    pub qk_norm: bool,
    /// Longest context, prompt and completion together.
    pub max_position_embeddings: usize,
}

impl Default for ModelConfig {
    /// A tiny Llama: 2 blocks of width 64, 4 heads, 256 tokens, tied embeddings.
    fn default() -> Self {
        Self {
            architecture: Architecture::Llama,
            vocab_size: 256,
            hidden_size: 64,
            intermediate_size: 256,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            num_key_value_heads: 4,
            head_dim: 16,
            rms_norm_eps: 1e-5,
            rope_theta: 10_000.0,
            rope_scaling: RopeScaling::None,
            tie_word_embeddings: true,
            attention_bias: false,
            mlp_bias: false,
            qk_norm: false,
            max_position_embeddings: 512,
        }
    }
}

// Far above every model there is: bounds on what a damaged or hostile config can ask for.
const MAX_LAYERS: usize = 4096;
const MAX_WIDTH: usize = 1 << 24;

impl ModelConfig {
    /// Whether the query, key and value projections have biases.
    #[must_use]
    pub fn qkv_bias(&self) -> bool {
        self.attention_bias
    }

    /// Whether the output projection of attention has a bias.
    #[must_use]
    pub fn output_bias(&self) -> bool {
        self.attention_bias && self.architecture != Architecture::Qwen2
    }

    /// Checks every field and how they go together.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] names the first field that cannot be, its value, and what is allowed.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size, MAX_WIDTH),
            ("hidden_size", self.hidden_size, MAX_WIDTH),
            ("intermediate_size", self.intermediate_size, MAX_WIDTH),
            ("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS),
            ("num_attention_heads", self.num_attention_heads, MAX_LAYERS),
            ("num_key_value_heads", self.num_key_value_heads, MAX_LAYERS),
            ("head_dim", self.head_dim, MAX_LAYERS),
            ("max_position_embeddings", self.max_position_embeddings, usize::MAX),
        ];
        for (field, given, high) in sizes {
            if given == 0 || given > high {
                return refuse(field, given, format!("must be from 1 to {high}"));
            }
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let allowed = format!("must divide num_attention_heads = {}", self.num_attention_heads);
            return refuse("num_key_value_heads", self.num_key_value_heads, allowed);
        }
        if !self.head_dim.is_multiple_of(2) {
            return refuse("head_dim", self.head_dim, "must be even: rotary pairs");
        }
        positive("rms_norm_eps", self.rms_norm_eps)?;
        positive("rope_theta", self.rope_theta)?;
        self.validate_scaling()?;
        let qwen2 = self.architecture == Architecture::Qwen2;
        let qwen3 = self.architecture == Architecture::Qwen3;
        if qwen2 && !self.attention_bias {
            return refuse("attention_bias", false, "must be true for qwen2");
        }
        if self.mlp_bias && self.architecture != Architecture::Llama {
            let allowed = format!("must be false for {}", self.architecture.name());
            return refuse("mlp_bias", true, allowed);
        }
        if self.qk_norm != qwen3 {
            let allowed = format!("must be {qwen3} for {}", self.architecture.name());
            return refuse("qk_norm", self.qk_norm, allowed);
        }
        Ok(())
    }

    fn validate_scaling(&self) -> Result<()> {
        match self.rope_scaling {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } => positive("rope_scaling.factor", factor),
            RopeScaling::Llama3 { factor, low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: original } => {
                positive("rope_scaling.factor", factor)?;
                positive("rope_scaling.low_freq_factor", low)?;
                positive("rope_scaling.high_freq_factor", high)?;
                if high <= low {
                    let allowed = format!("must be above low_freq_factor = {low}");
                    return refuse("rope_scaling.high_freq_factor", high, allowed);
                }
                if original == 0 {
                    let field = "rope_scaling.original_max_position_embeddings";
                    return refuse(field, original, "must be at least 1");
                }
                Ok(())
            }
        }
    }
}

fn positive(field: &'static str, given: f64) -> Result<()> {
    if given.is_finite() && given > 0.0 { Ok(()) } else { refuse(field, given, "must be finite and above 0") }
}

fn refuse<T>(field: &'static str, given: impl std::fmt::Display, allowed: impl Into<String>) -> Result<T> {
    Err(Error::Config { field, given: given.to_string(), allowed: allowed.into() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_size_of_zero_is_refused_by_its_name() {
        let good = serde_json::to_value(ModelConfig::default()).unwrap();
        for field in [
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "max_position_embeddings",
            "rms_norm_eps",
            "rope_theta",
        ] {
            let mut bad = good.clone();
            bad[field] = 0.into();
            let bad: ModelConfig = serde_json::from_value(bad).unwrap();
            let message = bad.validate().unwrap_err().to_string();
            assert!(message.starts_with(&format!("model config: {field} = 0, must be")), "{message}");
        }
    }

    #[test]
    fn switches_that_contradict_the_family_are_refused() {
        let llama = ModelConfig::default();
        let qwen2 = ModelConfig { architecture: Architecture::Qwen2, ..llama.clone() };
        assert!(qwen2.validate().unwrap_err().to_string().contains("attention_bias = false"));
        let qwen3 = ModelConfig { architecture: Architecture::Qwen3, ..llama.clone() };
        assert!(qwen3.validate().unwrap_err().to_string().contains("qk_norm = false"));
        let qwen3 = ModelConfig { qk_norm: true, mlp_bias: true, ..qwen3 };
        assert!(qwen3.validate().unwrap_err().to_string().contains("mlp_bias = true"));
        let qwen2 = ModelConfig { attention_bias: true, ..qwen2 };
        qwen2.validate().unwrap();
        assert!(qwen2.qkv_bias() && !qwen2.output_bias());
    }

    #[test]
    fn llama3_scaling_keeps_high_frequencies_and_divides_low_ones() {
        let scaling =
            RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_max_position_embeddings: 8192 };
        assert_eq!(scaling.divisor(1.0), 1.0);
        assert_eq!(scaling.divisor(1e-5), 8.0);
        // 2.5 turns: half way between 1 and 4, 1 / (0.5 / 8 + 0.5) by hand.
        let between = 2.5 * core::f64::consts::TAU / 8192.0;
        approx::assert_relative_eq!(scaling.divisor(between), 1.0 / 0.5625, epsilon = 1e-12);
    }
}
