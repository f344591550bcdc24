#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::Cursor;

use candle_core::quantized::gguf_file::{Value as V, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use proptest::prelude::*;

use super::blocks::BlockType;
use super::*;

/// The 256 characters that stand for bytes, in the order of the bytes.
fn alphabet() -> Vec<String> {
    let plain = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut next = 256;
    (0..256)
        .map(|byte| {
            let code = if plain(byte) {
                byte
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(code).unwrap().to_string()
        })
        .collect()
}

/// A small model in a GGUF file, written by candle.
struct Model {
    metadata: BTreeMap<String, V>,
    tensors: BTreeMap<String, (Vec<usize>, GgmlDType)>,
}

impl Model {
    fn new(architecture: &str, hidden: usize) -> Self {
        let text = |text: &str| V::String(text.into());
        let mut tokens: Vec<_> = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(String::from).into();
        tokens.extend(alphabet());
        tokens.extend(["12", "ab", "Ġa"].map(String::from));
        let kinds = (0..tokens.len()).map(|id| V::I32(if id < 3 { 3 } else { 1 })).collect();
        let vocab = tokens.len();
        let mut metadata = BTreeMap::from([
            ("general.architecture".into(), text(architecture)),
            ("tokenizer.ggml.model".into(), text("gpt2")),
            ("tokenizer.ggml.pre".into(), text("smollm")),
            ("tokenizer.ggml.tokens".into(), V::Array(tokens.into_iter().map(V::String).collect())),
            ("tokenizer.ggml.token_type".into(), V::Array(kinds)),
            ("tokenizer.ggml.merges".into(), V::Array(["1 2", "Ġ a", "a b"].map(text).into())),
            ("tokenizer.ggml.bos_token_id".into(), V::U32(1)),
            ("tokenizer.ggml.eos_token_id".into(), V::U32(2)),
            ("tokenizer.ggml.add_bos_token".into(), V::Bool(false)),
            ("tokenizer.chat_template".into(), text("{{ bos_token }}{{ messages[0].content }}")),
        ]);
        for (key, value) in [
            ("block_count", V::U32(1)),
            ("context_length", V::U32(64)),
            ("embedding_length", V::U32(hidden as u32)),
            ("feed_forward_length", V::U32(hidden as u32)),
            ("attention.head_count", V::U32(2)),
            ("attention.head_count_kv", V::U32(1)),
            ("attention.layer_norm_rms_epsilon", V::F32(1e-5)),
            ("rope.freq_base", V::F32(1e5)),
        ] {
            metadata.insert(format!("{architecture}.{key}"), value);
        }
        let mut model = Self { metadata, tensors: BTreeMap::new() };
        model.add("token_embd.weight", &[vocab, hidden]);
        model.add("output_norm.weight", &[hidden]);
        for name in ["attn_norm", "ffn_norm"] {
            model.add(&format!("blk.0.{name}.weight"), &[hidden]);
        }
        for name in ["attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
            model.add(&format!("blk.0.{name}.weight"), &[hidden, hidden]);
        }
        for name in ["attn_k", "attn_v"] {
            model.add(&format!("blk.0.{name}.weight"), &[hidden / 2, hidden]);
        }
        model
    }

    fn add(&mut self, name: &str, shape: &[usize]) {
        self.tensors.insert(name.into(), (shape.to_vec(), GgmlDType::F32));
    }

    fn bytes(&self) -> Vec<u8> {
        let tensors: Vec<_> = self
            .tensors
            .iter()
            .map(|(name, (shape, dtype))| {
                let count: usize = shape.iter().product();
                let values: Vec<f32> = (0..count).map(|i| value(name, i)).collect();
                let tensor = Tensor::from_vec(values, shape.as_slice(), &Device::Cpu).unwrap();
                (name.as_str(), QTensor::quantize(&tensor, *dtype).unwrap())
            })
            .collect();
        let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
        let metadata: Vec<_> = self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let mut out = Cursor::new(Vec::new());
        write(&mut out, &metadata, &tensors).unwrap();
        out.into_inner()
    }

    fn open(&self) -> Result<Checkpoint> {
        open_bytes(&self.bytes())
    }

    fn refusal(&self) -> String {
        self.open().unwrap_err().to_string()
    }
}

/// Some number between -1 and 1 for each place of each tensor.
fn value(name: &str, place: usize) -> f32 {
    ((place * 7 + name.len() * 13) % 101) as f32 / 50.0 - 1.0
}

fn open_bytes(bytes: &[u8]) -> Result<Checkpoint> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    Checkpoint::open(&path)
}

#[test]
fn a_file_written_by_another_program_is_read_whole() {
    let model = Model::new("llama", 8);
    let checkpoint = model.open().unwrap();
    let config = &checkpoint.config;
    assert_eq!((config.vocab_size, config.head_dim, config.num_key_value_heads), (262, 4, 1));
    // Meant as 1e-5, though the file holds the float32 nearest to it.
    assert_eq!((config.rms_norm_eps, config.rope_theta), (1e-5, 1e5));
    assert!(config.tie_word_embeddings);
    checkpoint.validate().unwrap();
    let up = &checkpoint.tensors["model.layers.0.mlp.up_proj.weight"];
    assert!(up.data.iter().enumerate().all(|(i, v)| *v == value("blk.0.ffn_up.weight", i)));
    assert_eq!(checkpoint.generation.end_tokens, [2]);
    let template = checkpoint.chat_template.unwrap();
    let text = template.render(&[crate::chat::Message::new("user", "x")], crate::chat::GenerationPrompt::Add);
    assert_eq!(text.unwrap(), "<|im_start|>x");
}

#[test]
fn llama_rows_are_put_back_and_qwen_rows_are_left() {
    let halves = HostTensor { shape: vec![8], data: (0..8u8).map(f32::from).collect() };
    assert_eq!(split_rotary_halves(&halves, 4), [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);

    let name = "model.layers.0.self_attn.q_proj.weight";
    let row = |row: usize| (0..8).map(|i| value("blk.0.attn_q.weight", row * 8 + i)).collect::<Vec<_>>();
    let llama = Model::new("llama", 8).open().unwrap();
    assert_eq!(llama.tensors[name].data[8..16], row(2));
    let mut qwen2 = Model::new("qwen2", 8);
    for (projection, size) in [("q", 8), ("k", 4), ("v", 4)] {
        qwen2.add(&format!("blk.0.attn_{projection}.bias"), &[size]);
    }
    let qwen2 = qwen2.open().unwrap();
    assert_eq!(qwen2.tensors[name].data[8..16], row(1));
    assert_eq!(qwen2.tensors["model.layers.0.self_attn.k_proj.bias"].data.len(), 4);
}

#[test]
fn every_listed_type_comes_close_to_what_was_quantised() {
    for (dtype, tolerance) in [
        (GgmlDType::F16, 0.001),
        (GgmlDType::BF16, 0.01),
        (GgmlDType::Q8_0, 0.01),
        (GgmlDType::Q5_0, 0.08),
        (GgmlDType::Q5_1, 0.05),
        (GgmlDType::Q4_0, 0.15),
        (GgmlDType::Q4_1, 0.08),
        (GgmlDType::Q2K, 0.5),
        (GgmlDType::Q3K, 0.3),
        (GgmlDType::Q4K, 0.1),
        (GgmlDType::Q5K, 0.06),
        (GgmlDType::Q6K, 0.05),
    ] {
        let mut model = Model::new("llama", 256);
        model.tensors.get_mut("blk.0.ffn_up.weight").unwrap().1 = dtype;
        let checkpoint = model.open().unwrap();
        let read = &checkpoint.tensors["model.layers.0.mlp.up_proj.weight"].data;
        for (i, v) in read.iter().enumerate() {
            let wanted = value("blk.0.ffn_up.weight", i);
            assert!((v - wanted).abs() <= tolerance, "{dtype:?}: {v} for {wanted}");
        }
    }
}

/// The layouts of GGML written out plainly, for blocks of any bytes.
fn decode_plainly(name: &str, block: &[u8]) -> Vec<f32> {
    let f16 = |at: usize| half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    let nibble = |at: usize, high: usize| f32::from(block[at] >> (4 * high) & 15);
    match name {
        "Q8_0" => (0..32).map(|i| f16(0) * f32::from(block[2 + i] as i8)).collect(),
        "Q4_0" => (0..32).map(|i| f16(0) * (nibble(2 + i % 16, i / 16) - 8.0)).collect(),
        "Q4_1" => (0..32).map(|i| f16(0) * nibble(4 + i % 16, i / 16) + f16(2)).collect(),
        "Q4_K" => (0..256)
            .map(|i| {
                // Eight runs of 32 with a 6-bit scale and minimum each, packed in 12 bytes.
                let run = i / 32;
                let packed = &block[4..16];
                let (scale, low) = if run < 4 {
                    (packed[run] & 63, packed[run + 4] & 63)
                } else {
                    (packed[run + 4] & 15 | packed[run - 4] >> 6 << 4, packed[run + 4] >> 4 | packed[run] >> 6 << 4)
                };
                let q = nibble(16 + run / 2 * 32 + i % 32, run % 2);
                f16(0) * f32::from(scale) * q - f16(2) * f32::from(low)
            })
            .collect(),
        "Q6_K" => (0..256)
            .map(|i| {
                // 128 bytes of low nibbles, 64 of two high bits, 16 scales; in two halves of 128.
                let (half, place) = (i / 128, i % 128);
                let (quarter, at) = (place / 32, place % 32);
                let low = nibble(half * 64 + quarter % 2 * 32 + at, quarter / 2);
                let high = block[128 + half * 32 + at] >> (2 * quarter) & 3;
                let scale = block[192 + half * 8 + quarter * 2 + at / 16] as i8;
                f16(208) * f32::from(scale) * (low + 16.0 * f32::from(high) - 32.0)
            })
            .collect(),
        other => panic!("no layout for {other}"),
    }
}

proptest! {
    #[test]
    fn blocks_of_any_bytes_decode_as_their_layout_says(seed in any::<u64>()) {
        for (code, name) in [(8, "Q8_0"), (2, "Q4_0"), (3, "Q4_1"), (12, "Q4_K"), (14, "Q6_K")] {
            let block = BlockType::from_code(code).unwrap();
            let mut bytes: Vec<u8> = (0..block.bytes(block.elements()).unwrap() as u64)
                .map(|i| (seed.wrapping_add(i).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
                .collect();
            // Keep the exponents of the scales away from infinity and NaN.
            let scales: &[usize] = match name { "Q6_K" => &[209], "Q4_1" | "Q4_K" => &[1, 3], _ => &[1] };
            scales.iter().for_each(|at| bytes[*at] &= 0b1011_1111);
            let read = block.decode(&bytes, &[block.elements()]).unwrap();
            for (got, wanted) in read.iter().zip(decode_plainly(name, &bytes)) {
                prop_assert!((got - wanted).abs() <= 1e-4 * wanted.abs().max(1.0), "{name}: {got}, {wanted}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_never_panics(place in any::<prop::sample::Index>(), bit in 0u32..8) {
        let mut bytes = Model::new("llama", 8).bytes();
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        let _ = open_bytes(&bytes);
    }
}

#[test]
fn a_truncated_file_is_always_an_error() {
    let whole = Model::new("llama", 8).bytes();
    // The writer pads the last tensor to 32 bytes; a norm of 8 numbers needs no padding.
    for length in (0..whole.len()).step_by(5).chain([whole.len() - 1]) {
        let error = open_bytes(&whole[..length]).unwrap_err().to_string();
        assert!(error.contains("model.gguf"), "{length}: {error}");
    }
}

#[test]
fn no_count_in_the_header_is_believed() {
    let whole = Model::new("llama", 8).bytes();
    // The number of tensors, of metadata entries, and the length of the first key.
    for at in [8, 16, 24] {
        for count in [u64::MAX, 1 << 60, 1 << 33] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&count.to_le_bytes());
            assert!(open_bytes(&bytes).unwrap_err().to_string().contains("truncated or damaged"));
        }
    }
    let mut bytes = whole.clone();
    let at = after(&bytes, "blk.0.ffn_up.weight") + 4;
    bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(open_bytes(&bytes).unwrap_err().to_string().contains("blk.0.ffn_up.weight"));
    let mut aligned = Model::new("llama", 8);
    aligned.metadata.insert("general.alignment".into(), V::U32(0));
    assert!(aligned.refusal().contains("general.alignment"));
}

fn after(bytes: &[u8], name: &str) -> usize {
    bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap() + name.len()
}

#[test]
fn an_unsupported_type_is_refused_with_its_tensor() {
    let mut bytes = Model::new("llama", 8).bytes();
    let at = after(&bytes, "blk.0.ffn_up.weight") + 4 + 16;
    bytes[at..at + 4].copy_from_slice(&20u32.to_le_bytes());
    let message = open_bytes(&bytes).unwrap_err().to_string();
    assert!(message.contains("tensor blk.0.ffn_up.weight: type IQ4_NL is not supported"), "{message}");
}

#[test]
fn tensors_that_share_their_bytes_are_refused() {
    let mut bytes = Model::new("llama", 8).bytes();
    for name in ["ffn_up", "ffn_gate", "ffn_down", "attn_q", "attn_output"] {
        let at = after(&bytes, &format!("blk.0.{name}.weight")) + 4;
        // A hundred times the rows, all from the start of the data: the shapes are refused.
        bytes[at + 8..at + 16].copy_from_slice(&240u64.to_le_bytes());
        bytes[at + 20..at + 28].copy_from_slice(&0u64.to_le_bytes());
    }
    let message = open_bytes(&bytes).unwrap_err().to_string();
    assert!(message.contains("damaged: tensors of"), "{message}");
}

#[test]
fn what_does_not_fit_is_named() {
    let with = |change: &dyn Fn(&mut Model)| {
        let mut model = Model::new("llama", 8);
        change(&mut model);
        model.refusal()
    };
    let set = |key: &'static str, value: V| with(&|model| drop(model.metadata.insert(key.into(), value.clone())));
    let text = |text: &str| V::String(text.into());
    for (message, named) in [
        (with(&|m| drop(m.tensors.remove("blk.0.ffn_up.weight"))), "blk.0.ffn_up.weight: is missing"),
        (with(&|m| m.add("blk.0.attn_qkv.weight", &[8])), "blk.0.attn_qkv.weight: is not part"),
        (with(&|m| m.add("blk.0.attn_k.weight", &[8, 8])), "blk.0.attn_k.weight: shape [8, 8]"),
        (with(&|m| drop(m.metadata.remove("llama.block_count"))), "llama.block_count = missing"),
        (set("general.architecture", text("mamba")), "general.architecture = mamba"),
        (set("llama.expert_count", V::U32(8)), "llama.expert_count = 8"),
        (set("llama.rope.scaling.type", text("yarn")), "llama.rope.scaling.type = yarn"),
        (set("llama.rope.dimension_count", V::U32(2)), "llama.rope.dimension_count = 2"),
        (set("llama.attention.head_count", V::U32(0)), "num_attention_heads = 0"),
        (set("tokenizer.ggml.pre", text("tekken")), "tokenizer.ggml.pre = tekken"),
        (set("tokenizer.ggml.model", text("llama")), "tokenizer.ggml.model = llama"),
        (set("tokenizer.ggml.merges", V::Array(vec![text("x yz")])), "uses \"yz\", which is no token"),
        (set("tokenizer.ggml.tokens", V::Array(vec![text("a"); 262])), "token \"a\" is there twice"),
    ] {
        assert!(message.contains(named), "{message}");
    }
}

#[test]
fn llama3_divisors_become_the_scaling_they_came_from() {
    let config = ModelConfig { head_dim: 64, rope_theta: 500_000.0, ..ModelConfig::default() };
    let scaling = RopeScaling::Llama3 { factor: 32.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_max_position_embeddings: 8192 };
    let mut divisors: Vec<f32> = (0..32).map(|pair| scaling.divisor(500_000f64.powf(-2.0 * f64::from(pair) / 64.0)) as f32).collect();
    assert_eq!(llama3_scaling(Path::new("m"), &config, &divisors).unwrap(), scaling);
    divisors[16] += 0.1;
    let error = llama3_scaling(Path::new("m"), &config, &divisors).unwrap_err().to_string();
    assert!(error.contains("rope_freqs.weight"), "{error}");
}

#[test]
fn each_splitter_cuts_words_as_its_model_does() {
    let ids = |pre: &str, text: &str| {
        let mut model = Model::new("llama", 8);
        model.metadata.insert("tokenizer.ggml.pre".into(), V::String(pre.into()));
        let tokenizer = model.open().unwrap().tokenizer.unwrap();
        assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap(), text);
        let ids = tokenizer.encode(text).unwrap();
        ids.iter().map(|id| tokenizer.id_to_token(*id).unwrap()).collect::<Vec<_>>()
    };
    // Digits alone never merge, and a space stays with what follows it unless that is a digit alone.
    assert_eq!(ids("smollm", " ab12"), ["Ġa", "b", "1", "2"]);
    assert_eq!(ids("gpt-2", " ab12"), ["Ġa", "b", "12"]);
    assert_eq!(ids("qwen2", "ab12"), ["ab", "1", "2"]);
    assert_eq!(ids("llama-bpe", "ab12"), ["ab", "12"]);
    // Newlines: Qwen2 and Llama 3 keep punctuation and line ends together; the bytes show that all come back.
    assert_eq!(ids("qwen2", "é\n"), ["Ã", "©", "Ċ"]);
}

#[test]
fn special_tokens_are_single_and_the_prefix_is_added_once() {
    let mut model = Model::new("llama", 8);
    let tokenizer = model.open().unwrap().tokenizer.unwrap();
    assert_eq!(tokenizer.encode("<|im_start|>ab").unwrap(), [1, 260]);
    assert_eq!(tokenizer.decode(&[1, 260, 2]).unwrap(), "ab");
    assert_eq!(tokenizer.decode_with_special(&[260, 2]).unwrap(), "ab<|im_end|>");
    assert_eq!((tokenizer.vocab_size(), tokenizer.prefix_token()), (262, None));

    model.metadata.insert("tokenizer.ggml.add_bos_token".into(), V::Bool(true));
    let tokenizer = model.open().unwrap().tokenizer.unwrap();
    assert_eq!(tokenizer.encode("ab").unwrap(), [1, 260]);
    assert_eq!(tokenizer.encode("<|im_start|>ab").unwrap(), [1, 260]);
    assert_eq!(tokenizer.encode_continuation("ab").unwrap(), [260]);
}

#[test]
fn a_character_in_several_tokens_appears_with_the_last() {
    let tokenizer = Model::new("llama", 8).open().unwrap().tokenizer.unwrap();
    let mut stream = crate::tokenizer::DecodeStream::new();
    let pieces: Vec<_> = tokenizer.encode("aé b").unwrap().into_iter().map(|id| stream.push(&tokenizer, id).unwrap().to_owned()).collect();
    assert_eq!(pieces, ["a", "", "é", " ", "b"]);
    assert_eq!(stream.text(), "aé b");
}

#[test]
fn a_tokenizer_from_a_gguf_file_survives_tokenizer_json() {
    let tokenizer = Model::new("llama", 8).open().unwrap().tokenizer.unwrap();
    let again = crate::Tokenizer::from_json(tokenizer.to_json().unwrap()).unwrap();
    let text = "<|im_start|>12 ab\n\n  été 3.14<|im_end|>";
    assert_eq!(again.encode(text).unwrap(), tokenizer.encode(text).unwrap());
    assert_eq!(again.vocab_size(), 262);
}

#[test]
#[ignore = "needs the file that scripts/fetch-smollm2.sh gets"]
fn smollm2_is_read_and_exported_whole() {
    use crate::chat::{GenerationPrompt, Message};
    use crate::export::{WeightType, write_hf_folder};

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let checkpoint = Checkpoint::open(path).unwrap();
    checkpoint.validate().unwrap();
    let tokenizer = checkpoint.tokenizer.clone().unwrap();
    // From Hugging Face's own tokenizer of this model.
    for (text, ids) in SMOLLM2_IDS {
        assert_eq!(tokenizer.encode(text).unwrap(), *ids, "{text}");
        assert_eq!(tokenizer.decode_with_special(ids).unwrap(), *text);
    }
    let template = checkpoint.chat_template.clone().unwrap();
    let prompt = template.render(&[Message::new("user", "Hi")], GenerationPrompt::Add).unwrap();
    assert!(prompt.ends_with("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"), "{prompt}");

    let folder = tempfile::tempdir().unwrap();
    write_hf_folder(folder.path(), &checkpoint, WeightType::F32).unwrap();
    let again = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(again.config, checkpoint.config);
    assert_eq!(again.generation, checkpoint.generation);
    assert!(again.tensors == checkpoint.tensors);
    let tokenizer = again.tokenizer.unwrap();
    assert!(SMOLLM2_IDS.iter().all(|(text, ids)| tokenizer.encode(text).unwrap() == *ids));
    assert_eq!(again.chat_template.unwrap().source(), template.source());
}

const SMOLLM2_IDS: &[(&str, &[u32])] = &[
    (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\nWhat is 7 + 5?<|im_end|>\n<|im_start|>assistant\n",
        &[
            1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2, 198, 1, 4093, 198,
            1780, 314, 216, 39, 1232, 216, 37, 47, 2, 198, 1, 520, 9531, 198,
        ],
    ),
    ("The capital of France is", &[504, 3575, 282, 4649, 314]),
    (
        "def add(a, b):\n    return a + b\n\nprint(add(123, 4567))  # ->",
        &[
            1604, 803, 24, 81, 28, 278, 727, 472, 1003, 253, 1232, 278, 198, 198, 3272, 24, 2104, 24, 33, 34, 35, 28, 216, 36, 37, 38, 39,
            1292, 216, 907, 4722,
        ],
    ),
    (
        "Café naïve – 你好, мир! 3.14159 🙂 <|im_end|>\n",
        &[
            51, 1939, 2756, 15486, 46494, 816, 216, 18645, 250, 48392, 138, 28, 41337, 7872, 9175, 17, 216, 35, 30, 33, 36, 33, 37, 41,
            47526, 216, 2, 198,
        ],
    ),
];
