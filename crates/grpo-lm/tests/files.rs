//! What this crate reads, against files that `transformers` and PEFT wrote and texts that they rendered.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use grpo_lm::Checkpoint;
use grpo_lm::chat::{ChatTemplate, GenerationPrompt, Message};
use grpo_lm::config::{Architecture, RopeScaling};
use grpo_lm::export::{WeightType, read_peft, write_hf_folder, write_peft};
use serde_json::Value;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Seconds since 1970 of `2024-02-09T12:30:00`.
fn seconds(text: &str) -> u64 {
    let part = |range: std::ops::Range<usize>| text[range].parse::<u64>().unwrap();
    // Days from civil: years begin in March, so that the leap day is the last.
    let (year, month, day) = (part(0..4), part(5..7), part(8..10));
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    days * 86_400 + part(11..13) * 3600 + part(14..16) * 60 + part(17..19)
}

#[test]
fn chat_templates_render_as_in_transformers() {
    // Not serde_json's value: that one sorts the fields of an object, and `tojson` shows their order.
    let bytes = std::fs::read(testdata("chat-templates.json")).unwrap();
    let all: minijinja::Value = serde_json::from_slice(&bytes).unwrap();
    let get = |value: &minijinja::Value, name: &str| {
        Some(value.get_attr(name).unwrap()).filter(|value| !value.is_undefined() && !value.is_none())
    };
    let text = |value: &minijinja::Value, name: &str| get(value, name).map(|v| v.as_str().unwrap().to_owned());
    let list = |value: &minijinja::Value, name: &str| -> Vec<_> {
        get(value, name).into_iter().flat_map(|list| list.try_iter().unwrap()).collect()
    };
    let mut checked = 0;
    for template in list(&all, "templates") {
        let name = text(&template, "name").unwrap();
        if name == "features-rare" {
            // Corners that no model's template uses; `separators` for one is refused by name.
            continue;
        }
        let mut compiled = ChatTemplate::new(&text(&template, "template").unwrap()).unwrap();
        for token in ["bos_token", "eos_token"] {
            if let Some(text) = text(&template, token) {
                compiled = compiled.with_variable(token, text);
            }
        }
        for case in list(&template, "cases") {
            let mut compiled = compiled.clone();
            if let Some(tools) = get(&case, "tools") {
                compiled = compiled.with_variable("tools", tools);
            }
            if let Some(variables) = get(&case, "variables") {
                for variable in variables.try_iter().unwrap() {
                    let value = variables.get_item(&variable).unwrap();
                    compiled = compiled.with_variable(variable.as_str().unwrap(), value);
                }
            }
            if let Some(now) = text(&case, "now") {
                compiled = compiled.with_time(seconds(&now));
            }
            let add = get(&case, "add_generation_prompt").unwrap().is_true();
            let prompt = if add { GenerationPrompt::Add } else { GenerationPrompt::Omit };
            let rendered = compiled.render_any(&list(&case, "messages"), prompt);
            let what = format!("{name}: {}", text(&case, "name").unwrap());
            match text(&case, "text") {
                Some(text) => assert_eq!(rendered.unwrap(), text, "{what}"),
                None => {
                    let message = rendered.unwrap_err().to_string();
                    assert!(message.contains(&text(&case, "error").unwrap()), "{what}: {message}");
                }
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 46);
}

#[test]
fn tiny_models_are_read_and_written_whole() {
    for (name, architecture) in [("llama-scaled-rope", Architecture::Llama), ("qwen2", Architecture::Qwen2), ("qwen3", Architecture::Qwen3)]
    {
        let folder = testdata("tiny-models").join(name);
        let model = Checkpoint::open(&folder).unwrap();
        model.validate().unwrap();
        assert_eq!(model.config.architecture, architecture);
        let llama3 = matches!(model.config.rope_scaling, RopeScaling::Llama3 { factor: 8.0, .. });
        assert_eq!(llama3, architecture == Architecture::Llama);

        let reference = json(&folder.join("reference.json"));
        let end: Vec<u32> = serde_json::from_value(reference["eos_token_ids"].clone()).unwrap();
        assert_eq!(model.generation.end_tokens, end, "{name}");
        let tokenizer = model.tokenizer.clone().unwrap();
        assert_eq!(tokenizer.prefix_token().is_some(), reference["add_bos"] == Value::Bool(true));
        for case in reference["cases"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
            assert_eq!(tokenizer.encode(text).unwrap(), ids, "{name}: {text}");
            let greedy: Vec<u32> = serde_json::from_value(case["greedy_ids_32"].clone()).unwrap();
            let decoded = tokenizer.decode_with_special(&greedy).unwrap();
            assert_eq!(decoded, case["greedy_text"].as_str().unwrap(), "{name}: {text}");
            if case["name"] == "chat"
                && let Some(template) = &model.chat_template
            {
                let messages: Vec<Message> = serde_json::from_value(reference["chat_messages"].clone()).unwrap();
                assert_eq!(template.render(&messages, GenerationPrompt::Add).unwrap(), text);
            }
        }

        let copy = tempfile::tempdir().unwrap();
        write_hf_folder(copy.path(), &model, WeightType::F32).unwrap();
        let again = Checkpoint::open(copy.path()).unwrap();
        assert_eq!(again.config, model.config);
        assert_eq!(again.tensors, model.tensors);
        assert_eq!(again.generation, model.generation);
        assert_eq!(again.chat_template, model.chat_template);
        let original = std::fs::read(folder.join("tokenizer.json")).unwrap();
        assert_eq!(std::fs::read(copy.path().join("tokenizer.json")).unwrap(), original);
    }
}

#[test]
fn an_adapter_of_peft_is_read_and_written_whole() {
    let adapter = read_peft(testdata("tiny-peft")).unwrap();
    assert_eq!((adapter.rank, adapter.alpha), (4, 8.0));
    assert_eq!(adapter.factors.len(), 2 * 7);
    assert_eq!(adapter.target_modules().len(), 7);
    let query = &adapter.factors["model.layers.1.self_attn.q_proj"];
    assert_eq!((query.a.shape.as_slice(), query.b.shape.as_slice()), ([4, 48].as_slice(), [48, 4].as_slice()));
    let copy = tempfile::tempdir().unwrap();
    write_peft(copy.path(), &adapter).unwrap();
    assert_eq!(read_peft(copy.path()).unwrap(), adapter);
}
