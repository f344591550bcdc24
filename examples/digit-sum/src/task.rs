//! The task: problems, tokens, reward.

use grpo_core::{BoxError, Completion, Prompt, Reward, RewardFn, stream};
use rand::seq::SliceRandom;

/// `+`
const PLUS: u32 = 10;
/// `=`
const EQUALS: u32 = 11;
/// Ends an answer.
pub const END: u32 = 12;
/// Ten digits, `+`, `=`, the end.
pub const VOCABULARY: usize = 13;

pub fn knob<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// What a completion is judged by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub answer: Vec<u32>,
}

fn digits(n: u32, width: u32) -> Vec<u32> {
    (0..width).rev().map(|k| n / 10u32.pow(k) % 10).collect()
}

pub fn problems(seed: u64) -> Vec<Prompt<Problem>> {
    let task: String = knob("TASK", "five".to_owned());
    let mut all = Vec::new();
    if task == "sort" {
        for n in 0..100_000 {
            let p = digits(n, 5);
            let mut answer = p.clone();
            answer.sort_unstable();
            answer.push(END);
            all.push(Prompt::new([p, vec![EQUALS]].concat(), Problem { answer }));
        }
    } else if task == "add" || task == "addr" {
        for a in 0..100 {
            for b in 0..100 {
                let mut answer = digits(a + b, 3);
                if task == "addr" {
                    answer.reverse();
                }
                answer.push(END);
                all.push(Prompt::new([digits(a, 2), vec![PLUS], digits(b, 2), vec![EQUALS]].concat(), Problem { answer }));
            }
        }
    } else {
        let high = if task == "nc" { 9 } else { 8 };
        let top = if task == "nc" { 9 } else { 4 };
        for a in 0..1000 {
            for b in 0..1000 {
                let (x, y) = (digits(a, 3), digits(b, 3));
                if x.iter().zip(&y).all(|(x, y)| x + y <= high && *x <= top && *y <= top) {
                    let answer = [digits(a + b, 3), vec![END]].concat();
                    all.push(Prompt::new([x, vec![PLUS], y, vec![EQUALS]].concat(), Problem { answer }));
                }
            }
        }
    }
    all.shuffle(&mut stream(seed, usize::MAX));
    all
}

pub struct Digits;
impl RewardFn<Problem> for Digits {
    fn name(&self) -> &str {
        "digits"
    }
    fn score(&self, p: &Problem, c: &Completion) -> Result<Reward, BoxError> {
        let cl: f64 = knob("CL", 0.5);
        let sharp: f64 = knob("SHARP", 1.0);
        let n = p.answer.len() as f64;
        let each = p.answer.iter().zip(&c.tokens).map(|(&a, &b)| {
            if a == b {
                1.0
            } else if a < 10 && b < 10 {
                cl * (1.0 - f64::from(a.abs_diff(b)) / 9.0).powf(sharp)
            } else {
                0.0
            }
        });
        if knob("PROC", 0) == 1 {
            let mut steps: Vec<(usize, f64)> = each.map(|r| r / n).enumerate().collect();
            steps.truncate(c.tokens.len());
            Ok(Reward::Steps(steps))
        } else {
            Ok((each.sum::<f64>() / n).into())
        }
    }
}

pub struct Exact;
impl RewardFn<Problem> for Exact {
    fn name(&self) -> &str {
        "exact"
    }
    fn score(&self, p: &Problem, c: &Completion) -> Result<Reward, BoxError> {
        Ok(f64::from(u8::from(p.answer == c.tokens)).into())
    }
}
