#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use safetensors::tensor::{TensorView, serialize};
use serde_json::json;

use super::*;
use crate::config::Architecture;
use crate::export::{WeightType, write_hf_folder};

fn small() -> ModelConfig {
    ModelConfig { vocab_size: 6, hidden_size: 4, intermediate_size: 6, head_dim: 2, ..ModelConfig::default() }
}

fn checkpoint(config: ModelConfig) -> Checkpoint {
    let tensor = |at: usize, shape: Vec<usize>| HostTensor {
        data: (0..shape.iter().product::<usize>()).map(|i| ((at * 31 + i) % 97) as f32 / 64.0 - 0.5).collect(),
        shape,
    };
    let tensors = names::tensors(&config).into_iter().enumerate();
    Checkpoint {
        tensors: tensors.map(|(at, (name, shape))| (name, tensor(at, shape))).collect(),
        config,
        tokenizer: None,
        generation: GenerationDefaults { end_tokens: vec![2, 5], temperature: Some(0.6), ..Default::default() },
        chat_template: None,
    }
}

fn written(config: ModelConfig) -> (tempfile::TempDir, Checkpoint) {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = checkpoint(config);
    write_hf_folder(folder.path(), &checkpoint, WeightType::F32).unwrap();
    (folder, checkpoint)
}

fn refusal(folder: &tempfile::TempDir) -> String {
    Checkpoint::open(folder.path()).unwrap_err().to_string()
}

fn edit(folder: &tempfile::TempDir, file: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.path().join(file);
    let mut json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    std::fs::write(&path, json.to_string()).unwrap();
}

/// Writes safetensors by the library itself, as any other program would.
fn save(path: &Path, tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) {
    let views = tensors.iter().map(|(name, dtype, shape, data)| (*name, TensorView::new(*dtype, shape.to_vec(), data).unwrap()));
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    std::fs::write(path, serialize(views, Some(metadata)).unwrap()).unwrap();
}

fn f32_bytes(data: &[f32]) -> Vec<u8> {
    data.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn whole<'a>(checkpoint: &'a Checkpoint) -> Vec<(&'a str, Dtype, &'a [usize], Vec<u8>)> {
    let one = |(name, tensor): (&'a String, &'a HostTensor)| (name.as_str(), Dtype::F32, tensor.shape.as_slice(), f32_bytes(&tensor.data));
    checkpoint.tensors.iter().map(one).collect()
}

#[test]
fn what_is_written_is_read_back_equal_in_every_family() {
    let qwen2 = ModelConfig { architecture: Architecture::Qwen2, attention_bias: true, ..small() };
    let qwen3 = ModelConfig { architecture: Architecture::Qwen3, qk_norm: true, tie_word_embeddings: false, ..small() };
    for config in [small(), qwen2, qwen3, ModelConfig { attention_bias: true, mlp_bias: true, ..small() }] {
        let (folder, checkpoint) = written(config);
        let again = Checkpoint::open(folder.path()).unwrap();
        assert_eq!(again.config, checkpoint.config);
        assert_eq!(again.tensors, checkpoint.tensors);
        assert_eq!(again.generation, checkpoint.generation);
    }
}

#[test]
fn the_file_is_what_transformers_expects() {
    let (folder, _) = written(small());
    let bytes = std::fs::read(folder.path().join(SINGLE)).unwrap();
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    assert!(metadata.info(names::HEAD).is_none());
    let config = object(&folder.path().join("config.json")).unwrap();
    assert_eq!(config["architectures"], json!(["LlamaForCausalLM"]));
    assert_eq!(config["eos_token_id"], json!([2, 5]));
    let leftovers = std::fs::read_dir(folder.path()).unwrap();
    assert!(!leftovers.into_iter().any(|f| f.unwrap().path().extension().is_some_and(|e| e == "partial")));
}

#[test]
fn saving_over_the_folder_that_was_loaded_keeps_the_values() {
    let (folder, checkpoint) = written(small());
    let loaded = Checkpoint::open(folder.path()).unwrap();
    write_hf_folder(folder.path(), &loaded, WeightType::F32).unwrap();
    assert_eq!(Checkpoint::open(folder.path()).unwrap().tensors, checkpoint.tensors);
}

