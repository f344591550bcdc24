//! The cases that expect a number.

use grpo_core::{Completion, FinishReason, Group, GroupId, LogProbKind, Prompt, Reward, Rewards, Sample, from_fn};
use grpo_rewards::answer::{CloseNumber, Closeness, Extract, Folding, NumericAnswer, TextAnswer, Thoughts, same_output, word_f1};
use grpo_rewards::format::{After, CodeFormat, Format, Layout, MarkCounts, Pattern, ReasoningSteps, TagParts, ThoughtFirst};
use grpo_rewards::math::{MathAnswer, Search};
use grpo_rewards::puzzle::{Countdown, CountdownReward};
use grpo_rewards::shaping::{CosineLength, Overlong, OverlongPenalty, RepetitionPenalty, Rescale, ShorterWins, StopProperly, Verdict};
use serde_json::{Value, json};

use crate::case::Case;
use crate::run::Result;

pub fn score(case: &Case) -> Result {
    let text = case.text();
    let value = match case.family.as_str() {
        "format" => form(case, text),
        "length" => length(case),
        "repetition" => repetition(case, text),
        "steps" => ReasoningSteps::new(3).ok().map(|steps| number(&steps.judge(text))),
        "number" | "decimal_tolerance" => close(case, text),
        "text" => words(case, text),
        "matrix" => Some(json!(f64::from(u8::from(same_output(case.gold_text(), text, 0.0))))),
        "mixed_score" => mixed(case, text),
        "expression" => expression(case, text),
        "adv_shaping" => shaping(case, text),
        _ => None,
    };
    value.map_or(Result::Skipped("no such rule"), Result::Is)
}

fn number(reward: &Reward) -> Value {
    match reward {
        Reward::Outcome(score) => json!(score),
        _ => json!("skip"),
    }
}

fn form(case: &Case, text: &str) -> Option<Value> {
    let tag = |name, usual: &str| case.param(name).unwrap_or(usual).to_owned();
    let reward = match case.param("rule").or(case.param("pattern"))? {
        rule if rule.starts_with("strict") => Format::think_answer().judge(text),
        rule if rule.starts_with("starts with <think>") => ThoughtFirst::new(After::Anything).judge(text),
        rule if rule.starts_with("one think block") => ThoughtFirst::new(After::Something).judge(text),
        rule if rule.starts_with("think block, then answer block") => CodeFormat::new(case.param("language")?.to_owned()).judge(text),
        rule if rule.starts_with("<think>\\n") => Format::think_answer().layout(Layout::OwnLines).judge(text),
        rule if rule.starts_with("0.25 for each") => MarkCounts::think_answer_lines().judge(text),
        rule if rule.starts_with("0.25") => {
            TagParts::new([(tag("think_tag", "think"), 0.25), (tag("answer_tag", "answer"), 0.75)]).ok()?.judge(text)
        }
        _ => return None,
    };
    Some(number(&reward))
}

fn length(case: &Case) -> Option<Value> {
    let rule = case.param("rule")?;
    let whole = |name: &str| case.number(name).map(|n| n as usize);
    let len = whole("tokens").or(whole("chars"));
    let flag = |name: &str| case.params.get(name).and_then(Value::as_bool);
    let verdict = |right: bool| if right { Verdict::Right } else { Verdict::Wrong };
    if rule == "cosine" {
        let cosine = CosineLength {
            max_len: whole("max_len")?,
            right_short: case.number("max_correct")?,
            right_long: case.number("min_correct")?,
            wrong_short: case.number("min_wrong")?,
            wrong_long: case.number("max_wrong")?,
        };
        return Some(json!(cosine.of(len?, verdict(flag("correct")?))));
    }
    if rule.starts_with("dapo") {
        return Some(json!(OverlongPenalty::new(whole("max_len")?, whole("cache")?).ok()?.of(len?)));
    }
    if rule.starts_with("kimi") {
        let lengths: Vec<usize> = case.params.get("chars")?.as_array()?.iter().filter_map(|n| n.as_u64().map(|n| n as usize)).collect();
        let verdicts: Vec<Verdict> = case.params.get("correct")?.as_array()?.iter().filter_map(|c| c.as_bool().map(verdict)).collect();
        return Some(json!(ShorterWins::of(&lengths, &verdicts).ok()?));
    }
    if rule.starts_with("linear") {
        let pair = |name: &str| {
            let list = case.params.get(name)?.as_array()?;
            Some((list.first()?.as_f64()?, list.get(1)?.as_f64()?))
        };
        let (from, to) = (pair("source")?, pair("target")?);
        return Some(json!(Rescale { source: from, target: to }.of(case.number("reward")?)));
    }
    if rule.starts_with("truncated") {
        let finish = if flag("truncated")? { FinishReason::Length } else { FinishReason::EndToken };
        return Some(json!(StopProperly::of(case.number("reward")?, finish, case.number("coef")?)));
    }
    if rule.starts_with("reward + min") {
        let penalty = OverlongPenalty {
            max_len: whole("max_len")?,
            buffer: whole("buffer")?,
            penalty: case.number("penalty")?,
            beyond: Overlong::Uncapped,
        };
        return Some(json!(case.number("reward")? + penalty.of(len?)));
    }
    None
}

