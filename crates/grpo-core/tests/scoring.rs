//! Scores from plain logits: places, temperature, padding, illegal actions.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use burn::Tensor;
use burn::module::Module;
use burn::tensor::{DType, Device, Int, TensorData};
use common::close;
use common::models::{Bigram, group};
use grpo_core::{
    Advantages, Batch, BoxError, CausalLogits, GrpoConfig, OffPolicy, OutOfBounds, Padded, SamplerWeight, ScoreRequest, StepStats,
    TokenBatch, WeightLevel, WeightNormalisation, gradients, score_from_logits, to_host,
};

/// The log-probs of completions, `[N][L]`, at a temperature.
fn scored<M: CausalLogits>(
    model: &M,
    prompts: &[&[u32]],
    completions: &[&[u32]],
    prompt_of: Vec<usize>,
    temperature: f64,
) -> Vec<Vec<f64>> {
    let batch = TokenBatch::new(Padded::new(prompts).unwrap(), Padded::new(completions).unwrap(), prompt_of).unwrap();
    let lp = to_host(score_from_logits(model, &batch, &ScoreRequest::at(temperature)).unwrap().log_probs, "log-probs").unwrap();
    lp.chunks(batch.completions().width()).zip(completions).map(|(row, c)| row[..c.len()].to_vec()).collect()
}

fn bigram() -> Bigram {
    Bigram::new(6, 1, DType::F64, &Device::flex())
}

/// Certain that token k + 1 follows token k.
struct Successor;

impl CausalLogits for Successor {
    fn logits(&self, tokens: Tensor<2, Int>) -> Result<Tensor<3>, BoxError> {
        let [rows, width] = tokens.dims();
        let next: Vec<i64> = tokens.try_into_vec_as::<i64>()?.iter().map(|t| (t + 1) % 8).collect();
        let one_hot = next.iter().flat_map(|&t| (0..8).map(move |v| if v == t { 1000.0 } else { 0.0 })).collect::<Vec<f64>>();
        Ok(Tensor::from_data(TensorData::new(one_hot, [rows, width, 8]), &Device::flex()))
    }
    fn device(&self) -> Device {
        Device::flex()
    }
}