#[test]
fn every_float_type_is_read_and_integers_are_refused() {
    let (folder, checkpoint) = written(small());
    let path = folder.path().join(SINGLE);
    let name = "model.norm.weight";
    // Values that all types hold exactly.
    let norm = [0.5f32, -1.5, 2.0, 0.25];
    let bytes = |dtype| -> Vec<u8> {
        let one = |v: &f32| match dtype {
            Dtype::F64 => f64::from(*v).to_le_bytes().to_vec(),
            Dtype::F16 => half::f16::from_f32(*v).to_le_bytes().to_vec(),
            Dtype::BF16 => half::bf16::from_f32(*v).to_le_bytes().to_vec(),
            _ => v.to_le_bytes().to_vec(),
        };
        norm.iter().flat_map(one).collect()
    };
    for dtype in [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I32] {
        let mut tensors = whole(&checkpoint);
        tensors.retain(|(other, ..)| *other != name);
        tensors.push((name, dtype, &[4], bytes(dtype)));
        save(&path, &tensors);
        match Checkpoint::open(folder.path()) {
            Ok(read) => assert_eq!(read.tensors[name].data, norm),
            Err(error) => {
                assert_eq!(dtype, Dtype::I32);
                assert!(error.to_string().contains("model.norm.weight: type I32 is not supported"), "{error}");
            }
        }
    }
}

#[test]
fn shards_of_any_name_are_read_and_a_hole_in_them_is_named() {
    let (folder, checkpoint) = written(small());
    let all = whole(&checkpoint);
    std::fs::remove_file(folder.path().join(SINGLE)).unwrap();
    let (left, right) = all.split_at(5);
    save(&folder.path().join("first.safetensors"), left);
    save(&folder.path().join("second.bin.safetensors"), right);
    let shard = |at: usize| if at < 5 { "first.safetensors" } else { "second.bin.safetensors" };
    let map: Map<String, Value> = all.iter().enumerate().map(|(at, (name, ..))| ((*name).to_owned(), shard(at).into())).collect();
    let index = folder.path().join(INDEX);
    std::fs::write(&index, json!({ "metadata": {}, "weight_map": map }).to_string()).unwrap();
    assert_eq!(Checkpoint::open(folder.path()).unwrap().tensors, checkpoint.tensors);

    save(&folder.path().join("second.bin.safetensors"), &right[1..]);
    let message = refusal(&folder);
    assert!(message.contains("second.bin.safetensors") && message.contains(right[0].0), "{message}");
    std::fs::remove_file(folder.path().join("second.bin.safetensors")).unwrap();
    assert!(refusal(&folder).contains("second.bin.safetensors: No such file"));
    edit(&folder, INDEX, |json| json["weight_map"]["x"] = "../../etc/passwd".into());
    assert!(refusal(&folder).contains("must be the name of a file in the folder"));
}

#[test]
fn each_tensor_is_used_or_named() {
    let (folder, checkpoint) = written(small());
    let path = folder.path().join(SINGLE);
    let all = whole(&checkpoint);

    save(&path, &all[1..]);
    assert!(refusal(&folder).contains(&format!("tensor {}: is missing", all[0].0)));

    let mut fused = all.clone();
    fused.push(("model.layers.0.self_attn.qkv_proj.weight", Dtype::F32, &[1], f32_bytes(&[0.0])));
    save(&path, &fused);
    assert!(refusal(&folder).contains("self_attn.qkv_proj.weight: is not part of the model"));

    let mut allowed = all.clone();
    let embedding = f32_bytes(&checkpoint.tensors[names::EMBEDDING].data);
    allowed.push(("model.layers.0.self_attn.rotary_emb.inv_freq", Dtype::F32, &[1], f32_bytes(&[1.0])));
    allowed.push((names::HEAD, Dtype::F32, &[6, 4], embedding));
    save(&path, &allowed);
    assert_eq!(Checkpoint::open(folder.path()).unwrap().tensors, checkpoint.tensors);

    allowed.last_mut().unwrap().3[0] ^= 1;
    save(&path, &allowed);
    assert!(refusal(&folder).contains("lm_head.weight: differs from model.embed_tokens.weight"));

    save(&path, &all);
    edit(&folder, "config.json", |json| json["intermediate_size"] = 7.into());
    let message = refusal(&folder);
    assert!(message.contains("shape [6, 4], the config asks for [7, 4]"), "{message}");
    edit(&folder, "config.json", |json| json["tie_word_embeddings"] = false.into());
    edit(&folder, "config.json", |json| json["intermediate_size"] = 6.into());
    assert!(refusal(&folder).contains("lm_head.weight: is missing"));
}

