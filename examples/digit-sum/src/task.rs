//! The task: problems, tokenizer, reward.

use grpo_core::{BoxError, Completion, Prompt, Reward, RewardFn, TokenId, stream};
use grpo_lm::ModelConfig;
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// The tokenizer: a token's id is the place of its character. The last one ends an answer.
const ALPHABET: &str = "0123456789+=.";
/// V.
pub const VOCABULARY: usize = ALPHABET.len();
/// What ends an answer.
pub const END: TokenId = VOCABULARY as TokenId - 1;
/// Tokens of an answer: three digits and the end.
pub const ANSWER: usize = 4;
/// Tokens of a prompt: `123+421=`.
pub const PROMPT: usize = 8;

/// The transformer that learns it.
pub fn model() -> ModelConfig {
    ModelConfig {
        vocab_size: VOCABULARY,
        max_position_embeddings: PROMPT + ANSWER,
        rope_theta: 100.0,
        tie_word_embeddings: false,
        ..ModelConfig::default()
    }
}

/// Text to tokens. Characters that are not of the alphabet are left out.
pub fn encode(text: &str) -> Vec<TokenId> {
    text.chars().filter_map(|c| ALPHABET.find(c)).map(|id| id as TokenId).collect()
}

/// Tokens to text.
pub fn decode(tokens: &[TokenId]) -> String {
    tokens.iter().filter_map(|&id| ALPHABET.chars().nth(id as usize)).collect()
}

/// What an answer is judged by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// `123+421=`
    pub question: String,
    /// `544.`
    pub answer: String,
}

/// Two numbers of three digits from 0 to 4 (leading zeros written), so that nothing carries: 15,625 problems, 25 pairs of digits at
/// each place. In the order that the seed gives.
pub fn problems(seed: u64) -> Vec<Prompt<Sum>> {
    let small = |n: &u32| [1, 10, 100].iter().all(|place| n / place % 10 < 5);
    let pairs = (0..500).filter(small).flat_map(|a| (0..500).filter(small).map(move |b| (a, b)));
    let mut problems: Vec<_> = pairs
        .map(|(a, b)| {
            let sum = Sum { question: format!("{a:03}+{b:03}="), answer: format!("{:03}.", a + b) };
            Prompt::new(encode(&sum.question), sum)
        })
        .collect();
    problems.shuffle(&mut stream(seed, usize::MAX));
    problems
}

/// Draws `count` of these problems: those of one step.
pub fn draw(problems: &[Prompt<Sum>], count: usize, seed: u64, step: u64) -> Vec<Prompt<Sum>> {
    let mut rng = stream(seed, step as usize);
    (0..count).map(|_| problems[rng.random_range(0..problems.len())].clone()).collect()
}

/// The share of places that are right, the end counted as one: a guess that is right in one digit is worth more than none.
pub struct Digits;

impl RewardFn<Sum> for Digits {
    fn name(&self) -> &str {
        "digits"
    }
    fn score(&self, sum: &Sum, completion: &Completion) -> Result<Reward, BoxError> {
        let wanted = encode(&sum.answer);
        let right = wanted.iter().zip(&completion.tokens).filter(|(want, got)| want == got).count();
        Ok((right as f64 / wanted.len() as f64).into())
    }
}

/// 1 if the whole answer is right.
pub struct Exact;

impl RewardFn<Sum> for Exact {
    fn name(&self) -> &str {
        "exact"
    }
    fn score(&self, sum: &Sum, completion: &Completion) -> Result<Reward, BoxError> {
        Ok(f64::from(u8::from(decode(&completion.tokens) == sum.answer)).into())
    }
}

/// What answering without calculating would score on these problems.
#[derive(Debug, Clone, Copy)]
pub struct Baselines {
    /// Copying the prompt: its beginning, its first number, or its second, whichever is best.
    pub copy: f64,
    /// The one answer that is right most often.
    pub constant: f64,
}

impl Baselines {
    /// Of these problems.
    pub fn of(problems: &[Prompt<Sum>]) -> Self {
        let share = |right: usize| right as f64 / problems.len() as f64;
        let copy = |range: std::ops::Range<usize>| {
            share(problems.iter().filter(|p| p.task.answer.trim_end_matches('.') == &p.task.question[range.clone()]).count())
        };
        let mut counts = std::collections::HashMap::new();
        problems.iter().for_each(|p| *counts.entry(&p.task.answer).or_insert(0) += 1);
        Self { copy: copy(0..3).max(copy(4..7)).max(copy(0..PROMPT)), constant: share(counts.into_values().max().unwrap_or(0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_the_tokenizer() {
        assert_eq!(encode("012+9=."), [0, 1, 2, 10, 9, 11, 12]);
        assert_eq!(decode(&encode("123+421=544.")), "123+421=544.");
        assert_eq!(encode("="), [11]);
        assert_eq!(END, encode(".")[0]);
    }

    #[test]
    fn no_problem_carries_and_none_is_there_twice() {
        let mut problems = problems(1);
        assert_eq!(problems.len(), 25 * 25 * 25);
        assert!(problems.iter().all(|p| p.tokens.len() == PROMPT && encode(&p.task.answer).len() == ANSWER));
        problems.sort_by(|a, b| a.tokens.cmp(&b.tokens));
        assert!(problems.windows(2).all(|two| two[0].tokens != two[1].tokens));
    }

    #[test]
    fn copying_and_a_constant_answer_score_under_a_tenth() {
        let Baselines { copy, constant } = Baselines::of(&problems(1)[..2000]);
        assert!(copy < 0.1 && constant < 0.1, "{copy} {constant}");
    }
}
