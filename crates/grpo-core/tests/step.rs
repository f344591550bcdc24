//! The optimiser step: sums over micro-batches, the global norm, steps that are skipped, and what is refused.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use burn::Tensor;
use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsParams, SgdConfig};
use burn::tensor::{DType, TensorData};
use common::close;
use common::configs;
use common::models::{Bigram, LONG, POISON, advantages, batch_of, completion, cut, device, group, groups, policy, short};
use grpo_core::{
    Advantages, Batch, EntropySettings, Error, GrpoConfig, KlEstimator, Objective, OldLogProbs, Reduction, ReferenceLogProbs,
    SamplerLogProbs, StepStats, ZeroGradient, clip_global_norm, gradients, step_stats, to_host,
};

fn unclipped(config: GrpoConfig) -> GrpoConfig {
    GrpoConfig { max_grad_norm: None, ..config }
}

/// The gradients of table and shift; zeros where there is none.
fn flat(policy: &Bigram, gradients: &GradientsParams) -> Vec<f64> {
    let table = gradients.get::<2>(policy.table.id).map_or(vec![0.0; 36], |g| to_host(g, "table").unwrap());
    let shift = gradients.get::<1>(policy.shift.id).map_or(vec![0.0; 6], |g| to_host(g, "shift").unwrap());
    [table, shift].concat()
}

fn weights(policy: &Bigram) -> Vec<f64> {
    [to_host(policy.table.val(), "table").unwrap(), to_host(policy.shift.val(), "shift").unwrap()].concat()
}

fn gradient(policy: &Bigram, batches: &[Batch], step: &StepStats, config: &GrpoConfig) -> Vec<f64> {
    flat(policy, &gradients(policy, batches, step, config).unwrap().into_gradients())
}

/// Traps 57 and 58: the library owns the scaling. A parameter that some micro-batches do not touch loses nothing.
#[test]
fn the_gradient_of_a_step_is_the_sum_over_its_micro_batches() {
    let policy = policy(1, DType::F64);
    let batches = cut();
    assert_eq!(batches.len(), 3);
    for reduction in configs::REDUCTIONS {
        let config = unclipped(GrpoConfig { reduction, ..GrpoConfig::default() });
        let step = StepStats::of(&batches);
        let whole = gradient(&policy, &batches, &step, &config);
        let parts: Vec<Vec<f64>> = batches.iter().map(|b| gradient(&policy, std::slice::from_ref(b), &step, &config)).collect();
        assert!(whole[36..].iter().any(|g| *g != 0.0), "the shift has a gradient, though two of three micro-batches lack it");
        for (k, g) in whole.iter().enumerate() {
            close(*g, parts.iter().map(|part| part[k]).sum(), 1e-12, &format!("{reduction:?}, weight {k}"));
        }
    }
    // Without the long group, whose use of the shift depends on the width: one micro-batch is as good as two.
    let (two, a) = (&groups()[..2], Advantages::PerCompletion(vec![1.0, -0.5, 0.25, 0.75, -0.75]));
    let (split, whole) = (Batch::split(two, &a, 1, 0, &device()).unwrap(), [Batch::new(two, &a, 0, &device()).unwrap()]);
    for reduction in configs::REDUCTIONS.into_iter().filter(|r| *r != Reduction::MicroBatchTokenMean) {
        let config = unclipped(GrpoConfig { reduction, ..GrpoConfig::default() });
        let one = gradient(&policy, &whole, &StepStats::of(&whole), &config);
        let cut = gradient(&policy, &split, &StepStats::of(&split), &config);
        one.iter().zip(&cut).for_each(|(a, b)| close(*a, *b, 1e-12, &format!("{reduction:?}")));
    }
}

/// Traps 1 and 78: the loss of the whole step is logged, and is no sign of health.
#[test]
fn the_logged_loss_is_that_of_the_step_and_may_be_zero_though_the_gradient_is_not() {
    let (policy, batches) = (policy(1, DType::F64), short(1));
    let update = gradients(&policy, &batches, &StepStats::of(&batches), &GrpoConfig::default()).unwrap();
    close(update.metrics.get("loss").unwrap(), 0.0, 1e-15, "loss");
    assert!(update.metrics.get("grad_norm").unwrap() > 0.1);
    let batches = cut();
    let config = GrpoConfig { reduction: Reduction::TokenSum, ..GrpoConfig::default() };
    let update = gradients(&policy, &batches, &StepStats::of(&batches), &config).unwrap();
    // −Σ Â over tokens: −(2 − 0.5 + 0.75) − (1.5 − 1.5) − (−4 + 0.5)
    close(update.metrics.get("loss").unwrap(), -2.25 + 3.5, 1e-12, "the sum over micro-batches, not the last");
}

