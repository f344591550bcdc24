//! Faults that other systems had, each a small case; what the other files already show is not repeated. Numbers are rows of the project's
//! lists: traps by number, faults by letter and number.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use burn::Tensor;
use burn::tensor::{DType, Device, TensorData};
use common::configs::{self, objectives, with};
use common::models::{completion, group, sample};
use common::{Data, close};
use grpo_core::{
    AcceptedKind, Advantages, Batch, Completion, GroupId, GrpoConfig, LogProbKind, Objective, OffPolicy, OldSource, OutOfBounds, Reduction,
    Role, Row, SamplerWeight, Scores, Span, StepStats, WeightLevel, WeightNormalisation, grpo_loss, stream, to_host,
};

/// Fault A54: one completion at the limit beside one of a single token: masks have the width of the log-probs.
#[test]
fn masks_have_the_width_of_the_longest_completion() {
    let (long, short) = (vec![1; 24], vec![1; 1]);
    let batch =
        Batch::new(&[group(1, &[0], (), &[&long, &short])], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap();
    assert_eq!((batch.shape(), batch.mask().dims(), batch.advantages().dims()), ([2, 24], [2, 24], [2, 24]));
    assert_eq!(batch.token_counts(), [24, 1]);
}

/// Traps 40 and 42, fault A13: masks come from lengths and authors, never from token values; the end token is trained.
#[test]
fn a_token_counts_whatever_its_id_and_the_end_token_does_too() {
    let batch =
        Batch::new(&[group(1, &[0], (), &[&[0, 0, 0], &[5]])], &Advantages::PerCompletion(vec![1.0, -1.0]), 0, &Device::flex()).unwrap();
    assert_eq!(batch.mask_host(), [true, true, true, true, false, false]);
    assert_eq!(completion(&[7, 2]).policy_mask(), [true, true]);
}

/// Trap 50: tokens of the environment have absurd log-probs, and no influence.
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

/// Fault A30: a NaN under the mask is nothing; one that counts must show.
#[test]
fn a_nan_shows_exactly_where_it_counts() {
    let mut data = Data::rows(&[&[-1.0, -2.0, f64::NAN, -4.0]], &[1.0]);
    data.mask = vec![vec![true, false, false, true]];
    let config = with(Objective::Reinforce);
    close(data.run(&config).loss, 2.5, 1e-15, "mean of 1 and 4");
    data.mask = vec![vec![true, false, true, false]];
    assert!(data.run(&config).loss.is_nan());
}

/// Traps 47 and 49, fault A12: what is taken out leaves numerator and denominator; what is left has the loss it would have had alone.
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

/// Traps 53 and 10: every objective goes through the one masked path: a factor of 0 takes the policy term from all of them.
#[test]
fn corrections_act_on_every_objective() {
    let mut data = Data::ragged(1);
    data.sampler.iter_mut().flatten().for_each(|lp| *lp = -50.0);
    let weight =
        SamplerWeight { level: WeightLevel::Token, outside: OutOfBounds::Mask, low: 0.0, high: 2.0, normalise: WeightNormalisation::None };
    for objective in objectives() {
        let config = GrpoConfig { off_policy: OffPolicy { weight: Some(weight), ..OffPolicy::default() }, ..with(objective) };
        // VESPO takes the mismatch inside its own weight, REAL's term is one a group: for both the pair is refused.
        if matches!(objective, Objective::Vespo { .. } | Objective::Real { .. }) {
            assert!(config.validate().is_err());
            continue;
        }
        let run = data.run(&config);
        assert_eq!(run.loss, 0.0, "{objective:?}");
        assert!(run.gradient.iter().flatten().all(|g| *g == 0.0), "{objective:?}");
    }
}

/// Traps 65 and 66: log-probs of another kind never enter a ratio silently.
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

/// Trap 67, faults A45 and A46: ids pass through; a log-prob is never made up.
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
    assert!(broken(|s| s.log_probs[0] = f32::NEG_INFINITY).contains("must be finite"));
    assert!(broken(|s| s.log_probs[1] = f32::NAN).contains("NaN"));
    assert!(broken(|s| s.log_probs[1] = 0.5).contains("0.5"));
    assert!(broken(|s| s.tokens.clear()).contains("no token"));
}

/// Trap 73: a fixed seed never makes the samples of a group identical.
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

/// Trap 60: counts are an argument; the shares of two ranks add up.
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

/// Trap 9: what does not fit is an error before burn sees it, by name and shape.
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

/// Fault A30, once more: each piece of the loss is clean under the mask by itself; none leans on the next one to hide what it left there.
#[test]
fn every_piece_of_the_loss_is_clean_under_the_mask() {
    let data = Data::ragged(5);
    let rows: Vec<usize> = (0..data.groups.len()).collect();
    let (batch, scores) = (data.batch(&rows), data.scores(&rows).0);
    for (name, config) in configs::every() {
        let step = data.stats(&data.whole(), &config);
        let weights = grpo_core::loss::weights(&config, &batch, &step);
        assert!(weights.iter().zip(batch.mask_host()).all(|(w, &counts)| (*w > 0.0) == counts && w.is_finite()), "{name}: {weights:?}");
        let terms = grpo_core::loss::Terms::new(&scores, &batch, &config).unwrap();
        let mut pieces = vec![grpo_core::loss::policy_term(&config.objective, &terms, &batch, &step).unwrap().loss];
        pieces.extend(grpo_core::loss::correction(&config.off_policy, &terms, &batch, &step).unwrap().factor);
        if let Some(kl) = config.kl_in_loss() {
            let kl = grpo_core::loss::kl_term(&kl, &scores, &terms, &batch, config.log_ratio_bound).unwrap().value;
            let under = to_host(kl.clone(), "kl").unwrap();
            assert!(under.iter().zip(batch.mask_host()).all(|(kl, counts)| *counts || *kl == 0.0), "{name}: {under:?}");
            pieces.push(kl);
        }
        for piece in pieces {
            let values = to_host(piece, "piece").unwrap();
            assert!(values.iter().all(|v| v.is_finite()), "{name}: {values:?}");
        }
    }
}
