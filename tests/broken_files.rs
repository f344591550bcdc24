//! Models that cannot be read: each refused with its file and what is wrong with it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use grpo_lm::Checkpoint;
use grpo_lm::export::read_peft;
use serde_json::{Value, json};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)
}

/// A copy of a folder, to be damaged.
struct Copy(tempfile::TempDir);

impl Copy {
    fn of(name: &str) -> Self {
        let copy = Self(tempfile::tempdir().unwrap());
        for file in std::fs::read_dir(testdata(name)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.path(file.file_name().to_str().unwrap())).unwrap();
        }
        copy
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn set(&self, file: &str, field: &str, value: Value) {
        let mut json: Value = serde_json::from_slice(&std::fs::read(self.path(file)).unwrap()).unwrap();
        json[field] = value;
        std::fs::write(self.path(file), json.to_string()).unwrap();
    }

    /// Keeps the first bytes of a file.
    fn cut(&self, file: &str, keep: impl Fn(usize) -> usize) {
        let bytes = std::fs::read(self.path(file)).unwrap();
        std::fs::write(self.path(file), &bytes[..keep(bytes.len())]).unwrap();
    }

    fn complaint(&self) -> String {
        Checkpoint::open(self.0.path()).unwrap_err().to_string()
    }
}

#[test]
fn missing_weights_are_named() {
    let copy = Copy::of("tiny-models/qwen2");
    std::fs::remove_file(copy.path("model.safetensors")).unwrap();
    let said = copy.complaint();
    assert!(said.contains("model.safetensors") && said.contains(copy.0.path().to_str().unwrap()), "{said}");

    let copy = Copy::of("tiny-models/llama-scaled-rope");
    std::fs::remove_file(copy.path("model-00002-of-00002.safetensors")).unwrap();
    let said = copy.complaint();
    assert!(said.contains("model-00002-of-00002.safetensors"), "{said}");
}

#[test]
fn weights_that_were_cut_off_are_named_wherever_the_cut_is() {
    for keep in [|_| 0, |_| 4, |_| 100, |whole: usize| whole / 2, |whole: usize| whole - 1] {
        let copy = Copy::of("tiny-models/qwen2");
        copy.cut("model.safetensors", keep);
        let said = copy.complaint();
        assert!(said.contains("model.safetensors"), "{said}");
    }
    let copy = Copy::of("tiny-models/llama-scaled-rope");
    copy.cut("model-00001-of-00002.safetensors", |whole| whole - 1);
    let said = copy.complaint();
    assert!(said.contains("model-00001-of-00002.safetensors"), "{said}");
}

#[test]
fn an_architecture_that_cannot_be_run_is_named_beside_those_that_can() {
    let copy = Copy::of("tiny-models/qwen2");
    copy.set("config.json", "architectures", json!(["MambaForCausalLM"]));
    copy.set("config.json", "model_type", json!("mamba"));
    let said = copy.complaint().to_lowercase();
    assert!(said.contains("mamba"), "{said}");
    for supported in ["llama", "qwen2", "qwen3"] {
        assert!(said.contains(supported), "{said}");
    }
}

#[test]
fn a_config_that_does_not_fit_the_weights_is_refused_with_the_tensor() {
    let copy = Copy::of("tiny-models/qwen2");
    copy.set("config.json", "intermediate_size", json!(57));
    let said = copy.complaint();
    assert!(said.contains("mlp.") && said.contains("57"), "{said}");
    let copy = Copy::of("tiny-models/qwen2");
    copy.set("config.json", "num_hidden_layers", json!(3));
    let said = copy.complaint();
    assert!(said.contains("model.layers.2.") && said.contains("missing"), "{said}");
}

/// A GGUF file of one tensor of 256 values, and no more than its header.
fn gguf(tensor_type: u32) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    [
        b"GGUF".to_vec(),
        3u32.to_le_bytes().to_vec(),
        1u64.to_le_bytes().to_vec(), // tensors
        1u64.to_le_bytes().to_vec(), // metadata entries
        text("general.architecture"),
        8u32.to_le_bytes().to_vec(), // a text
        text("llama"),
        text("token_embd.weight"),
        1u32.to_le_bytes().to_vec(), // dimensions
        256u64.to_le_bytes().to_vec(),
        tensor_type.to_le_bytes().to_vec(),
        0u64.to_le_bytes().to_vec(), // offset
        vec![0; 2048],
    ]
    .concat()
}

#[test]
fn a_gguf_type_that_cannot_be_read_is_named_beside_those_that_can() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.gguf");
    std::fs::write(&file, gguf(16)).unwrap(); // IQ2_XXS
    let said = Checkpoint::open(&file).unwrap_err().to_string();
    for part in ["model.gguf", "token_embd.weight", "IQ2_XXS", "Q4_1", "Q8_0"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // The same file with a type that can be read fails later, and for another reason.
    std::fs::write(&file, gguf(0)).unwrap();
    let said = Checkpoint::open(&file).unwrap_err().to_string();
    assert!(!said.contains("not supported"), "{said}");
    std::fs::write(&file, &gguf(0)[..40]).unwrap();
    let said = Checkpoint::open(&file).unwrap_err().to_string();
    assert!(said.contains("model.gguf"), "{said}");
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "hello").unwrap();
    let said = Checkpoint::open(&file).unwrap_err().to_string();
    assert!(said.contains("notes.txt") && said.contains("GGUF"), "{said}");
    let said = Checkpoint::open(folder.path()).unwrap_err().to_string();
    assert!(said.contains("config.json"), "{said}");
}

#[test]
fn an_adapter_that_was_cut_off_or_lost_its_description_is_named() {
    let copy = Copy::of("tiny-peft");
    copy.cut("adapter_model.safetensors", |whole| whole / 2);
    let said = read_peft(copy.0.path()).unwrap_err().to_string();
    assert!(said.contains("adapter_model.safetensors"), "{said}");
    std::fs::remove_file(copy.path("adapter_config.json")).unwrap();
    let said = read_peft(copy.0.path()).unwrap_err().to_string();
    assert!(said.contains("adapter_config.json"), "{said}");
}
