//! Hostile input through extraction and equality: nothing panics, and nothing takes long.
//!
//! `FUZZ_INPUTS=1000000 cargo nextest run --release -p grpo-rewards --test fuzz --no-capture` does a million.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)] // Helpers of tests, too, say what they expect.

mod common;

use std::time::{Duration, Instant};

use common::{Dice, Expression, latex_salad};
use grpo_rewards::answer::{Extract, NumericAnswer};
use grpo_rewards::choice::Choice;
use grpo_rewards::math::{MathAnswer, Search};

fn bytes(dice: &mut Dice) -> String {
    let length = dice.below(120);
    let raw: Vec<u8> = (0..length).map(|_| dice.next() as u8).collect();
    String::from_utf8_lossy(&raw).into_owned()
}

/// A good text with one byte changed, dropped or doubled.
fn mutated(dice: &mut Dice) -> String {
    let mut text: Vec<char> = Expression::random(dice, 3).spelt(dice).chars().collect();
    for _ in 0..1 + dice.below(3) {
        if text.is_empty() {
            break;
        }
        let at = dice.below(text.len());
        match dice.below(3) {
            0 => text[at] = char::from(32 + (dice.next() % 95) as u8),
            1 => {
                text.remove(at);
            }
            _ => text.insert(at, text[at]),
        }
    }
    text.into_iter().collect()
}

#[test]
fn hostile_texts_are_judged_without_a_panic_and_soon() {
    let inputs: usize = std::env::var("FUZZ_INPUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1_u64);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ seed);
    let searches = [Search::Boxed, Search::Anywhere, Search::Whole].map(MathAnswer::new);
    let golds = ["42", "\\frac{1}{2}", "(1,2)", "x+1", "x>5", "\\text{Evelyn}", "\\{1,2,3\\}", "\\sqrt{2}", "\\sin x"];
    let (numeric, choice) = (NumericAnswer::new(Extract::Hash), Choice::new(["A", "B", "C"]));
    let mut slowest = (Duration::ZERO, String::new());
    let start = Instant::now();
    for index in 0..inputs {
        let text = match index % 4 {
            0 => bytes(&mut dice),
            1 => latex_salad(&mut dice),
            2 => mutated(&mut dice),
            _ => format!("\\boxed{{{}}}", latex_salad(&mut dice)),
        };
        let gold = if index % 8 < 6 { dice.pick(&golds).to_owned() } else { latex_salad(&mut dice) };
        let from = Instant::now();
        let _ = searches[index % 3].check(&gold, &text);
        if index % 16 == 0 {
            let _ = (numeric.judge(&gold, &text), choice.judge(&gold, &text));
        }
        let taken = from.elapsed();
        if taken > slowest.0 {
            slowest = (taken, format!("{gold:?} and {text:?}"));
        }
    }
    println!(
        "{inputs} inputs in {:.1} s, the slowest in {:.3} ms: {}",
        start.elapsed().as_secs_f64(),
        slowest.0.as_secs_f64() * 1e3,
        slowest.1
    );
    assert!(slowest.0 < Duration::from_secs(1), "{slowest:?}");
}