#[test]
fn a_truncated_or_hostile_file_is_an_error_at_once() {
    let (folder, _) = written(small());
    let path = folder.path().join(SINGLE);
    let bytes = std::fs::read(&path).unwrap();
    for length in (0..bytes.len()).step_by(3).chain([bytes.len() - 1]) {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let message = refusal(&folder);
        assert!(message.contains("model.safetensors") && message.contains("truncated"), "{length}: {message}");
    }
    // Cut in the last tensor: it is named.
    std::fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
    assert!(refusal(&folder).contains("tensor model.norm.weight: truncated"));
    for length in [u64::MAX, 1 << 60] {
        let mut hostile = bytes.clone();
        hostile[..8].copy_from_slice(&length.to_le_bytes());
        std::fs::write(&path, &hostile).unwrap();
        assert!(refusal(&folder).contains("a header of"));
    }
    let header = r#"{"model.norm.weight":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#;
    let hostile = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    std::fs::write(&path, hostile).unwrap();
    assert!(refusal(&folder).contains("damaged header"));
    std::fs::remove_file(&path).unwrap();
    assert!(refusal(&folder).contains("neither model.safetensors nor"));
}

#[test]
fn end_tokens_come_from_the_first_file_that_names_them() {
    let (folder, _) = written(small());
    let end = |folder: &tempfile::TempDir| Checkpoint::open(folder.path()).unwrap().generation.end_tokens;
    edit(&folder, "generation_config.json", |json| json["eos_token_id"] = 4.into());
    assert_eq!(end(&folder), [4]);
    edit(&folder, "generation_config.json", |json| json["eos_token_id"] = Value::Null);
    assert_eq!(end(&folder), [2, 5]);
    edit(&folder, "config.json", |json| json["eos_token_id"] = Value::Null);
    assert_eq!(end(&folder), [] as [u32; 0]);
    edit(&folder, "generation_config.json", |json| json["eos_token_id"] = "two".into());
    assert!(refusal(&folder).contains("eos_token_id = \"two\""));
}

#[test]
fn tokenizer_and_template_go_through_a_folder_unchanged() {
    let json = r#"{"version":"1.0","truncation":null,"padding":null,
        "added_tokens":[{"id":3,"content":"<end>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
        "normalizer":null,"pre_tokenizer":{"type":"Split","pattern":{"String":""},"behavior":"Isolated","invert":false},
        "post_processor":null,"decoder":{"type":"Fuse"},
        "model":{"type":"WordLevel","vocab":{"a":0,"b":1,"?":2,"<end>":3},"unk_token":"?"}}"#;
    let (folder, _) = written(small());
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("tokenizer.json"), json).unwrap();
    let settings = json!({
        "eos_token": { "content": "<end>" }, "add_bos_token": false, "anything": [1],
        "chat_template": [{ "name": "tool", "template": "x" }, { "name": "default", "template": "{{ eos_token }}" }],
    });
    std::fs::write(file("tokenizer_config.json"), settings.to_string()).unwrap();
    for path in ["generation_config.json", "config.json"] {
        edit(&folder, path, |json| json["eos_token_id"] = Value::Null);
    }
    let loaded = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(loaded.generation.end_tokens, [3]);
    let template = loaded.chat_template.clone().unwrap();
    assert_eq!(template.render(&[], crate::chat::GenerationPrompt::Add).unwrap(), "<end>");

    let copy = tempfile::tempdir().unwrap();
    write_hf_folder(copy.path(), &loaded, WeightType::Bf16).unwrap();
    assert_eq!(std::fs::read_to_string(copy.path().join("tokenizer.json")).unwrap(), json);
    let settings_again = object(&copy.path().join("tokenizer_config.json")).unwrap();
    assert_eq!(Value::Object(settings_again), settings);
    assert_eq!(Checkpoint::open(copy.path()).unwrap().chat_template.unwrap(), template);

    std::fs::write(copy.path().join("chat_template.jinja"), "newer").unwrap();
    assert_eq!(Checkpoint::open(copy.path()).unwrap().chat_template.unwrap().source(), "newer");
    std::fs::write(copy.path().join("tokenizer.json"), &json[..90]).unwrap();
    assert!(Checkpoint::open(copy.path()).unwrap_err().to_string().contains("tokenizer.json: tokenizer: "));
}
