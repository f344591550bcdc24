//! Which rule of the library answers which case.

use grpo_core::Reward;
use grpo_rewards::answer::{Extract, Folding, NumericAnswer, Presence, TagUse, TextAnswer, Thoughts, same_output};
use grpo_rewards::choice::Choice;
use grpo_rewards::math::{Lists, MathAnswer, Names, Outcome, Relations, Search, Tolerance};
use serde_json::{Value, json};

use crate::case::Case;

/// What came of a case.
pub enum Result {
    Is(Value),
    Skipped(&'static str),
    /// Its thread ended with a panic.
    Panicked,
}

pub fn run(case: &Case) -> Result {
    match case.kind.as_str() {
        "verdict" => Result::Is(verdict(case, Search::Anywhere)),
        // The adversarial cases take the last complete box for the answer.
        "robust" => Result::Is(verdict(case, Search::Boxed)),
        "extract" => extract(case),
        "score" => crate::score::score(case),
        _ => Result::Skipped("no such rule"),
    }
}

fn said(reward: &Reward) -> Value {
    match reward {
        Reward::Outcome(score) if *score == 1.0 => json!("equal"),
        Reward::Outcome(_) => json!("not_equal"),
        _ => json!("skip"),
    }
}

fn letters(case: &Case) -> Option<Vec<String>> {
    case.params.get("choices").and_then(Value::as_array).map(|c| c.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn verdict(case: &Case, search: Search) -> Value {
    let (gold, text) = (case.gold_text(), case.text());
    if let Some(letters) = letters(case) {
        return said(&Choice::new(letters).judge(gold, text));
    }
    match case.param("extract") {
        Some("number after ####") => return said(&NumericAnswer::new(Extract::Hash).judge(gold, text)),
        Some("last number") => return said(&NumericAnswer::new(Extract::LastNumber).judge(gold, text)),
        _ => {}
    }
    match case.param("compare") {
        Some("lower case, no punctuation, no articles a/an/the, single blanks") => {
            return said(&TextAnswer::new(Folding::Words).judge(gold, text));
        }
        Some("alphanumeric, case folded") => return said(&TextAnswer::new(Folding::Alphanumeric).tag(TagUse::Required).judge(gold, text)),
        Some("stdout tokens, numbers within 1e-3 absolute") => return same(gold, text),
        _ => {}
    }
    if case.number("tolerance").is_some() {
        return same(gold, text);
    }
    let search = match case.param("answer_tag") {
        Some(name) => Search::Tag(name.to_owned().into()),
        // These are pairs of answers, from a checker that compares lists in order.
        None if flag(case, "bare") == Some(true) => Search::Whole,
        None => search,
    };
    let mut math = MathAnswer::new(search);
    if flag(case, "bare") == Some(true) {
        math = math.lists(Lists::InOrder);
    }
    if let Some(decimals) = case.number("precision").or(case.number("decimals")) {
        math = math.tolerance(Tolerance::Decimals(decimals as u32));
    }
    if flag(case, "strict") == Some(false) {
        math = math.names(Names::MayDiffer);
    }
    if flag(case, "allow_set_relation_comp") == Some(false) {
        math = math.relations(Relations::Apart);
    }
    if flag(case, "require_think") == Some(true) {
        math = math.thoughts(Thoughts::default().presence(Presence::Required));
    }
    if let Some(end) = case.param("reasoning_end") {
        math = math.thoughts(Thoughts::between("", end.to_owned()));
    }
    match math.check(gold, text).outcome {
        Outcome::Equal => json!("equal"),
        Outcome::NotEqual => json!("not_equal"),
        _ => json!("skip"),
    }
}

fn flag(case: &Case, name: &str) -> Option<bool> {
    case.params.get(name).and_then(Value::as_bool)
}

fn same(gold: &str, text: &str) -> Value {
    if same_output(gold, text, 1e-3) { json!("equal") } else { json!("not_equal") }
}

fn extract(case: &Case) -> Result {
    let text = case.text();
    let or_null = |found: Option<&str>| Result::Is(found.map_or(Value::Null, |f| json!(f)));
    if let Some(letters) = letters(case) {
        let choice = Choice::new(letters);
        return or_null(choice.chosen(text).as_ref().and_then(|c| c.first().copied()));
    }
    if let Some(tag) = case.param("tag") {
        return or_null(Extract::tag(tag.to_owned()).from(text));
    }
    let required = Thoughts::default().presence(Presence::Required);
    let optional = Thoughts::default();
    match case.param("parser") {
        Some("think") => or_null(Some(required.cut(text).unwrap_or_default().trim())),
        Some("maybe_think") => or_null(optional.cut(text).map(str::trim)),
        Some("think+boxed") => or_null(required.cut(text).and_then(|t| Extract::Boxed.from(t))),
        Some("think+boxed, lenient") => or_null(required.cut(text).map(|t| Extract::Boxed.from(t).unwrap_or(t.trim()))),
        _ => or_null(Extract::Boxed.from(text)),
    }
}
