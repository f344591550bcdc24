//! Against the shared reward cases, and as reward functions.

use serde_json::Value;

use super::*;
use crate::group::{Completion, Sample};
use crate::reward::{Reward, RewardFn, from_fn};
use crate::token::{FinishReason, LogProbKind};

fn cases(family: &str) -> Vec<Value> {
    let path = format!("{}/../../testdata/reward-cases/score.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).filter(|case: &Value| case["family"] == family).collect()
}

fn number(v: &Value, key: &str) -> f64 {
    v[key].as_f64().unwrap_or_else(|| panic!("{key} of {v}"))
}

fn count(v: &Value, key: &str) -> usize {
    v[key].as_u64().unwrap_or_else(|| panic!("{key} of {v}")) as usize
}

fn verdict(v: &Value) -> Verdict {
    if v == true { Verdict::Right } else { Verdict::Wrong }
}

fn pair(v: &Value) -> (f64, f64) {
    (v[0].as_f64().unwrap(), v[1].as_f64().unwrap())
}

#[test]
fn every_length_case_agrees() {
    let cases = cases("length");
    for case in &cases {
        let p = &case["params"];
        let got = match p["rule"].as_str().unwrap() {
            "cosine" => {
                let cosine = CosineLength {
                    max_len: count(p, "max_len"),
                    right_short: number(p, "max_correct"),
                    right_long: number(p, "min_correct"),
                    wrong_short: number(p, "min_wrong"),
                    wrong_long: number(p, "max_wrong"),
                };
                let len = if p["tokens"].is_null() { "chars" } else { "tokens" };
                vec![cosine.of(count(p, len), verdict(&p["correct"]))]
            }
            "dapo soft overlong" => vec![OverlongPenalty::new(count(p, "max_len"), count(p, "cache")).unwrap().of(count(p, "tokens"))],
            "linear rescale with clip" => {
                let rescale = Rescale { source: pair(&p["source"]), target: pair(&p["target"]) };
                vec![rescale.of(number(p, "reward"))]
            }
            "truncated completions: reward times coef" => {
                let finish = if p["truncated"] == true { FinishReason::Length } else { FinishReason::EndToken };
                vec![StopProperly::of(number(p, "reward"), finish, number(p, "coef"))]
            }
            rule if rule.starts_with("kimi length") => {
                let lengths: Vec<usize> = p["chars"].as_array().unwrap().iter().map(|l| l.as_u64().unwrap() as usize).collect();
                let verdicts: Vec<Verdict> = p["correct"].as_array().unwrap().iter().map(verdict).collect();
                ShorterWins::of(&lengths, &verdicts).unwrap()
            }
            rule if rule.starts_with("reward + min(") => {
                let line = OverlongPenalty {
                    max_len: count(p, "max_len"),
                    buffer: count(p, "buffer"),
                    penalty: number(p, "penalty"),
                    beyond: Overlong::Uncapped,
                };
                line.validate().unwrap();
                vec![number(p, "reward") + line.of(count(p, "tokens"))]
            }
            other => panic!("unknown rule {other}"),
        };
        let expected = &case["expected"];
        let want =
            expected.as_array().map_or_else(|| vec![expected.as_f64().unwrap()], |a| a.iter().map(|v| v.as_f64().unwrap()).collect());
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(&want) {
            assert!((g - w).abs() < 1e-5, "{}: {g}, expected {w}", case["id"]);
        }
    }
    assert_eq!(cases.len(), 50);
}

#[test]
fn every_repetition_case_agrees() {
    let cases = cases("repetition");
    for case in &cases {
        let p = &case["params"];
        let penalty = RepetitionPenalty::new(count(p, "ngram"), number(p, "max_penalty"));
        if case["expected"] == "error" {
            assert!(penalty.is_err(), "{}", case["id"]);
            continue;
        }
        let got = match &p["token_ids"] {
            Value::Array(ids) => penalty.unwrap().of_tokens(&ids.iter().map(|i| i.as_u64().unwrap() as u32).collect::<Vec<_>>()),
            _ => penalty.unwrap().of_words(case["output"].as_str().unwrap()),
        };
        assert!((got - number(case, "expected")).abs() < 1e-6, "{}: {got}", case["id"]);
        assert!(got.is_sign_positive() || got < 0.0, "{}: no minus zero", case["id"]);
    }
    assert_eq!(cases.len(), 37);
}

fn completion(tokens: usize, finish: FinishReason) -> Completion {
    let sample = Sample {
        tokens: vec![7; tokens],
        log_probs: vec![-0.5; tokens],
        log_prob_kind: LogProbKind::Tempered,
        temperature: 1.0,
        finish,
        text: "a b a b".into(),
        policy_version: None,
    };
    Completion::from_sample(sample, 0).unwrap()
}

fn outcome(reward: Reward) -> f64 {
    match reward {
        Reward::Outcome(r) => r,
        other => panic!("{other:?}"),
    }
}

#[test]
fn penalties_serve_as_reward_functions_of_any_task() {
    let long = completion(90, FinishReason::Length);
    assert_eq!(outcome(OverlongPenalty::new(100, 20).unwrap().score("any task", &long).unwrap()), -0.5);
    let tokens = RepetitionPenalty::new(2, -1.0).unwrap();
    assert!((outcome(tokens.score(&5u8, &long).unwrap()) + 88.0 / 89.0).abs() < 1e-12);
    let words = RepetitionPenalty { unit: RepetitionUnit::Words, ..tokens };
    assert!((outcome(words.score(&5u8, &long).unwrap()) + 1.0 / 3.0).abs() < 1e-12);
    let broken = RepetitionPenalty { max_penalty: 1.0, ..tokens };
    assert!(broken.score(&5u8, &long).is_err(), "a setting out of range never pays");
}

#[test]
fn stop_properly_shapes_what_another_function_says() {
    let right = || from_fn("right", |(): &(), c: &Completion| Ok(if c.tokens.len() > 5 { Reward::NotApplicable } else { 0.8.into() }));
    let shaped = StopProperly::new(right(), 0.5).unwrap();
    let group = [completion(3, FinishReason::Length), completion(3, FinishReason::EndToken), completion(9, FinishReason::Length)];
    let want = vec![Reward::Outcome(0.4), Reward::Outcome(0.8), Reward::NotApplicable];
    assert_eq!(shaped.score_group(&(), &group).unwrap(), want);
    assert_eq!(group.iter().map(|c| shaped.score(&(), c).unwrap()).collect::<Vec<_>>(), want);
    assert_eq!(RewardFn::<()>::name(&shaped), "right");
    assert!(StopProperly::new(right(), 1.5).is_err());
    let rescaled = Rescale { source: (0.0, 1.0), target: (-1.0, 1.0) }.around(right()).unwrap();
    assert!((outcome(rescaled.score(&(), &group[0]).unwrap()) - 0.6).abs() < 1e-12);
    assert!(Rescale { source: (1.0, 1.0), target: (0.0, 1.0) }.validate().is_err());
}

#[test]
fn length_rewards_ask_another_function_what_is_right() {
    let right = || {
        from_fn("right", |(): &(), c: &Completion| match c.tokens.len() {
            40 => Ok(Reward::NotApplicable),
            n => Ok(f64::from(u8::from(n % 2 == 0)).into()),
        })
    };
    let group = [10, 30, 15, 35, 40].map(|n| completion(n, FinishReason::EndToken));
    let shorter = Judged::new(right(), ShorterWins).score_group(&(), &group).unwrap();
    // Lengths 10 to 35 are judged; 40 does not take part.
    let want = [0.5, -0.3, 0.0, -0.5];
    shorter[..4].iter().zip(want).for_each(|(got, want)| assert!((outcome(got.clone()) - want).abs() < 1e-12, "{got:?}"));
    assert_eq!(shorter[4], Reward::NotApplicable);
    let cosine = Judged::new(right(), CosineLength::new(20).unwrap()).right_from(0.5);
    let scored = cosine.score_group(&(), &group).unwrap();
    assert!((outcome(scored[0].clone()) - 0.75).abs() < 1e-12);
    assert_eq!(scored[1..4], [Reward::Outcome(0.5), cosine.score(&(), &group[2]).unwrap(), Reward::Outcome(-0.5)]);
    assert_eq!(scored[4], Reward::NotApplicable);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let refused = |result: crate::Result<OverlongPenalty>| result.unwrap_err().to_string();
    assert_eq!(refused(OverlongPenalty::new(0, 0)), "overlong max_len = 0, must be at least 1");
    assert_eq!(refused(OverlongPenalty::new(5, 6)), "overlong buffer = 6, must be at most max_len");
    let endless = OverlongPenalty { beyond: Overlong::Uncapped, ..OverlongPenalty::new(5, 0).unwrap() };
    assert!(endless.validate().is_err());
    assert!(CosineLength::new(0).is_err());
    assert!(RepetitionPenalty::new(0, -1.0).is_err());
    assert!(serde_json::from_str::<OverlongPenalty>(r#"{"max_len": 10, "buffer": 2, "cap": true}"#).is_err());
}