/// Trap 2.
#[test]
fn with_one_update_a_rollout_the_gradient_is_that_of_reinforce_with_or_without_an_old_pass() {
    let policy = policy(2, DType::F64);
    let mut batches = cut();
    let step = StepStats::of(&batches);
    let reinforce = gradient(&policy, &batches, &step, &unclipped(configs::with(Objective::Reinforce)));
    let config = unclipped(GrpoConfig::default());
    for _ in 0..2 {
        let clipped = gradient(&policy, &batches, &step, &config);
        clipped.iter().zip(&reinforce).for_each(|(a, b)| close(*a, *b, 1e-13, "gradient"));
        batches.iter_mut().for_each(|b| b.score_old(&policy.valid()).unwrap());
    }
}

/// Fault B31: burn's own clipping is per tensor.
#[test]
fn clipping_by_the_global_norm_keeps_the_direction_and_reports_the_norm_before() {
    let policy = policy(3, DType::F64);
    let ones = |n: usize, k: f64| {
        Tensor::<1>::from_data(
            TensorData::new((0..n).map(|i| if i == 0 { k } else { 0.0 }).collect::<Vec<f64>>(), [n]),
            (&device(), DType::F64),
        )
    };
    let loss = |by: f64| (policy.table.val().reshape([36]) * ones(36, 3.0 * by)).sum() + (policy.shift.val() * ones(6, 4.0 * by)).sum();
    for (by, norm) in [(1.0, 5.0), (1e200, 5e200), (1e-3, 5e-3)] {
        let mut grads = GradientsParams::from_grads(loss(by).backward(), &policy);
        let report = clip_global_norm(&policy, &mut grads, Some(1.0)).unwrap();
        close(report.value.unwrap() / norm, 1.0, 1e-12, "reported norm");
        let clipped = flat(&policy, &grads);
        let (three, four) = if norm > 1.0 { (0.6, 0.8) } else { (0.003, 0.004) };
        close(clipped[0], three, 1e-6, "first");
        close(clipped[36], four, 1e-6, "second");
    }
    let mut grads = GradientsParams::from_grads(loss(1.0).backward(), &policy);
    assert_eq!(clip_global_norm(&policy, &mut grads, None).unwrap().value, Some(5.0));
    assert_eq!(flat(&policy, &grads)[0], 3.0, "no limit, no scaling");
}

#[test]
fn parameters_of_several_float_types_have_one_norm_in_the_widest_and_at_least_32_bits() {
    let policy = policy(3, DType::F64);
    let norm = |table: f64, shift: [f64; 6], dtype| {
        let tensor = |values: Vec<f64>, n, dtype| Tensor::<1>::from_data(TensorData::new(values, [n]), (&device().inner(), dtype));
        let mut grads = GradientsParams::new();
        grads.register(policy.table.id, tensor(vec![table; 36], 36, DType::F64).reshape([6, 6]));
        grads.register(policy.shift.id, tensor(shift.to_vec(), 6, dtype));
        clip_global_norm(&policy, &mut grads, None).unwrap().value.unwrap()
    };
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        close(norm(128.1, [0.0; 6], dtype), 6.0 * 128.1, 1e-13, &format!("64 bits beside {dtype:?}"));
        // Exact in each type; their squares, and their shares of the largest, are not in 16 bits.
        let shift = [512.0, 100.0, 7.0, 300.0, 0.25, 13.0];
        close(norm(0.0, shift, dtype), shift.iter().map(|g| g * g).sum::<f64>().sqrt(), 1e-6, &format!("{dtype:?}"));
    }
}

#[test]
fn gradients_uses_the_limit_of_the_configuration() {
    let (policy, batches) = (policy(4, DType::F64), short(1));
    let config = GrpoConfig { max_grad_norm: Some(0.01), ..GrpoConfig::default() };
    let norm = |g: Vec<f64>| g.iter().map(|g| g * g).sum::<f64>().sqrt();
    close(norm(gradient(&policy, &batches, &StepStats::of(&batches), &config)), 0.01, 1e-4, "norm");
}

