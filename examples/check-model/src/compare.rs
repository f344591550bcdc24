//! The numbers of a reference file, and how a model is held against them.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use grpo_core::{
    BoxError, GroupId, Padded, Policy as _, SampleRequest, Sampler as _, SamplingParams, ScoreRequest, TokenBatch, TokenId, to_host,
};
use grpo_lm::{Checkpoint, Decoder, LmSampler};
use serde::Deserialize;

/// How many checks went which way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    /// Something was checked, and nothing failed.
    pub fn is_good(self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// A reference file. What is not read here is informative only.
#[derive(Debug, Deserialize)]
pub struct Reference {
    tolerance: Tolerance,
    #[serde(default)]
    eos_token_id: Option<TokenId>,
    #[serde(default)]
    eos_token_ids: Option<Vec<TokenId>>,
    cases: Vec<Case>,
}

/// Absolute ones, for arithmetic in 32 bits.
#[derive(Debug, Deserialize)]
struct Tolerance {
    float32_logits_abs: f64,
    float32_logp_abs: f64,
}

/// One prompt of T tokens. A missing number is not checked.
#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    text: Option<String>,
    ids: Vec<TokenId>,
    logits_first8: Option<Vec<Vec<f64>>>, // [T][8]
    logits_last: Option<Vec<f64>>,        // [V]
    logsumexp: Option<Vec<f64>>,          // [T]
    argmax: Option<Vec<usize>>,           // [T]
    entropy: Option<Vec<f64>>,            // [T]
    logp_next: Option<Vec<f64>>,          // [T - 1]
    greedy_ids_32: Option<Vec<TokenId>>,
    greedy_text: Option<String>,
    greedy_ids_generate_f32_until_eos: Option<Vec<TokenId>>,
}

impl Reference {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, BoxError> {
        let text = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let reference: Self = serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if reference.cases.is_empty() {
            return Err(format!("{}: no case, must be at least one", path.display()).into());
        }
        match reference.cases.iter().find(|case| case.ids.is_empty() || !case.has_numbers()) {
            Some(case) => Err(format!("{}: case {} has no tokens or no numbers to compare with", path.display(), case.name).into()),
            None => Ok(reference),
        }
    }

    /// The first so many prompts alone.
    pub fn first(mut self, prompts: Option<usize>) -> Self {
        self.cases.truncate(prompts.unwrap_or(usize::MAX));
        self
    }

    /// Checks every prompt and prints a line for each, with its time.
    pub fn check(&self, label: &str, checkpoint: &Checkpoint, decoder: &Decoder, tally: &mut Tally) -> Result<(), BoxError> {
        println!("{label}:");
        let ends = self.eos_token_ids.clone().or_else(|| self.eos_token_id.map(|id| vec![id]));
        let mut end = Line::new("end tokens", tally);
        end.equal("ids", ends.as_deref(), |_| Ok(sorted(&checkpoint.generation.end_tokens)), |given, want| *given == sorted(want))?;
        end.print(None);
        for case in &self.cases {
            let start = Instant::now();
            let mut line = Line::new(&case.name, tally);
            case.check(checkpoint, decoder, &self.tolerance, &mut line)?;
            line.print(Some(start.elapsed()));
        }
        Ok(())
    }
}

impl Case {
    /// Whether there is anything that a model must compute.
    fn has_numbers(&self) -> bool {
        let numbers = [&self.logits_last, &self.logsumexp, &self.entropy, &self.logp_next];
        self.logits_first8.is_some() || self.argmax.is_some() || self.greedy_ids_32.is_some() || numbers.iter().any(|n| n.is_some())
    }

