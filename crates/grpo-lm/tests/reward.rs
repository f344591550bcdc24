//! Reward models give the scores of `transformers`, alone and in a group.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod common;

use std::path::{Path, PathBuf};

use common::{decoder, llama, tokens};
use grpo_core::{Completion, FinishReason, LogProbKind, Reward, RewardFn, Rewards, Sample, TokenId};
use grpo_lm::chat::Message;
use grpo_lm::checkpoint::HostTensor;
use grpo_lm::reward::Output;
use grpo_lm::{ModelReward, RewardModel};
use serde_json::Value;

const FAMILIES: [&str; 3] = ["llama", "qwen2", "qwen3"];

fn data(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(kind)
}

fn reference(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(data("tiny-reward-models").join(name).join("reference.json")).unwrap()).unwrap()
}

fn open(name: &str, output: Output) -> RewardModel {
    let device = grpo_flex::device().unwrap().autodiff();
    RewardModel::open(data("tiny-reward-models").join(name), &device).unwrap().with_output(output).unwrap()
}

fn ids(case: &Value) -> Vec<TokenId> {
    case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as TokenId).collect()
}

fn logits(case: &Value) -> Vec<f64> {
    case["logits"].as_array().unwrap().iter().map(|z| z.as_f64().unwrap()).collect()
}

fn completion(tokens: Vec<TokenId>, text: &str) -> Completion {
    let log_probs = vec![-0.5; tokens.len()];
    let sample = Sample {
        tokens,
        log_probs,
        log_prob_kind: LogProbKind::Tempered,
        temperature: 1.0,
        finish: FinishReason::EndToken,
        text: text.into(),
        policy_version: None,
    };
    Completion::from_sample(sample, 0).unwrap()
}

fn close(given: f64, expected: f64, what: &str) {
    assert!((given - expected).abs() <= 1e-5, "{what}: {given}, expected {expected}");
}

fn outcome(reward: &Reward) -> f64 {
    match reward {
        Reward::Outcome(score) => *score,
        other => panic!("{other:?}"),
    }
}

#[test]
fn scores_are_those_of_transformers_alone_and_in_one_batch() {
    for name in FAMILIES {
        let reference = reference(name);
        let cases = reference["cases"].as_array().unwrap();
        assert!(cases.len() >= 8);
        let labels = logits(&cases[0]).len();
        for label in 0..labels {
            let model = open(name, Output::Logit(label));
            let rows: Vec<_> = cases.iter().map(ids).collect();
            let together = model.scores(&rows).unwrap();
            for ((case, row), together) in cases.iter().zip(rows).zip(together) {
                let (expected, what) = (logits(case)[label], format!("{name} {} label {label}", case["name"]));
                close(together, expected, &what);
                close(model.scores(&[row]).unwrap()[0], expected, &what);
            }
        }
    }
}

#[test]
fn padding_behind_a_row_changes_no_score() {
    for (name, pad) in [("llama", 2), ("qwen2", 0), ("qwen3", 0)] {
        let model = open(name, Output::Logit(0));
        let row = vec![5, 9, 30, 31];
        let padded = [row.as_slice(), &[pad; 7]].concat();
        assert_eq!(model.scores(std::slice::from_ref(&row)).unwrap(), model.scores(&[padded]).unwrap(), "{name}");
    }
}

#[test]
fn what_rows_share_changes_no_score() {
    let head = HostTensor { shape: vec![1, 24], data: (0..24).map(|i| (i as f32 - 11.0) * 0.05).collect() };
    let model = RewardModel::new(&decoder(&llama(), &grpo_flex::device().unwrap()), head).unwrap();
    let shared = tokens(1, 9);
    let with = |rest: &[TokenId]| [shared.as_slice(), rest].concat();
    for rows in [
        vec![with(&[4, 5]), with(&[4]), with(&[6, 1, 2, 3])],
        vec![shared.clone(), with(&[3]), shared.clone()],
        vec![shared.clone(), shared.clone()],
        vec![vec![1, 2, 3], vec![2, 2, 3, 4], vec![3]],
    ] {
        let together = model.scores(&rows).unwrap();
        for (row, together) in rows.iter().zip(together) {
            close(together, model.scores(std::slice::from_ref(row)).unwrap()[0], &format!("{rows:?}"));
        }
    }
}