/// Fault C22.
#[test]
fn a_gradient_that_is_not_finite_is_named_and_leaves_weights_and_moments_as_they_are() {
    let (good, bad) = (short(LONG + 1 - 1), short(POISON));
    let run = |plan: &[&[Batch]]| {
        let (mut policy, mut optimizer) = (policy(5, DType::F32), AdamWConfig::new().with_weight_decay(0.1).init());
        for batches in plan {
            let before = weights(&policy);
            let update = gradients(&policy, batches, &StepStats::of(*batches), &GrpoConfig::default()).unwrap();
            let (skipped, named) = (update.skipped, update.non_finite.clone());
            assert_eq!(update.metrics.get("skipped"), Some(f64::from(u8::from(skipped))));
            policy = update.apply(&mut optimizer, 0.1, policy);
            assert_eq!(skipped, batches[0].shape()[1] == POISON);
            if skipped {
                assert_eq!(named.as_deref(), Some("shift"));
                assert_eq!(weights(&policy), before);
            } else {
                assert_ne!(weights(&policy), before);
            }
        }
        weights(&policy)
    };
    assert_eq!(run(&[&good, &bad, &bad, &good]), run(&[&good, &good]), "the moments saw nothing of it");
    let policy = policy(5, DType::F32);
    let update = gradients(&policy, &bad, &StepStats::of(&bad), &GrpoConfig::default()).unwrap();
    assert_eq!(update.metrics.get("grad_norm"), None, "there is no norm to report");
    assert!(update.into_gradients().is_empty());
}

/// Trap 48: a gradient of zeros would still decay weights and moments.
#[test]
fn a_step_without_tokens_is_skipped_and_counted() {
    let mut empty = short(2);
    empty[0].ignore(&[true, true]).unwrap();
    let (policy, mut optimizer) = (policy(6, DType::F32), AdamWConfig::new().with_weight_decay(0.1).init());
    let before = weights(&policy);
    let update = gradients(&policy, &empty, &StepStats::of(&empty), &GrpoConfig::default()).unwrap();
    assert_eq!((update.skipped, update.metrics.get("skipped"), update.non_finite.clone()), (true, Some(1.0), None));
    assert_eq!(weights(&update.apply(&mut optimizer, 0.1, policy)), before);
}

/// Also where every group is dead: Adam's old moments would move weights that nothing was said about.
#[test]
fn a_step_whose_gradient_is_exactly_0_is_skipped() {
    let dead = [Batch::new(&groups(), &Advantages::PerCompletion(vec![0.0; 7]), 0, &device()).unwrap()];
    let (mut policy, mut optimizer) = (policy(6, DType::F32), AdamWConfig::new().with_weight_decay(0.1).init());
    let alive = cut();
    policy = gradients(&policy, &alive, &StepStats::of(&alive), &GrpoConfig::default()).unwrap().apply(&mut optimizer, 0.1, policy);
    let before = weights(&policy);
    let update = gradients(&policy, &dead, &StepStats::of(&dead), &GrpoConfig::default()).unwrap();
    assert_eq!((update.skipped, update.metrics.get("grad_norm"), update.non_finite.clone()), (true, Some(0.0), None));
    assert_eq!(weights(&update.apply(&mut optimizer, 0.1, policy)), before);
}

/// The moments after one gradient g are (1 − β₁)·g and (1 − β₂)·g²; a step with 0 moves a weight by −lr·m̂/(√v̂ + ε) with m = β₁(1 − β₁)·g, v = β₂(1 − β₂)·g².
#[test]
fn a_step_whose_gradient_is_exactly_0_may_be_taken_and_momentum_carries_it() {
    let dead = [Batch::new(&groups(), &Advantages::PerCompletion(vec![0.0; 7]), 0, &device()).unwrap()];
    let config = GrpoConfig { zero_gradient: ZeroGradient::Step, ..GrpoConfig::default() };
    let (mut policy, mut optimizer) = (policy(6, DType::F32), AdamWConfig::new().with_epsilon(1e-12).with_weight_decay(0.0).init());
    let alive = cut();
    let start = weights(&policy);
    policy = gradients(&policy, &alive, &StepStats::of(&alive), &config).unwrap().apply(&mut optimizer, 0.1, policy);
    let before = weights(&policy);
    let update = gradients(&policy, &dead, &StepStats::of(&dead), &config).unwrap();
    assert_eq!((update.skipped, update.metrics.get("skipped"), update.metrics.get("grad_norm")), (false, Some(0.0), Some(0.0)));
    let after = weights(&update.apply(&mut optimizer, 0.1, policy));
    // The first step is lr·sign(g); the second is that by β₁/(1 + β₁) · √((1 + β₂)/β₂).
    let share = 0.9 / 1.9 * (1.999f64 / 0.999).sqrt();
    let mut moved = 0;
    for ((start, before), after) in start.iter().zip(&before).zip(&after) {
        let (first, second) = (before - start, after - before);
        assert!((second - share * first).abs() < 1e-5, "{first} {second}");
        moved += usize::from(first != 0.0);
    }
    assert!(moved > 3, "{moved} weights moved");
}