    fn check(&self, checkpoint: &Checkpoint, decoder: &Decoder, tolerance: &Tolerance, line: &mut Line<'_>) -> Result<(), BoxError> {
        let tokenizer = checkpoint.tokenizer.as_ref().ok_or("the model has no tokenizer")?;
        let vocabulary = decoder.config().vocab_size;
        let logits = to_host(decoder.logits(&Padded::new(&[&self.ids])?)?, "logits")?; // T·V numbers
        let rows: Vec<&[f64]> = logits.chunks(vocabulary).collect();
        let sums: Vec<f64> = rows.iter().map(|row| log_sum_exp(row)).collect();

        line.equal("token ids", self.text.as_deref(), |text| Ok(tokenizer.encode(text)?), |given, _| *given == self.ids)?;
        let first: Option<Vec<f64>> = self.logits_first8.as_ref().map(|rows| rows.concat());
        line.close("logits", first.as_deref(), rows.iter().flat_map(|r| &r[..8.min(vocabulary)]), tolerance.float32_logits_abs);
        line.close("last logits", self.logits_last.as_deref(), rows.last().into_iter().copied().flatten(), tolerance.float32_logits_abs);
        line.close("logsumexp", self.logsumexp.as_deref(), &sums, tolerance.float32_logits_abs);
        let entropies: Vec<f64> = rows.iter().zip(&sums).map(|(row, sum)| entropy(row, *sum)).collect();
        line.close("entropy", self.entropy.as_deref(), &entropies, tolerance.float32_logp_abs);
        let next: Vec<f64> = self.ids.iter().skip(1).zip(rows.iter().zip(&sums)).map(|(&id, (row, sum))| row[id as usize] - sum).collect();
        line.close("log-probs", self.logp_next.as_deref(), &next, tolerance.float32_logp_abs);
        // The best logit may tie with another within the rounding of both.
        let best = |at: usize| rows[at].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let good = |t: usize, v: usize| rows[t].get(v).is_some_and(|z| *z >= best(t) - 2.0 * tolerance.float32_logits_abs);
        let right = |want: &[usize]| want.iter().enumerate().all(|(t, &v)| good(t, v));
        line.equal("argmax", self.argmax.as_deref(), |_| Ok(()), |_, want| want.len() == rows.len() && right(want))?;

        // The same once more through what training calls: the first token as the prompt, the others as its completion.
        if self.ids.len() > 1 {
            let batch = TokenBatch::new(Padded::new(&[&self.ids[..1]])?, Padded::new(&[&self.ids[1..]])?, vec![0])?;
            let scores = decoder.score(&batch, &ScoreRequest::at(1.0).with_entropies())?;
            line.close("scored log-probs", self.logp_next.as_deref(), &to_host(scores.log_probs, "log-probs")?, tolerance.float32_logp_abs);
            let entropies = scores.entropies.ok_or("the policy gave no entropies")?;
            let want = self.entropy.as_deref().map(|all| all.split_last().map_or(all, |(_, rest)| rest));
            line.close("scored entropies", want, &to_host(entropies, "entropies")?, tolerance.float32_logp_abs);
        }

        // With the cache, token by token.
        let greedy = |length: usize, end_tokens: &[TokenId]| -> Result<Vec<TokenId>, BoxError> {
            let request = [SampleRequest { group: GroupId(0), prefix: &self.ids, samples: 1, seed: 0 }];
            let params = SamplingParams { max_tokens: length, end_tokens: end_tokens.to_vec(), ..SamplingParams::default() }.greedy();
            let samples = LmSampler::new().sample(decoder, &request, &params)?;
            Ok(samples.into_iter().flatten().flat_map(|sample| sample.tokens).collect())
        };
        line.equal("greedy tokens", self.greedy_ids_32.as_deref(), |want| greedy(want.len(), &[]), |given, want| given == want)?;
        let until_end = self.greedy_ids_generate_f32_until_eos.as_deref();
        line.equal("greedy tokens to the end", until_end, |_| greedy(32, &checkpoint.generation.end_tokens), |given, want| given == want)?;
        let spoken = self.greedy_ids_32.as_deref().zip(self.greedy_text.as_deref());
        let text = |tokens: &[TokenId]| Ok(tokenizer.decode_with_special(tokens)?);
        line.equal("greedy text", spoken.as_ref(), |(tokens, _)| text(tokens), |given, (_, want)| given == want)
    }
}

/// What is to be printed of one prompt.
struct Line<'a> {
    name: &'a str,
    tally: &'a mut Tally,
    differences: Vec<String>,
    equal: Vec<&'static str>,
    missing: Vec<&'static str>,
    failures: Vec<String>,
}

impl<'a> Line<'a> {
    fn new(name: &'a str, tally: &'a mut Tally) -> Self {
        Self { name, tally, differences: Vec::new(), equal: Vec::new(), missing: Vec::new(), failures: Vec::new() }
    }

    /// Numbers within an absolute tolerance. A number that is not finite is never close.
    fn close<'n>(&mut self, what: &'static str, want: Option<&[f64]>, given: impl IntoIterator<Item = &'n f64>, tolerance: f64) {
        let Some(want) = want else {
            self.skip(what);
            return;
        };
        let given: Vec<f64> = given.into_iter().copied().collect();
        let off = |(g, w): (&f64, &f64)| if g.is_finite() { (g - w).abs() } else { f64::INFINITY };
        let largest = given.iter().zip(want).map(off).fold(0.0, f64::max);
        if given.len() == want.len() && largest <= tolerance {
            self.tally.passed += 1;
            self.differences.push(format!("{what} {largest:.1e}"));
        } else {
            self.tally.failed += 1;
            let lengths = format!("{} numbers, expected {}", given.len(), want.len());
            self.failures.push(format!("{what}: {lengths}, largest difference {largest:.3e}, allowed {tolerance:.1e}"));
        }
    }

    /// Things that must be equal in every bit. `make` runs only where there is something to compare with.
    fn equal<W: ?Sized + fmt::Debug, G: fmt::Debug>(
        &mut self,
        what: &'static str,
        want: Option<&W>,
        make: impl FnOnce(&W) -> Result<G, BoxError>,
        equal: impl FnOnce(&G, &W) -> bool,
    ) -> Result<(), BoxError> {
        let Some(want) = want else {
            self.skip(what);
            return Ok(());
        };
        let given = make(want)?;
        if equal(&given, want) {
            self.tally.passed += 1;
            self.equal.push(what);
        } else {
            self.tally.failed += 1;
            self.failures.push(format!("{what}: {given:?}, expected {want:?}"));
        }
        Ok(())
    }

    /// A quantity that the reference does not give.
    fn skip(&mut self, what: &'static str) {
        self.tally.skipped += 1;
        self.missing.push(what);
    }

    fn print(self, took: Option<Duration>) {
        let mut parts = self.differences;
        if !self.equal.is_empty() {
            parts.push(format!("equal: {}", self.equal.join(", ")));
        }
        if !self.missing.is_empty() {
            parts.push(format!("skipped: {}", self.missing.join(", ")));
        }
        let took = took.map(|took| format!(" ({:.1} s)", took.as_secs_f64())).unwrap_or_default();
        println!("  {}{took}: {}", self.name, parts.join(", "));
        for failure in self.failures {
            println!("  FAILED {}: {failure}", self.name);
        }
    }
}

fn sorted(ids: &[TokenId]) -> Vec<TokenId> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

/// log Σ_v e^{z_v}
fn log_sum_exp(row: &[f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + row.iter().map(|z| (z - largest).exp()).sum::<f64>().ln()
}

/// −Σ_v p_v log p_v
fn entropy(row: &[f64], log_sum_exp: f64) -> f64 {
    row.iter().map(|z| z - log_sum_exp).map(|log_prob| -log_prob.exp() * log_prob).sum()
}
