//! Sampling: cached is uncached, batched is alone, and what ends a completion.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use burn::module::Module as _;
use burn::tensor::Device;
use common::*;
use grpo_core::{
    FinishReason, GroupId, LogProbKind, Padded, Policy as _, Sample, SampleRequest, Sampler as _, SamplingParams, ScoreRequest, TokenBatch,
    TokenId,
};
use grpo_lm::config::{Architecture, ModelConfig};
use grpo_lm::{Decoder, LmSampler, Tokenizer};

fn request(prefix: &[TokenId], samples: usize, seed: u64) -> SampleRequest<'_> {
    SampleRequest { group: GroupId(seed), prefix, samples, seed }
}

fn sample(decoder: &Decoder, requests: &[SampleRequest<'_>], params: &SamplingParams) -> Vec<Vec<Sample>> {
    LmSampler::new().sample(decoder, requests, params).unwrap()
}

fn params(max_tokens: usize) -> SamplingParams {
    // Two end tokens of 37: completions end at all lengths.
    SamplingParams { max_tokens, end_tokens: vec![3, 30], ..SamplingParams::default() }
}

/// The batch of what was sampled.
fn batch(prompts: &[Vec<TokenId>], samples: &[Vec<Sample>]) -> TokenBatch {
    let rows: Vec<&[TokenId]> = samples.iter().flatten().map(|s| s.tokens.as_slice()).collect();
    let of = samples.iter().enumerate().flat_map(|(p, group)| group.iter().map(move |_| p)).collect();
    TokenBatch::new(Padded::new(prompts).unwrap(), Padded::new(&rows).unwrap(), of).unwrap()
}

#[test]
fn cached_log_probs_are_those_of_scoring_over_block_edges_and_departures() {
    for config in families() {
        let decoder = decoder(&config, &Device::flex());
        let prompts: Vec<_> = [4, 9, 1].iter().enumerate().map(|(i, &l)| tokens(i, l)).collect();
        let requests: Vec<_> = prompts.iter().zip([7, 3, 5]).zip(1..).map(|((p, n), seed)| request(p, n, seed)).collect();
        let params = SamplingParams { temperature: 1.4, ..params(70) };
        let samples = sample(&decoder, &requests, &params);
        let lengths: Vec<usize> = samples.iter().flatten().map(|s| s.tokens.len()).collect();
        assert!(lengths.iter().any(|&l| l > 33) && lengths.iter().any(|&l| l < 20), "{lengths:?}");
        let batch = batch(&prompts, &samples);
        let scored = values(log_probs(&decoder, &batch, 1.4));
        let width = batch.completions().width();
        for (n, sample) in samples.iter().flatten().enumerate() {
            let stored: Vec<f64> = sample.log_probs.iter().map(|&l| f64::from(l)).collect();
            close(&stored, &scored[n * width..n * width + stored.len()], 1e-5, "stored");
            assert_eq!((sample.log_prob_kind, sample.temperature), (LogProbKind::Tempered, 1.4));
        }
    }
}

#[test]
fn greedy_tokens_are_the_argmax_of_the_logits_over_two_block_edges() {
    let decoder = decoder(&families()[1], &Device::flex());
    let prompt = tokens(3, 5);
    let sample = &sample(&decoder, &[request(&prompt, 1, 0)], &SamplingParams { end_tokens: vec![], ..params(75) }.greedy())[0][0];
    assert_eq!((sample.finish, sample.log_prob_kind), (FinishReason::Length, LogProbKind::Raw));
    let row = [prompt.clone(), sample.tokens.clone()].concat();
    let logits = values(decoder.logits(&Padded::new(&[row]).unwrap()).unwrap());
    for (t, &token) in sample.tokens.iter().enumerate() {
        let z = &logits[(4 + t) * 37..(5 + t) * 37];
        let best = (0..37).reduce(|a, b| if z[b] > z[a] { b } else { a }).unwrap();
        assert_eq!(best as u32, token, "at {t}");
    }
    let batch = batch(&[prompt], &[vec![sample.clone()]]);
    let stored: Vec<f64> = sample.log_probs.iter().map(|&l| f64::from(l)).collect();
    close(&stored, &values(log_probs(&decoder, &batch, 1.0)), 1e-5, "raw log-probs");
}

#[test]
fn what_a_sample_draws_does_not_hang_on_its_neighbours() {
    let decoder = decoder(&llama(), &Device::flex());
    let prompts: Vec<_> = [4, 9, 2].iter().enumerate().map(|(i, &l)| tokens(i, l)).collect();
    let requests: Vec<_> = prompts.iter().zip([4, 2, 6]).zip(1..).map(|((p, n), seed)| request(p, n, seed)).collect();
    let together = sample(&decoder, &requests, &params(40));
    let again = sample(&decoder, &requests, &params(40));
    assert_eq!(together, again);
    for (request, group) in requests.iter().zip(&together) {
        let alone = &sample(&decoder, std::slice::from_ref(request), &params(40))[0];
        assert!(alone.iter().zip(group).all(|(a, b)| a.tokens == b.tokens && a.finish == b.finish));
        // The first sample of a request for one is the first of a request for many.
        let first = &sample(&decoder, &[SampleRequest { samples: 1, ..request.clone() }], &params(40))[0][0];
        assert_eq!(first.tokens, group[0].tokens);
    }
    assert!(together[0].iter().any(|s| s.tokens != together[0][0].tokens), "samples of a group have streams of their own");
}

#[test]
fn drawn_frequencies_are_the_policys_probabilities() {
    let decoder = decoder(&llama(), &Device::flex());
    let prompt = tokens(2, 3);
    let one = SamplingParams { max_tokens: 1, temperature: 0.6, ..SamplingParams::default() };
    let n = 4000;
    let samples = sample(&decoder, &[request(&prompt, n, 5)], &one);
    let mut counts = vec![0.0; 37];
    samples[0].iter().for_each(|s| counts[s.tokens[0] as usize] += 1.0);
    let every: Vec<Vec<TokenId>> = (0..37).map(|t| vec![t]).collect();
    let batch = TokenBatch::new(Padded::new(&[prompt]).unwrap(), Padded::new(&every).unwrap(), vec![0; 37]).unwrap();
    let p: Vec<f64> = values(log_probs(&decoder, &batch, 0.6)).iter().map(|l| l.exp()).collect();
    approx::assert_relative_eq!(p.iter().sum::<f64>(), 1.0, epsilon = 1e-5);
    // χ² with 36 degrees of freedom: 99.9 % lie below 68.
    let chi: f64 = counts.iter().zip(&p).map(|(c, p)| (c - n as f64 * p).powi(2) / (n as f64 * p)).sum();
    assert!(chi < 68.0, "χ² = {chi}");
}

#[test]
fn any_of_several_end_tokens_ends_and_stays_in_the_completion() {
    let decoder = decoder(&llama(), &Device::flex());
    let prompt = tokens(1, 4);
    let samples = &sample(&decoder, &[request(&prompt, 40, 9)], &params(30))[0];
    let mut seen = std::collections::BTreeSet::new();
    for sample in samples {
        let last = *sample.tokens.last().unwrap();
        let before = &sample.tokens[..sample.tokens.len() - 1];
        assert!(!before.contains(&3) && !before.contains(&30));
        match sample.finish {
            FinishReason::EndToken => assert!(seen.insert(last) || [3, 30].contains(&last)),
            other => assert_eq!((other, sample.tokens.len()), (FinishReason::Length, 30)),
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [3, 30]);
}

#[test]
fn filters_change_what_is_drawn_and_not_what_is_stored() {
    let decoder = decoder(&llama(), &Device::flex());
    let prompt = tokens(1, 4);
    let params = SamplingParams { top_k: Some(2), repetition_penalty: 1.5, ..SamplingParams { end_tokens: vec![], ..params(12) } };
    let samples = sample(&decoder, &[request(&prompt, 6, 9)], &params);
    let batch = batch(&[prompt], &samples);
    let stored: Vec<f64> = samples[0].iter().flat_map(|s| s.log_probs.iter().map(|&l| f64::from(l))).collect();
    close(&stored, &values(log_probs(&decoder, &batch, 1.0)), 1e-5, "stored");
}

fn letters() -> Tokenizer {
    let vocab: Vec<String> =
        (0..37u8).map(|i| format!("\"{}\": {i}", if i < 26 { (b'a' + i) as char } else { (b'A' + i - 26) as char })).collect();
    let json = format!(
        r#"{{"version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [{{"id": 3, "content": "d", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}}],
        "pre_tokenizer": {{"type": "Split", "pattern": {{"String": ""}}, "behavior": "Isolated", "invert": false}},
        "decoder": {{"type": "Fuse"}}, "model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "a"}}}}"#,
        vocab.join(", ")
    );
    Tokenizer::from_json(json).unwrap()
}

#[test]
fn a_stop_string_ends_a_completion_and_its_text_is_cut_before_it() {
    let decoder = decoder(&llama(), &Device::flex());
    let tokenizer = letters();
    let prompt = tokens(1, 4);
    let plain = SamplingParams { end_tokens: vec![3], ..params(25) };
    let free = &LmSampler::with_tokenizer(tokenizer.clone()).sample(&decoder, &[request(&prompt, 8, 4)], &plain).unwrap()[0];
    for sample in free {
        let end = sample.tokens.len() - usize::from(sample.finish == FinishReason::EndToken);
        assert_eq!(sample.text, tokenizer.decode(&sample.tokens[..end]).unwrap());
    }
    // Two letters out of the middle of the longest.
    let long = free.iter().max_by_key(|s| s.text.len()).unwrap();
    let stop = long.text[5..7].to_owned();
    let stopping = SamplingParams { stop_strings: vec!["??".into(), stop.clone()], ..plain };
    let stopped = &LmSampler::with_tokenizer(tokenizer).sample(&decoder, &[request(&prompt, 8, 4)], &stopping).unwrap()[0];
    let mut stops = 0;
    for (a, b) in free.iter().zip(stopped) {
        assert_eq!(a.tokens[..b.tokens.len()], b.tokens[..], "the same tokens up to the stop");
        match a.text.find(&stop) {
            Some(at) => {
                assert_eq!((b.finish, &b.text[..]), (FinishReason::StopString, &a.text[..at]));
                stops += 1;
            }
            None => assert_eq!((&a.tokens, &a.text, a.finish), (&b.tokens, &b.text, b.finish)),
        }
    }
    assert!(stops > 0);
}

#[test]
fn an_autodiff_policy_is_sampled_as_its_plain_self_and_lora_as_its_merged_self() {
    let prompt = tokens(1, 4);
    let plain = with_lora(&llama(), &Device::flex());
    let tracked = with_lora(&llama(), &Device::flex().autodiff());
    let expected = sample(&plain, &[request(&prompt, 5, 4)], &params(20));
    assert_eq!(sample(&tracked, &[request(&prompt, 5, 4)], &params(20)), expected);
    assert_eq!(sample(&tracked.valid(), &[request(&prompt, 5, 4)], &params(20)), expected);
    let merged = sample(&tracked.merged(), &[request(&prompt, 5, 4)], &params(20));
    for (a, b) in merged[0].iter().zip(&expected[0]) {
        assert_eq!(a.tokens, b.tokens);
    }
}

#[test]
fn bad_requests_are_errors_that_name_the_numbers() {
    let decoder = decoder(&llama(), &Device::flex());
    let message = |prefix: &[TokenId], params: &SamplingParams| {
        LmSampler::new().sample(&decoder, &[request(prefix, 1, 0)], params).unwrap_err().to_string()
    };
    assert_eq!(
        message(&[1; 60], &params(40)),
        "prompt: request 0 has 60 tokens and max_tokens = 40, together they must be at most the context of 96"
    );
    assert_eq!(message(&[], &params(4)), "prompt: request 0 has no token, must have at least one");
    assert_eq!(message(&[1, 99], &params(4)), "prompt: row 0 has token 99, must be below the vocabulary's 37");
    let stop = SamplingParams { stop_strings: vec!["x".into()], ..params(4) };
    assert_eq!(message(&[1], &stop), "stop strings: need a tokenizer: make the sampler with one");
    assert!(message(&[1], &SamplingParams { top_p: 2.0, ..params(4) }).contains("top_p = 2"));
    // Nothing asked, nothing given; exactly full is fine.
    assert_eq!(LmSampler::new().sample(&decoder, &[request(&[1], 0, 0)], &params(4)).unwrap(), vec![vec![]]);
    assert_eq!(sample(&decoder, &[request(&[1; 56], 1, 0)], &params(40)).len(), 1);
}

#[test]
fn a_context_of_one_layer_and_one_token_works() {
    let config = ModelConfig { num_hidden_layers: 1, architecture: Architecture::Llama, ..llama() };
    let decoder = decoder(&config, &Device::flex());
    let one = SamplingParams { max_tokens: 1, ..SamplingParams::default() };
    let samples = sample(&decoder, &[request(&[5], 3, 1)], &one);
    let batch = batch(&[vec![5]], &samples);
    let scores = decoder.score(&batch, &ScoreRequest::at(1.0)).unwrap();
    assert_eq!(scores.log_probs.dims(), [3, 1]);
}
