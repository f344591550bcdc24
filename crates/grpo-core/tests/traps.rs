//! Faults that other systems had, each a small case; what the other files already show is not repeated. Ids are those of the public lists
//! of such faults that the project keeps, `D` rows by number, `A` rows by name.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use burn::Tensor;
use burn::module::Module;
use burn::tensor::{DType, Device, Int, TensorData};
use common::configs::{objectives, with};
use common::models::{Bigram, completion, group, sample};
use common::{Data, close};
use grpo_core::{
    AcceptedKind, Advantages, Batch, BoxError, CausalLogits, Completion, GroupId, GrpoConfig, LogProbKind, Objective, OffPolicy, OldSource,
    OutOfBounds, Padded, Policy, Reduction, Role, Row, SamplerWeight, ScoreRequest, Scores, Span, StepStats, TokenBatch, WeightLevel,
    WeightNormalisation, gradients, grpo_loss, score_from_logits, stream, to_host,
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

/// A18: logit i is about token i + 1. A19: the first answer token is trained.
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

/// D43 to D46, A15, A17: with padding or alone, beside longer prompts or shorter ones, log-probs are the same.
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

/// A54: one completion at the limit beside one of a single token: masks have the width of the log-probs.
#[test]
fn masks_have_the_width_of_the_longest_completion() {
    let (long, short) = (vec![1; 24], vec![1; 1]);
    let batch =
        Batch::new(&[group(1, &[0], (), &[&long, &short])], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap();
    assert_eq!((batch.shape(), batch.mask().dims(), batch.advantages().dims()), ([2, 24], [2, 24], [2, 24]));
    assert_eq!(batch.token_counts(), [24, 1]);
}

/// D64, A21: the temperature is part of the question, and the ratio of an unchanged policy is 1 at any.
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

/// D71: nothing random stands between two scorings.
#[test]
fn scoring_twice_gives_the_same_bits_with_and_without_autodiff() {
    let live = Bigram::new(6, 1, DType::F32, &Device::flex().autodiff());
    let ask = |model: &Bigram| scored(model, &[&[1, 2]], &[&[2, 3], &[5]], vec![0, 0], 1.0);
    assert_eq!(ask(&live), ask(&live));
    assert_eq!(ask(&live), ask(&live.valid()));
}

/// D40, D42, A13: masks come from lengths and authors, never from token values; the end token is trained.
#[test]
fn a_token_counts_whatever_its_id_and_the_end_token_does_too() {
    let batch =
        Batch::new(&[group(1, &[0], (), &[&[0, 0, 0], &[5]])], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap();
    assert_eq!(batch.mask_host(), [true, true, true, true, false, false]);
    assert_eq!(completion(&[7, 2]).policy_mask(), [true, true]);
}

/// D50: tokens of the environment have absurd log-probs, and no influence.
#[test]
fn tokens_of_the_environment_are_not_trained() {
    let spans = |roles: &[(Role, usize)]| roles.iter().map(|&(role, len)| Span { role, len }).collect::<Vec<_>>();
    let mut tool: Completion = completion(&[1, 2, 3, 4]);
    tool.spans = spans(&[(Role::Policy, 1), (Role::Environment, 2), (Role::Policy, 1)]);
    assert_eq!(tool.policy_mask(), [true, false, false, true]);
    tool.sampler_log_probs = vec![-0.5, f32::NAN, f32::NEG_INFINITY, -0.5];
    let mut with_tool = group(1, &[0], (), &[&[1]]);
    with_tool.completions[0] = tool;
    let a = Advantages::PerCompletion(vec![1.0]);
    let batch = Batch::new(&[with_tool], &a, 0, &Device::flex()).unwrap();
    assert_eq!(batch.token_counts(), [2]);
    let lp = |middle: [f64; 2]| {
        Tensor::<2>::from_data(TensorData::new(vec![-1.0, middle[0], middle[1], -2.0], [1, 4]), (&Device::flex(), DType::F64))
            .autodiff()
            .require_grad()
    };
    let weight = SamplerWeight {
        level: WeightLevel::SequenceProduct,
        outside: OutOfBounds::Truncate,
        low: 0.0,
        high: 9.0,
        normalise: WeightNormalisation::None,
    };
    let config = GrpoConfig { off_policy: OffPolicy { weight: Some(weight), ..OffPolicy::default() }, ..with(Objective::Reinforce) };
    let run = |leaf: Tensor<2>| {
        let loss = grpo_loss(&Scores::new(leaf.clone()), &batch, &StepStats::of([&batch]), &config).unwrap().loss;
        (to_host(loss.clone(), "loss").unwrap(), to_host(leaf.grad(&loss.backward()).unwrap(), "gradient").unwrap())
    };
    let (loss, gradient) = run(lp([f64::NAN, 1e30]));
    assert_eq!((loss, gradient.clone()), run(lp([0.0, 0.0])));
    assert!(gradient[1..3] == [0.0, 0.0] && gradient[0] < 0.0 && gradient[3] < 0.0);
}

/// A30: a NaN under the mask is nothing; one that counts must show.
#[test]
fn a_nan_shows_exactly_where_it_counts() {
    let mut data = Data::rows(&[&[-1.0, -2.0, f64::NAN, -4.0]], &[1.0]);
    data.mask = vec![vec![true, false, false, true]];
    let config = with(Objective::Reinforce);
    close(data.run(&config).loss, 2.5, 1e-15, "mean of 1 and 4");
    data.mask = vec![vec![true, false, true, false]];
    assert!(data.run(&config).loss.is_nan());
}

/// D47, D49, A12: what is taken out leaves numerator and denominator; what is left has the loss it would have had alone.
#[test]
fn completions_that_are_ignored_leave_the_denominator_too() {
    let tokens = [[1u32; 3].to_vec(), [1u32; 5].to_vec()];
    let rows: Vec<Row<'_>> = tokens
        .iter()
        .map(|t| Row { prompt: 0, group: GroupId(1), tokens: t, mask: vec![true; t.len()], advantages: vec![-1.0; t.len()] })
        .collect();
    let mut batch = Batch::from_rows(&[&[0]], &rows, 1.0, &Device::flex()).unwrap();
    let lp = || Scores::new(Tensor::<2>::ones([2, 5], &Device::flex().autodiff()).require_grad());
    // −Â log π = 1 at each token.
    let loss = |batch: &Batch, reduction| {
        let config = GrpoConfig { reduction, ..with(Objective::Reinforce) };
        to_host(grpo_loss(&lp(), batch, &StepStats::of([batch]), &config).unwrap().loss, "loss").unwrap()[0]
    };
    batch.ignore(&[false, true]).unwrap();
    assert_eq!((batch.token_counts(), batch.advantages_host()[5..].to_vec()), (vec![3, 0], vec![0.0; 5]));
    assert_eq!(loss(&batch, Reduction::TokenMean), 1.0); // 3/3, not 3/8
    assert_eq!(loss(&batch, Reduction::PromptTokenMean), 1.0);
    assert_eq!(loss(&batch, Reduction::SequenceMean), 0.5); // rows still count, unless the setting says otherwise
    batch.ignore(&[true, true]).unwrap();
    assert_eq!(loss(&batch, Reduction::TokenMean), 0.0); // no 0/0
    assert!(batch.ignore(&[true]).is_err());
}

/// D53, D10: every objective goes through the one masked path: a factor of 0 takes the policy term from all of them.
#[test]
fn corrections_act_on_every_objective() {
    let mut data = Data::ragged(1);
    data.sampler.iter_mut().flatten().for_each(|lp| *lp = -50.0);
    let weight =
        SamplerWeight { level: WeightLevel::Token, outside: OutOfBounds::Mask, low: 0.0, high: 2.0, normalise: WeightNormalisation::None };
    for objective in objectives() {
        let config = GrpoConfig { off_policy: OffPolicy { weight: Some(weight), ..OffPolicy::default() }, ..with(objective) };
        let run = data.run(&config);
        assert_eq!(run.loss, 0.0, "{objective:?}");
        assert!(run.gradient.iter().flatten().all(|g| *g == 0.0), "{objective:?}");
    }
}

/// D65, D66: log-probs of another kind never enter a ratio silently.
#[test]
fn sampler_log_probs_of_another_kind_are_refused_unless_accepted_by_name() {
    let of_kind = |kind, temperature| {
        let mut g = group(1, &[0], (), &[&[1], &[2]]);
        for c in &mut g.completions {
            (c.log_prob_kind, c.temperature) = (kind, temperature);
        }
        Batch::new(&[g], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap()
    };
    for (kind, temperature, fits) in [
        (LogProbKind::Tempered, 0.6, true),
        (LogProbKind::Raw, 1.0, true),
        (LogProbKind::Raw, 0.6, false),
        (LogProbKind::Truncated, 1.0, false),
    ] {
        let batch = of_kind(kind, temperature);
        assert_eq!(batch.sampler_log_probs(AcceptedKind::Tempered).is_ok(), fits, "{kind:?} at {temperature}");
        assert!(batch.sampler_log_probs(AcceptedKind::Any).is_ok());
        let config = GrpoConfig { off_policy: OffPolicy { old: OldSource::Sampler, ..OffPolicy::default() }, ..GrpoConfig::default() };
        let lp = Scores::new(Tensor::<2>::ones([2, 1], &Device::flex().autodiff()).require_grad());
        let loss = grpo_loss(&lp, &batch, &StepStats::of([&batch]), &config);
        assert_eq!(loss.is_ok(), fits, "{kind:?} at {temperature}");
    }
    let mut mixed = group(1, &[0], (), &[&[1], &[2]]);
    mixed.completions[1].log_prob_kind = LogProbKind::Raw;
    let batch = Batch::new(&[mixed], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap();
    assert!(batch.sampler_log_probs(AcceptedKind::Tempered).is_err(), "two kinds in one batch are neither");
}

/// D67, A45, A46: ids pass through; a log-prob is never made up.
#[test]
fn ids_pass_unchanged_and_a_missing_log_prob_is_an_error() {
    let groups = [group(1, &[0], (), &[&[17, 4, 4], &[9]])];
    let batch = Batch::new(&groups, &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap();
    assert_eq!((batch.tokens().completions().row(0), batch.tokens().completions().row(1)), (&[17, 4, 4][..], &[9][..]));
    let broken = |change: fn(&mut grpo_core::Sample)| {
        let mut s = sample(&[1, 2, 3]);
        change(&mut s);
        Completion::from_sample(s, 0).unwrap_err().to_string()
    };
    assert!(broken(|s| s.log_probs.truncate(2)).contains("log-probs"));
    assert!(broken(|s| s.log_probs.push(0.0)).contains("log-probs"));
    assert!(broken(|s| s.log_probs[1] = f32::NAN).contains("NaN"));
    assert!(broken(|s| s.log_probs[1] = 0.5).contains("0.5"));
    assert!(broken(|s| s.tokens.clear()).contains("no token"));
}

/// D73: a fixed seed never makes the samples of a group identical.
#[test]
fn the_streams_of_a_group_differ() {
    let first = |seed, k| first_word(stream(seed, k));
    let seen: std::collections::BTreeSet<u64> = (0..4).flat_map(|seed| (0..16).map(move |k| (seed, k))).map(|(s, k)| first(s, k)).collect();
    assert_eq!(seen.len(), 64);
    assert_eq!(first(3, 5), first(3, 5));
}

fn first_word(mut rng: impl rand::Rng) -> u64 {
    rng.next_u64()
}

/// D60: counts are an argument; the shares of two ranks add up.
#[test]
fn counts_of_ranks_add_up_and_know_empty_rows() {
    let data = Data::ragged(3);
    let config = GrpoConfig::default();
    let (a, b) = (data.stats(&[vec![0, 2]], &config), data.stats(&[vec![1], vec![3, 4]], &config));
    let all = data.stats(&data.whole(), &config);
    let merged = a.merge(b);
    assert_eq!((merged.completions, merged.non_empty, merged.micro_batches), (5, 4, 3));
    assert_eq!((merged.tokens, merged.chosen, merged.group_tokens), (all.tokens, all.chosen, all.group_tokens));
}

/// D9: what does not fit is an error before burn sees it, by name and shape.
#[test]
fn shapes_that_do_not_fit_are_errors_with_a_name() {
    let data = Data::ragged(3);
    let rows = [0, 1];
    let (batch, config) = (data.batch(&rows), GrpoConfig::default());
    let step = StepStats::of([&batch]);
    let wrong = || Tensor::<2>::ones([2, 3], &Device::flex().autodiff()).require_grad();
    let error = grpo_loss(&Scores::new(wrong()), &batch, &step, &config).unwrap_err().to_string();
    assert!(error.contains("new log-probs") && error.contains("[2, 3]") && error.contains("[2, 7]"), "{error}");
    let mut scores = data.scores(&rows).0;
    scores.entropies = Some(wrong());
    assert!(grpo_loss(&scores, &batch, &step, &config).unwrap_err().to_string().contains("entropies"));
    let mut other = batch.clone();
    assert!(other.set_old(grpo_core::OldLogProbs::new(wrong().inner()).unwrap()).is_err());
    assert!(other.choose(&[vec![true]]).is_err() && other.choose(&[vec![true], vec![true]]).is_err());
    let row = |mask: usize, advantages: usize| Row {
        prompt: 0,
        group: GroupId(0),
        tokens: &[1, 1],
        mask: vec![true; mask],
        advantages: vec![0.0; advantages],
    };
    let made = |row| Batch::from_rows(&[&[0]], &[row], 1.0, &Device::flex());
    assert!(made(row(2, 2)).is_ok() && made(row(1, 2)).is_err() && made(row(2, 3)).is_err());
    assert!(made(Row { advantages: vec![f64::NAN, 0.0], ..row(2, 2) }).is_err());
    assert!(made(Row { prompt: 1, ..row(2, 2) }).is_err());
    assert!(made(Row { tokens: &[], ..row(0, 0) }).is_err());
}

/// Scores of another float type beside log-probs in 64 bits: they follow, and nothing panics.
#[test]
fn entropies_and_exact_kl_follow_the_type_of_the_log_probs() {
    let data = Data::rows(&[&[-1.0, -2.0]], &[1.0]);
    let (mut scores, _) = data.scores(&[0]);
    scores.entropies = scores.entropies.map(|t| t.cast(DType::F32));
    scores.kl = scores.kl.map(|t| t.cast(DType::F32));
    let config = GrpoConfig {
        kl: Some(grpo_core::KlPenalty::exact(0.1)),
        entropy: grpo_core::EntropySettings { bonus: 0.1, top_fraction: None },
        ..GrpoConfig::default()
    };
    let batch = data.batch(&[0]);
    let loss = grpo_loss(&scores, &batch, &StepStats::of([&batch]), &config).unwrap().loss;
    assert!(to_host(loss, "loss").unwrap()[0].is_finite());
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
    let _ = policy.score(batches[0].tokens(), &ScoreRequest::at(1.0)).unwrap();
}