#[test]
fn stats_that_do_not_count_a_micro_batch_are_refused() {
    let (policy, batches) = (policy(6, DType::F32), cut());
    for (what, stats) in [("none", StepStats::default()), ("of another", StepStats::of(&batches[..1]))] {
        let error = gradients(&policy, &batches, &stats, &GrpoConfig::default()).unwrap_err().to_string();
        assert!(error.contains("step stats") && error.contains("all of the step's batches"), "{what}: {error}");
    }
    // More than these is another rank's.
    gradients(&policy, &batches[..1], &StepStats::of(&batches), &GrpoConfig::default()).unwrap();
}

/// What ranks send each other.
#[test]
fn stats_travel_as_json_and_a_merge_forgets_what_only_a_share_was_seen_for() {
    let policy = policy(6, DType::F64);
    let entropy = EntropySettings { top_fraction: Some(0.5), ..EntropySettings::default() };
    let config = GrpoConfig { entropy, ..GrpoConfig::default() };
    let batches = cut();
    let whole = step_stats(&policy.valid(), &batches, &config).unwrap();
    let share = |part: &[Batch]| {
        let json = serde_json::to_string(&step_stats(&policy.valid(), part, &config).unwrap()).unwrap();
        serde_json::from_str::<StepStats>(&json).unwrap()
    };
    let mut merged = share(&batches[..1]).merge(share(&batches[1..]));
    assert!(merged.entropy_threshold().unwrap_err().to_string().contains("not observed"));
    merged.finish(&config);
    assert_eq!(merged, whole);
}

/// Traps 3 and 4: the ratio is never silently 1.
#[test]
fn several_updates_or_a_stale_rollout_need_old_log_probs() {
    let policy = policy(7, DType::F32);
    let run = |batches: &[Batch], config: &GrpoConfig| gradients(&policy, batches, &StepStats::of(batches), config).map(|_| ());
    let message = |result: grpo_core::Result<()>| result.unwrap_err().to_string();
    let several = GrpoConfig { updates_per_rollout: 2, ..GrpoConfig::default() };
    let mut batches = cut();
    let error = message(run(&batches, &several));
    assert!(error.contains("old log-probs") && error.contains("updates_per_rollout"), "{error}");
    batches.iter_mut().for_each(|b| b.score_old(&policy.valid()).unwrap());
    run(&batches, &several).unwrap();

    let mut stale = [Batch::new(&groups(), &advantages(), 3, &device()).unwrap()];
    assert_eq!(stale[0].staleness(), 3);
    let error = message(run(&stale, &GrpoConfig::default()));
    assert!(error.contains("old log-probs") && error.contains("older"), "{error}");
    stale[0].score_old(&policy.valid()).unwrap();
    run(&stale, &GrpoConfig::default()).unwrap();
    let mut limited = GrpoConfig::default();
    limited.off_policy.max_staleness = Some(2);
    let error = message(run(&stale, &limited));
    assert!(error.contains("3 steps old") && error.contains("max_staleness"), "{error}");
    limited.off_policy.max_staleness = Some(3);
    run(&stale, &limited).unwrap();
}

#[test]
fn the_second_update_of_a_rollout_has_ratios_that_moved() {
    let (mut policy, mut optimizer) = (policy(8, DType::F64), SgdConfig::new().init());
    let mut batches = short(1);
    batches[0].score_old(&policy.valid()).unwrap();
    let config = GrpoConfig { updates_per_rollout: 2, ..GrpoConfig::default() };
    let mut ratios = vec![];
    for _ in 0..2 {
        let update = gradients(&policy, &batches, &StepStats::of(&batches), &config).unwrap();
        ratios.push(update.metrics.get("importance_ratio/max").unwrap());
        policy = update.apply(&mut optimizer, 0.5, policy);
    }
    assert!(ratios[0] == 1.0 && ratios[1] > 1.1, "{ratios:?}");
}