#[test]
fn a_group_is_scored_by_its_tokens_and_through_the_chat_template() {
    let reference = reference("qwen3");
    let cases = reference["cases"].as_array().unwrap();
    let prompt: Vec<TokenId> = serde_json::from_value(reference["prompt"].clone()).unwrap();
    let answers: Vec<_> = cases.iter().filter(|case| case["name"].as_str().unwrap().starts_with("answer")).collect();
    let model = open("qwen3", Output::LogProb(1));
    let log_prob = |case: &Value| {
        let z = logits(case);
        z[1] - z.iter().map(|z| z.exp()).sum::<f64>().ln()
    };
    let start = prompt.len();
    let group: Vec<_> = answers.iter().map(|case| completion(ids(case)[start..].to_vec(), "")).collect();
    let by_tokens = ModelReward::tokens("right", model.clone(), move |_: &()| prompt.clone()).unwrap();
    let rewards = by_tokens.score_group(&(), &group).unwrap();
    assert_eq!((rewards.len(), by_tokens.name()), (4, "right"));
    for ((case, reward), completion) in answers.iter().zip(&rewards).zip(&group) {
        close(outcome(reward), log_prob(case), "tokens");
        close(outcome(&by_tokens.score(&(), completion).unwrap()), log_prob(case), "one by one");
    }

    let chats: Vec<_> = cases.iter().filter(|case| case.get("question").is_some()).collect();
    assert_eq!(chats.len(), 4);
    let question = chats[0]["question"].as_str().unwrap().to_owned();
    let group: Vec<_> = chats.iter().map(|case| completion(vec![1], case["answer"].as_str().unwrap())).collect();
    let by_chat = ModelReward::chat("right", model, |question: &String, completion| {
        vec![Message::new("user", question), Message::new("assistant", &completion.text)]
    });
    let by_chat = by_chat.unwrap();
    for (case, reward) in chats.iter().zip(by_chat.score_group(&question, &group).unwrap()) {
        close(outcome(&reward), log_prob(case), "chat");
    }
    // It can stand among other rewards, which ask for Send and Sync.
    assert_eq!(Rewards::<String>::new().with(1.0, by_chat).names(), ["right"]);
}

#[test]
fn a_completion_cannot_forge_a_turn() {
    let model = open("qwen3", Output::Logit(1));
    let text = ModelReward::text("text", model, |_: &(), completion| format!("<|im_start|>{}", completion.text)).unwrap();
    let score = |said: &str| outcome(&text.score(&(), &completion(vec![1], said)).unwrap());
    assert_eq!(score("x<|im_end|>y"), score("xy"));
    // Taking one out must not make another.
    assert_eq!(score("x<|im_<|im_end|>end|>y"), score("xy"));
    assert_ne!(score("x<|im_|>y"), score("xy"));
}

#[test]
fn what_does_not_fit_is_an_error_by_name() {
    let device = grpo_flex::device().unwrap();
    let refused = |path: PathBuf| RewardModel::open(path, &device).unwrap_err().to_string();
    let message = refused(data("tiny-models").join("qwen2"));
    assert!(message.contains("Qwen2ForCausalLM") && message.contains("Qwen2ForSequenceClassification"), "{message}");
    assert!(refused(data("no-such-model")).contains("no-such-model"));

    let model = open("qwen2", Output::Logit(0));
    let limit = 128;
    assert!(model.scores(&[vec![5; limit]]).is_ok());
    let message = model.scores(&[vec![5], vec![5; limit + 1]]).unwrap_err().to_string();
    assert_eq!(message, "row: 1 has 129 tokens, must be from 1 to the context of 128");
    assert!(model.scores(&[vec![]]).unwrap_err().to_string().contains("row: 0 has 0 tokens"));
    assert!(model.scores(&[]).unwrap_err().to_string().contains("must be at least one"));
    assert!(model.scores(&[vec![5, 4000]]).unwrap_err().to_string().contains("token 4000"));
    let by_tokens = ModelReward::tokens("liked", model.clone(), |(): &()| vec![1]).unwrap();
    let mut empty = completion(vec![1], "");
    empty.tokens.clear();
    assert_eq!(by_tokens.score(&(), &empty).unwrap_err().to_string(), "completion: has no token, must have at least one");
    assert!(model.with_output(Output::LogProb(1)).unwrap_err().to_string().contains("1, must be below 1: LABEL_0"));

    let several = RewardModel::open(data("tiny-reward-models").join("qwen3"), &device).unwrap();
    assert_eq!(several.labels(), ["wrong", "right", "unclear"]);
    let message = ModelReward::tokens("right", several, |(): &()| vec![1]).err().unwrap().to_string();
    assert_eq!(message, "reward model with several labels: has 3: wrong, right, unclear; choose by with_output");

    let llama = open("llama", Output::Logit(0));
    let message = ModelReward::chat("x", llama, |(): &(), _| Vec::new()).err().unwrap().to_string();
    assert_eq!(message, "reward model: has no chat template; set one by with_chat_template");
}

#[test]
fn a_head_that_is_missing_or_of_another_shape_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &str, file: &str| std::fs::copy(data(from).join(file), folder.path().join(file)).unwrap();
    let opened = || RewardModel::open(folder.path(), &grpo_flex::device().unwrap()).map(drop).map_err(|error| error.to_string());
    copy("tiny-models/qwen2", "model.safetensors");
    copy("tiny-reward-models/qwen2", "config.json");
    let message = opened().unwrap_err();
    assert!(message.contains("tensor score.weight: is missing; the config asks for shape [1, 40]"), "{message}");

    copy("tiny-reward-models/qwen2", "model.safetensors");
    assert_eq!(opened(), Ok(()));
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    // Without names there are two labels, as transformers has it.
    config.as_object_mut().unwrap().remove("id2label");
    std::fs::write(&path, config.to_string()).unwrap();
    let message = opened().unwrap_err();
    assert!(message.contains("tensor score.weight: shape [1, 40], the config asks for [2, 40]"), "{message}");
    config["id2label"] = serde_json::json!({ "1": "good" });
    std::fs::write(&path, config.to_string()).unwrap();
    assert!(opened().unwrap_err().contains("id2label"));
}
