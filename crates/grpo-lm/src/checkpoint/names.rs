//! The names and shapes of a model's tensors.

use crate::config::ModelConfig;

/// The embedding, [V, hidden]; the output matrix too when tied.
pub const EMBEDDING: &str = "model.embed_tokens.weight";
/// The output matrix of an untied model, [V, hidden].
pub const HEAD: &str = "lm_head.weight";
/// The output matrix of a sequence classifier, [labels, hidden].
pub const SCORE: &str = "score.weight";

/// Every tensor of a model under its Hugging Face name, with its shape.
///
/// Matrices are [out, in]. A tied model has no `lm_head.weight`.
///
/// ```
/// use grpo_lm::{checkpoint::names, config::ModelConfig};
///
/// let tensors = names::tensors(&ModelConfig::default());
/// assert_eq!(tensors[0], ("model.embed_tokens.weight".to_owned(), vec![256, 64]));
/// assert!(tensors.iter().all(|(name, _)| name != names::HEAD));
/// ```
#[must_use]
pub fn tensors(config: &ModelConfig) -> Vec<(String, Vec<usize>)> {
    let hidden = config.hidden_size;
    let inner = config.intermediate_size;
    let query = config.num_attention_heads * config.head_dim;
    let key = config.num_key_value_heads * config.head_dim;

    let mut all = vec![(EMBEDDING.to_owned(), vec![config.vocab_size, hidden])];
    for layer in 0..config.num_hidden_layers {
        let mut add = |name: &str, shape: Vec<usize>| {
            all.push((format!("model.layers.{layer}.{name}"), shape));
        };
        add("input_layernorm.weight", vec![hidden]);
        add("self_attn.q_proj.weight", vec![query, hidden]);
        add("self_attn.k_proj.weight", vec![key, hidden]);
        add("self_attn.v_proj.weight", vec![key, hidden]);
        add("self_attn.o_proj.weight", vec![hidden, query]);
        if config.qkv_bias() {
            add("self_attn.q_proj.bias", vec![query]);
            add("self_attn.k_proj.bias", vec![key]);
            add("self_attn.v_proj.bias", vec![key]);
        }
        if config.output_bias() {
            add("self_attn.o_proj.bias", vec![hidden]);
        }
        if config.qk_norm {
            add("self_attn.q_norm.weight", vec![config.head_dim]);
            add("self_attn.k_norm.weight", vec![config.head_dim]);
        }
        add("post_attention_layernorm.weight", vec![hidden]);
        add("mlp.gate_proj.weight", vec![inner, hidden]);
        add("mlp.up_proj.weight", vec![inner, hidden]);
        add("mlp.down_proj.weight", vec![hidden, inner]);
        if config.mlp_bias {
            add("mlp.gate_proj.bias", vec![inner]);
            add("mlp.up_proj.bias", vec![inner]);
            add("mlp.down_proj.bias", vec![hidden]);
        }
    }
    all.push(("model.norm.weight".to_owned(), vec![hidden]));
    if !config.tie_word_embeddings {
        all.push((HEAD.to_owned(), vec![config.vocab_size, hidden]));
    }
    all
}

/// The GGUF name of a tensor, for its Hugging Face name.
#[cfg(feature = "gguf")]
pub(crate) fn to_gguf(name: &str) -> Option<String> {
    match name {
        EMBEDDING => return Some("token_embd.weight".into()),
        HEAD => return Some("output.weight".into()),
        "model.norm.weight" => return Some("output_norm.weight".into()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (module, kind) = rest.rsplit_once('.')?;
    let module = match module {
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return None,
    };
    Some(format!("blk.{layer}.{module}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Architecture;

    #[test]
    fn names_are_distinct_and_biases_follow_the_family() {
        let llama = ModelConfig { attention_bias: true, mlp_bias: true, ..ModelConfig::default() };
        let qwen2 = ModelConfig { architecture: Architecture::Qwen2, mlp_bias: false, ..llama.clone() };
        let count = |config: &ModelConfig| {
            let mut names: Vec<_> = tensors(config).into_iter().map(|(name, _)| name).collect();
            names.sort();
            names.dedup();
            names.len()
        };
        // Two blocks: 9 weights, 4 and 3 attention biases, 3 biases of the MLP; embedding and norm.
        assert_eq!(count(&llama), 2 * (9 + 4 + 3) + 2);
        assert_eq!(count(&qwen2), 2 * (9 + 3) + 2);
    }

    #[cfg(feature = "gguf")]
    #[test]
    fn every_tensor_has_a_gguf_name() {
        let config = ModelConfig {
            architecture: Architecture::Qwen3,
            attention_bias: true,
            qk_norm: true,
            tie_word_embeddings: false,
            ..ModelConfig::default()
        };
        assert!(tensors(&config).iter().all(|(name, _)| to_gguf(name).is_some()));
        let query = to_gguf("model.layers.1.self_attn.q_norm.weight");
        assert_eq!(query.as_deref(), Some("blk.1.attn_q_norm.weight"));
    }
}