#[test]
fn a_temperature_of_zero_or_of_two_kinds_is_refused() {
    let greedy = |temperature: f64| {
        let mut groups = groups();
        groups.iter_mut().flat_map(|g| &mut g.completions).for_each(|c| c.temperature = temperature);
        groups
    };
    let error = Batch::new(&greedy(0.0), &advantages(), 0, &device()).unwrap_err().to_string();
    assert!(error.contains("temperature = 0"), "{error}");
    assert!(Batch::from_rows(&[&[0]], &[], f64::NAN, &device()).is_err());
    let mut mixed = groups();
    mixed[1].completions[0].temperature = 0.7;
    let error = Batch::new(&mixed, &advantages(), 0, &device()).unwrap_err().to_string();
    assert!(error.contains("0.7") && error.contains("group 2"), "{error}");
}

/// Trap 12: each kind of log-prob is a type of its own; and autodiff may track only the new ones.
#[test]
fn frozen_log_probs_refuse_tracked_tensors_and_new_ones_must_be_tracked() {
    let tracked = || Tensor::<2>::ones([2, 2], &device()).require_grad();
    let errors = [
        OldLogProbs::new(tracked()).unwrap_err(),
        SamplerLogProbs::new(tracked()).unwrap_err(),
        ReferenceLogProbs::new(tracked()).unwrap_err(),
    ];
    for (error, what) in errors.iter().zip(["old", "sampler", "reference"]) {
        assert!(matches!(error, Error::Tracking { tracked: false, .. }) && error.to_string().starts_with(what), "{error}");
    }
    let live = policy(9, DType::F32);
    let mut batches = short(2);
    assert!(matches!(batches[0].score_old(&live), Err(Error::Tracking { .. })), "old log-probs of a policy in training");
    assert!(matches!(batches[0].score_reference(&live, KlEstimator::Exact), Err(Error::Tracking { .. })));
    assert!(matches!(batches[0].score_reference(&live, KlEstimator::K3), Err(Error::Tracking { .. })));
    let error = gradients(&live.valid(), &batches, &StepStats::of(&batches), &GrpoConfig::default()).unwrap_err();
    assert!(matches!(error, Error::Tracking { tracked: true, .. }), "{error}");
}

#[test]
fn what_needs_the_whole_step_is_observed_by_step_stats_and_refused_otherwise() {
    let (policy, batches) = (policy(15, DType::F64), cut());
    let top = GrpoConfig { entropy: EntropySettings { bonus: 0.0, top_fraction: Some(0.3) }, ..GrpoConfig::default() };
    let cov = configs::with(Objective::KlCov { fraction: 0.2, coefficient: 1.0 });
    for config in [top, cov] {
        let step = step_stats(&policy.valid(), &batches, &config).unwrap();
        assert!(gradients(&policy, &batches, &step, &config).is_ok());
        let error = gradients(&policy, &batches, &StepStats::of(&batches), &config).unwrap_err().to_string();
        assert!(error.contains("step_stats"), "{error}");
    }
    assert!(gradients(&policy, &[], &StepStats::default(), &GrpoConfig::default()).is_err());
}

/// Faults B01, B03, B04, on the side of the caller: sampling and scoring run without autodiff.
#[test]
#[cfg(target_os = "linux")]
fn a_thousand_scoring_passes_keep_memory_flat() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()
    };
    let (policy, tokens) = (Bigram::new(128, 1, DType::F32, &device()), vec![1u32; 24]);
    let completions: Vec<&[u32]> = vec![&tokens; 16];
    let mut batch = batch_of(&[group(1, &[0], (), &completions)]);
    let frozen = policy.valid();
    let mut before = 0.0;
    for pass in 0..1000 {
        batch.score_old(&frozen).unwrap();
        if pass == 200 {
            before = resident();
        }
    }
    let after = resident();
    assert!(after < before * 1.05 + 1024.0, "{before} kB grew to {after} kB");
    assert_eq!(completion(&[1]).tokens, [1]);
}