/// Fault A18: logit i is about token i + 1. A19: the first answer token is trained.
#[test]
fn each_completion_token_is_scored_by_the_logits_of_the_place_before_it() {
    assert_eq!(scored(&Successor, &[&[1, 2]], &[&[3, 4, 5]], vec![0], 1.0), [[0.0; 3]]);
    let wrong_first = scored(&Successor, &[&[1, 2]], &[&[7, 0, 1]], vec![0], 1.0);
    assert!(wrong_first[0][0] < -900.0 && wrong_first[0][1..] == [0.0, 0.0]);
    let policy = Bigram::new(6, 1, DType::F64, &Device::flex().autodiff());
    let batch =
        [Batch::new(&[group(1, &[0, 3], (), &[&[2], &[4]])], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap()];
    let update = gradients(&policy, &batch, &StepStats::of(&batch), &GrpoConfig::default()).unwrap().into_gradients();
    let table = to_host(update.get::<2>(policy.table.id).unwrap(), "table").unwrap();
    // What follows token 3, the last of the prompt, is all that is trained.
    assert!(table[3 * 6 + 2] < 0.0 && table[3 * 6 + 4] > 0.0);
    assert!(table.iter().enumerate().all(|(k, g)| k / 6 == 3 || *g == 0.0));
}

/// Traps 43 to 46, faults A15 and A17: with padding or alone, beside longer prompts or shorter ones, log-probs are the same.
#[test]
fn log_probs_do_not_depend_on_who_else_is_in_the_batch() {
    let model = Bigram::new(6, 1, DType::F32, &Device::flex());
    let (prompts, completions): ([&[u32]; 2], [&[u32]; 3]) = ([&[1], &[4, 3, 2]], [&[2, 5], &[0], &[1, 1]]);
    let prompt_of = vec![1, 0, 1];
    let together = scored(&model, &prompts, &completions, prompt_of.clone(), 1.0);
    for (n, &p) in prompt_of.iter().enumerate() {
        let alone = scored(&model, &[prompts[p]], &[completions[n]], vec![0], 1.0);
        // Bigrams longer than five tokens have another model: stay below.
        common::all_close(&vec![together[n].clone()], &alone, 1e-6, &format!("row {n}"));
    }
}

/// Trap 64, fault A21: the temperature is part of the question, and the ratio of an unchanged policy is 1 at any.
#[test]
fn scoring_divides_logits_by_the_temperature_of_the_rollout() {
    let model = bigram();
    let [cold, warm] = [0.6, 1.0].map(|t| scored(&model, &[&[1]], &[&[2, 3]], vec![0], t));
    assert!((cold[0][0] - warm[0][0]).abs() > 1e-3);
    let row = to_host(model.table.val(), "table").unwrap()[6..12].to_vec();
    let z: f64 = row.iter().map(|z| (z / 0.6).exp()).sum();
    close(cold[0][0], row[2] / 0.6 - z.ln(), 1e-12, "log softmax(z / T)");
    let policy = Bigram::new(6, 1, DType::F64, &Device::flex().autodiff());
    let mut groups = [group(1, &[1], (), &[&[2, 3], &[4]])];
    groups[0].completions.iter_mut().for_each(|c| c.temperature = 0.6);
    groups[0].completions[0].sampler_log_probs = cold[0].iter().map(|lp| *lp as f32).collect();
    groups[0].completions[1].sampler_log_probs = scored(&model, &[&[1]], &[&[4]], vec![0], 0.6)[0].iter().map(|lp| *lp as f32).collect();
    let mut batch = Batch::new(&groups, &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap();
    assert_eq!(batch.temperature(), 0.6);
    batch.score_old(&policy.valid()).unwrap();
    let weight =
        SamplerWeight { level: WeightLevel::Token, outside: OutOfBounds::Mask, low: 0.5, high: 5.0, normalise: WeightNormalisation::None };
    let config = GrpoConfig { off_policy: OffPolicy { weight: Some(weight), ..OffPolicy::default() }, ..GrpoConfig::default() };
    let step = StepStats::of([&batch]);
    let metrics = gradients(&policy, &[batch], &step, &config).unwrap().metrics;
    assert_eq!(metrics.get("importance_ratio/mean"), Some(1.0));
    close(metrics.get("sampling/importance_sampling_ratio/mean").unwrap(), 1.0, 1e-6, "sampler weight at the right temperature");
}

/// Trap 71: nothing random stands between two scorings.
#[test]
fn scoring_twice_gives_the_same_bits_with_and_without_autodiff() {
    let live = Bigram::new(6, 1, DType::F32, &Device::flex().autodiff());
    let ask = |model: &Bigram| scored(model, &[&[1, 2]], &[&[2, 3], &[5]], vec![0, 0], 1.0);
    assert_eq!(ask(&live), ask(&live));
    assert_eq!(ask(&live), ask(&live.valid()));
}

/// −∞ logits are illegal actions: entropy, exact KL and gradients stay finite.
#[test]
fn illegal_actions_leave_everything_finite() {
    let mut policy = Bigram::new(6, 2, DType::F64, &Device::flex().autodiff());
    policy.table = burn::module::Param::from_tensor(policy.table.val().inner().slice_fill([0..6, 0..1], f64::NEG_INFINITY).autodiff());
    let mut batches =
        [Batch::new(&[group(1, &[1], (), &[&[2, 3], &[4]])], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap()];
    batches[0].score_reference(&policy.valid(), grpo_core::KlEstimator::Exact).unwrap();
    let config = GrpoConfig {
        kl: Some(grpo_core::KlPenalty::exact(0.1)),
        entropy: grpo_core::EntropySettings { bonus: 0.1, top_fraction: None },
        ..GrpoConfig::default()
    };
    let update = gradients(&policy, &batches, &StepStats::of(&batches), &config).unwrap();
    assert_eq!((update.non_finite.clone(), update.metrics.get("kl")), (None, Some(0.0)));
    assert!(update.metrics.get("entropy").unwrap() > 0.0);
}