fn repetition(case: &Case, text: &str) -> Option<Value> {
    let Ok(penalty) = RepetitionPenalty::new(case.number("ngram")? as usize, case.number("max_penalty")?) else {
        return Some(json!("error"));
    };
    if let Some(ids) = case.params.get("token_ids").and_then(Value::as_array) {
        let ids: Vec<u32> = ids.iter().filter_map(|id| id.as_u64().map(|id| id as u32)).collect();
        return Some(json!(penalty.of_tokens(&ids)));
    }
    Some(json!(penalty.of_words(text)))
}

fn close(case: &Case, text: &str) -> Option<Value> {
    let within = |relative, absolute| CloseNumber::new(Extract::Whole, Closeness::Within { relative, absolute }).ok();
    let gold = case.gold_text();
    Some(number(&match case.param("compare") {
        // Text beside the number is not the number.
        Some(rule) if rule.contains("decimal") && text.trim().contains(' ') => Reward::Outcome(0.0),
        Some(rule) if rule.contains("decimal") => NumericAnswer::new(Extract::Whole).judge(gold, text),
        Some("3 significant figures") => CloseNumber::new(Extract::Whole, Closeness::SignificantDigits(3)).ok()?.judge(gold, text),
        _ => within(case.number("rel_tol").unwrap_or(0.0), case.number("abs_tol").unwrap_or(0.0))?.judge(gold, text),
    }))
}

fn words(case: &Case, text: &str) -> Option<Value> {
    if case.param("metric").is_some() {
        let answer = Thoughts::default().cut(text)?;
        let golds: Vec<&str> =
            case.gold.as_array().map_or_else(|| vec![case.gold_text()], |list| list.iter().filter_map(Value::as_str).collect());
        return Some(json!(golds.iter().map(|gold| word_f1(gold, answer)).fold(0.0, f64::max)));
    }
    if case.param("task").is_some() {
        let list = |text: &str| text.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
        return Some(json!(f64::from(u8::from(list(case.gold_text()) == list(text)))));
    }
    Some(number(&TextAnswer::new(Folding::Case).judge(case.gold_text(), text)))
}

fn mixed(case: &Case, text: &str) -> Option<Value> {
    let share = case.number("format_score")?;
    let format = Pattern::new(r"(?s)^<think>.*</think>.*\\boxed\{.*\}.*$").ok()?;
    let answer = MathAnswer::new(Search::Boxed).judge(case.gold_text(), text);
    let (Reward::Outcome(answer), Reward::Outcome(format)) = (answer, format.judge(text)) else { return Some(json!("skip")) };
    Some(json!((1.0 - share) * answer + share * format))
}

fn expression(case: &Case, text: &str) -> Option<Value> {
    match case.param("task") {
        Some("countdown") => {
            let numbers = case.params.get("numbers")?.as_array()?.iter().filter_map(Value::as_u64).collect();
            let task = Countdown { numbers, target: case.number("target")? as i64 };
            Some(number(&CountdownReward::new(0.05).ok()?.judge(&task, text)))
        }
        Some(_) => None,
        None => Some(number(&MathAnswer::new(Search::Whole).judge(case.gold_text(), text))),
    }
}

fn shaping(case: &Case, text: &str) -> Option<Value> {
    if let Some(rewards) = case.params.get("rewards").and_then(Value::as_array) {
        let values: Vec<f64> = rewards.iter().filter_map(|r| r.as_str()?.parse().ok()).collect();
        let table = Rewards::<Vec<f64>>::new().with(
            1.0,
            from_fn("given", |values: &Vec<f64>, c: &Completion| Ok(values.get(c.tokens[0] as usize).copied().unwrap_or(0.0).into())),
        );
        let completions = (0..values.len()).map(|index| completion(index as u32)).collect::<Option<Vec<_>>>()?;
        let group = Group::new(GroupId(0), Prompt::new(vec![0], values), completions).ok()?;
        return Some(table.score(&[group]).map_or(json!("error"), |_| json!("scored")));
    }
    match case.param("rule") {
        Some(rule) if rule.starts_with("dapo") => length(case),
        Some(_) => form(case, text),
        None => repetition(case, text),
    }
}

fn completion(token: u32) -> Option<Completion> {
    let sample = Sample {
        tokens: vec![token],
        log_probs: vec![-1.0],
        log_prob_kind: LogProbKind::Tempered,
        temperature: 1.0,
        finish: FinishReason::EndToken,
        text: String::new(),
        policy_version: None,
    };
    Completion::from_sample(sample, 0).ok()
}
