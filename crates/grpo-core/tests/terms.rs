//! Hand-worked values of what stands beside the policy term: KL, entropy, corrections, additions; and their metrics.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use burn::Tensor;
use burn::tensor::Device;
use common::configs::with;
use common::{Data, close};
use grpo_core::loss::{grpo_loss, kl_estimate};
use grpo_core::{
    Addition, Batch, CountedRows, Divergence, EntropySettings, GroupId, GrpoConfig, KlEstimator, KlGradient, KlPenalty, KlPlace,
    Normaliser, Objective, OffPolicy, OldSource, OutOfBounds, Reduction, Rejection, RejectionLevel, Row, SamplerWeight, SequenceMask,
    StepStats, WeightLevel, WeightNormalisation,
};

#[track_caller]
fn is(value: f64, wanted: f64) {
    close(value, wanted, 1e-12, "value");
}

fn kl(estimator: KlEstimator, gradient: KlGradient) -> GrpoConfig {
    let kl = KlPenalty { coefficient: 2.0, estimator, gradient, place: KlPlace::Loss, value_bound: None };
    GrpoConfig { kl: Some(kl), ..GrpoConfig::default() }
}

/// One token with advantage 0: nothing but the KL term is left. d = log π_ref − log π.
fn drift(d: f64) -> Data {
    let mut data = Data::rows(&[&[-1.0]], &[0.0]);
    data.reference = vec![vec![d - 1.0]];
    data
}

/// Faults A26 and A27: k3 is never below 0, and takes reference minus policy.
#[test]
fn estimators_have_their_values_and_gradients() {
    use {KlEstimator as E, KlGradient as G};
    let e = f64::exp;
    // Estimator, form, d; value / β, gradient / β.
    let table = [
        (E::K1, G::RatioWeighted, 0.5, -0.5, -0.5 + 1.0), // ∇(−d ρ) = (1 − d) at ρ = 1
        (E::K1, G::StraightThrough, 0.5, -0.5, -0.5),
        (E::K2, G::Plain, 0.5, 0.125, -0.5), // ½ · 0.25; −d
        (E::K2, G::StraightThrough, 0.5, 0.125, -0.5),
        (E::K3, G::Plain, 0.5, e(0.5) - 1.5, 1.0 - e(0.5)),    // 0.148721; 1 − e^d
        (E::K3, G::Plain, -0.5, e(-0.5) - 0.5, 1.0 - e(-0.5)), // 0.106531
        (E::K3, G::Plain, -1.0, 0.367_879_441_171_442_3, 1.0 - e(-1.0)), // the reference is less sure: push down
        (E::K3, G::RatioWeighted, 0.5, e(0.5) - 1.5, -0.5),    // ∇(k3 ρ) = 1 − e^d + k3 = −d
        (E::K3, G::StraightThrough, 0.5, e(0.5) - 1.5, -0.5),
        (E::Abs, G::Plain, 0.5, 0.5, -1.0),
        (E::Abs, G::Plain, -0.5, 0.5, 1.0),
        (E::Abs, G::Plain, 0.0, 0.0, 0.0), // derivative 0 at 0
    ];
    for (estimator, gradient, d, value, slope) in table {
        let run = drift(d).run(&kl(estimator, gradient));
        close(run.loss, 2.0 * value, 1e-12, &format!("{estimator:?}, {gradient:?}, d = {d}"));
        close(run.gradient[0][0], 2.0 * slope, 1e-12, &format!("gradient of {estimator:?}, {gradient:?}, d = {d}"));
        close(run.metrics.get("kl").unwrap(), value, 1e-12, "the metric is not multiplied by the coefficient");
    }
}

/// Faults A24 and A25, traps 31 and 32: bounded before `exp`.
#[test]
fn a_kl_of_a_difference_of_99_is_that_of_20_and_has_no_gradient() {
    let mut data = Data::rows(&[&[-100.0]], &[0.0]);
    data.reference = vec![vec![-1.0]];
    data.dtype = burn::tensor::DType::F32;
    let run = data.run(&GrpoConfig { kl: Some(KlPenalty::plain_k3(1.0)), ..GrpoConfig::default() });
    close(run.loss, 485_165_174.41, 1e-6, "e^20 − 21");
    assert_eq!(run.gradient[0][0], 0.0);
    assert_eq!(run.metrics.get("kl/bounded"), Some(1.0));
    // A bound of the value has no gradient beyond it, either.
    let penalty = KlPenalty { value_bound: Some(10.0), ..KlPenalty::plain_k3(1.0) };
    let run = drift(5.0).run(&GrpoConfig { kl: Some(penalty), ..GrpoConfig::default() });
    assert_eq!((run.loss, run.gradient[0][0]), (10.0, 0.0));
    assert_eq!(run.metrics.get("kl/bounded"), Some(1.0), "cuts of the value are counted, too");
}

/// The gradient of a ratio times a positive estimate alone is −: it would make the token less likely the further it fell behind.
#[test]
fn a_weighted_kl_never_pushes_away_from_the_reference_where_a_bound_cuts() {
    for (estimator, value_bound, d) in [
        (KlEstimator::K3, None, 25.0),
        (KlEstimator::K3, Some(10.0), 5.0),
        (KlEstimator::K3, Some(10.0), 2.0),
        (KlEstimator::K1, None, 25.0),
        (KlEstimator::K1, Some(1.0), 3.0),
        (KlEstimator::K3, Some(1.0), -3.0),
    ] {
        let kl = KlPenalty { estimator, value_bound, ..KlPenalty::new(1.0) };
        let gradient = drift(d).run(&GrpoConfig { kl: Some(kl), ..GrpoConfig::default() }).gradient[0][0];
        assert!(gradient * d <= 0.0, "{estimator:?}, bound {value_bound:?}, d = {d}: {gradient}");
        if d == 2.0 {
            close(gradient, -2.0, 1e-12, "inside the bound as ever");
        }
    }
}

#[test]
fn a_straight_through_value_is_not_rounded_away_by_its_path() {
    let mut data = drift(-1000.0);
    data.dtype = burn::tensor::DType::F32;
    let mut config = kl(KlEstimator::K3, KlGradient::StraightThrough);
    config.kl.as_mut().unwrap().value_bound = Some(0.3); // no multiple of the 1/32 to which numbers of the path's size are rounded
    let run = data.run(&config);
    close(run.loss, 2.0 * 0.3, 1e-6, "the bound of 0.3, with a path of 500,000");
    close(run.gradient[0][0], 2.0 * 1000.0, 1e-6, "the gradient of k2 is not bounded");
}

/// Fault A29; trap 34: no ratio enters where a log-ratio belongs.
#[test]
fn where_nothing_moved_kl_is_exactly_zero() {
    for (name, config) in common::configs::kl_forms().into_iter().filter(|(name, _)| !name.starts_with("Exact")) {
        let run = drift(0.0).run(&config);
        assert_eq!((run.loss, run.metrics.get("kl"), run.metrics.get("kl/max")), (0.0, Some(0.0), Some(0.0)), "{name}");
    }
}

/// Trap 35.
#[test]
fn the_largest_kl_of_any_token_is_a_metric() {
    let mut data = Data::rows(&[&[-1.0, -1.0, -1.0]], &[0.0]);
    data.reference = vec![vec![-1.0, -3.0, -0.5]];
    let run = data.run(&GrpoConfig { kl: Some(KlPenalty::plain_k3(1.0)), ..GrpoConfig::default() });
    close(run.metrics.get("kl/max").unwrap(), (-2f64).exp() + 1.0, 1e-12, "k3 of d = −2");
    data.reference = vec![vec![-1.5, -2.0, f64::NAN]];
    data.mask = vec![vec![true, true, false]];
    let run = data.run(&kl(KlEstimator::K1, KlGradient::RatioWeighted));
    assert_eq!(run.metrics.get("kl/max"), Some(1.0), "masked places are no maximum");
    data.reference = vec![vec![-0.5, -0.75, f64::NAN]];
    assert_eq!(data.run(&kl(KlEstimator::K1, KlGradient::RatioWeighted)).metrics.get("kl/max"), Some(-0.25), "and neither is 0");
}

/// Fault A53: one worker with 1 token of KL 4, one with 3 tokens of KL 0.
#[test]
fn metrics_are_means_over_tokens_whoever_counted_them() {
    let mut data = Data::rows(&[&[-1.0], &[-1.0, -1.0, -1.0]], &[0.0, 0.0]);
    data.reference[0][0] = -1.0 - 8f64.sqrt();
    let config = kl(KlEstimator::K2, KlGradient::Plain);
    close(data.run_in(&config, &[vec![0], vec![1]]).metrics.get("kl").unwrap(), 1.0, 1e-12, "mean of 4, 0, 0, 0");
}

#[test]
fn the_entropy_bonus_is_the_mean_over_the_tokens_of_the_step() {
    let mut data = Data::rows(&[&[-1.0, -2.0], &[-1.0]], &[0.0, 0.0]);
    data.entropies = vec![vec![1.0, 2.0], vec![1.5]]; // 0.1 log² π on top: 1.1, 2.4, 1.6
    let config = GrpoConfig { entropy: EntropySettings { bonus: 0.3, top_fraction: None }, ..GrpoConfig::default() };
    let run = data.run(&config);
    is(run.loss, -0.3 * 5.1 / 3.0);
    is(run.gradient[0][1], -0.3 * 0.2 * -2.0 / 3.0);
    is(run.metrics.get("entropy").unwrap(), 1.7);
    let mut masked = data.clone();
    masked.mask[0][1] = false;
    masked.litter();
    is(masked.run(&config).loss, -0.3 * 2.7 / 2.0);
}

/// Fault A52, trap 55: padding takes no part in the quantile; the threshold is that of the step.
#[test]
fn the_top_entropy_mask_keeps_the_upper_share_of_the_step() {
    let mut data = Data::rows(&[&[-1.0; 5], &[-1.0]], &[1.0, 1.0]);
    data.entropies = vec![vec![1.0, 2.0, 3.0, 0.0, 0.0], vec![9.0]];
    data.mask[0] = vec![true, true, true, false, false];
    data.mask[1] = vec![false];
    let half = GrpoConfig {
        entropy: EntropySettings { bonus: 0.0, top_fraction: Some(0.5) },
        kl: Some(KlPenalty::new(1.0)),
        ..with(Objective::Reinforce)
    };
    data.reference[0][0] = -1.5;
    let run = data.run(&half);
    // Kept are entropies from 2 on: −1 · −1 each, over 3 tokens. The KL of the first token stays: e^−½ − ½.
    is(run.loss, (0.0 + 1.0 + 1.0 + (-0.5f64).exp() - 0.5) / 3.0);
    is(run.metrics.get("entropy/kept_ratio").unwrap(), 2.0 / 3.0);
    data.mask[1] = vec![true];
    data.reference[0][0] = -1.0;
    let run = data.run_in(&half, &[vec![0], vec![1]]);
    // 1, 2, 3, 9: the median is 2.5, so 3 and 9 are kept, in whichever micro-batch they stand.
    assert_eq!((run.gradient[0][1], run.gradient[0][2], run.gradient[1][0]), (0.0, -0.25, -0.25));
}

/// −Â log π with Â = 1, log π = −1 at each token, so that the loss is the mean factor.
fn factor(mismatch: &[&[f64]], off_policy: OffPolicy) -> f64 {
    let ones: Vec<Vec<f64>> = mismatch.iter().map(|row| vec![-1.0; row.len()]).collect();
    let mut data = Data::rows(&ones.iter().map(Vec::as_slice).collect::<Vec<_>>(), &vec![1.0; ones.len()]);
    data.sampler = mismatch.iter().map(|row| row.iter().map(|w| -1.0 - w.ln()).collect()).collect();
    data.run(&GrpoConfig { off_policy, ..with(Objective::Reinforce) }).loss
}

fn weight(level: WeightLevel, outside: OutOfBounds, low: f64, high: f64, normalise: WeightNormalisation) -> OffPolicy {
    OffPolicy { weight: Some(SamplerWeight { level, outside, low, high, normalise }), ..OffPolicy::default() }
}

/// Trap 68: both forms over a sequence.
#[test]
fn sampler_weights_are_taken_over_their_level_and_bounded() {
    use {OutOfBounds as O, WeightLevel as L, WeightNormalisation as N};
    let w: [&[f64]; 2] = [&[2.0, 4.0], &[0.25]];
    is(factor(&w, weight(L::Token, O::Truncate, 0.5, 3.0, N::None)), (2.0 + 3.0 + 0.5) / 3.0);
    is(factor(&w, weight(L::Token, O::Mask, 0.5, 3.0, N::None)), 2.0 / 3.0);
    is(factor(&w, weight(L::SequenceProduct, O::Truncate, 0.0, 9.0, N::None)), (8.0 + 8.0 + 0.25) / 3.0);
    is(factor(&w, weight(L::SequenceProduct, O::Mask, 0.0, 3.0, N::None)), 0.25 / 3.0); // masked, but still in the denominator
    is(factor(&w, weight(L::SequenceGeometric, O::Truncate, 0.0, 9.0, N::None)), (2.0 * 8f64.sqrt() + 0.25) / 3.0);
    is(factor(&w, weight(L::Token, O::Truncate, 0.0, 9.0, N::StepMean)), 1.0); // weights over their own mean
    is(factor(&[&[1.0], &[3.0]], weight(L::Token, O::Mask, 0.0, 2.0, N::StepMean)), 1.0); // 1 and 0, over ½
    is(factor(&[&[3.0], &[3.0]], weight(L::Token, O::Mask, 0.0, 2.0, N::StepMean)), 0.0); // all out: nothing to divide by, and no NaN
}

/// Trap 69: raw and bounded.
#[test]
fn weights_are_logged_before_and_after_their_bounds() {
    let mut data = Data::rows(&[&[-1.0, -1.0]], &[1.0]);
    data.sampler = vec![vec![-1.0 - 4f64.ln(), -1.0]];
    let off_policy = weight(WeightLevel::Token, OutOfBounds::Truncate, 0.0, 2.0, WeightNormalisation::None);
    let metrics = data.run(&GrpoConfig { off_policy, ..GrpoConfig::default() }).metrics;
    is(metrics.get("sampling/importance_sampling_ratio/mean").unwrap(), 2.5);
    is(metrics.get("sampling/importance_sampling_ratio/bounded_mean").unwrap(), 1.5);
    is(metrics.get("sampling/sampling_logp_difference/mean").unwrap(), 4f64.ln() / 2.0);
    is(metrics.get("sampling/sampling_logp_difference/max").unwrap(), 4f64.ln());
    is(metrics.get("sampling/importance_sampling_ratio/min").unwrap(), 1.0);
    is(metrics.get("sampling/importance_sampling_ratio/max").unwrap(), 4.0);
    let uncorrected = data.run(&GrpoConfig::default()).metrics;
    is(uncorrected.get("sampling/sampling_logp_difference/max").unwrap(), 4f64.ln()); // seen also where nothing is done about it
    assert_eq!(uncorrected.get("sampling/effective_sample_size"), None);
    is(metrics.get("sampling/effective_sample_size").unwrap(), 3f64.powi(2) / (2.0 * 5.0)); // weights 2 and 1
    let data = Data::of_ratios(&[30f64.exp(), 1.0], 1.0);
    let metrics = data.run(&GrpoConfig::default()).metrics;
    close(metrics.get("importance_ratio/max").unwrap(), 30f64.exp(), 1e-9, "raw, not bounded to e^20");
    is(metrics.get("importance_ratio/bounded").unwrap(), 0.5);
}

#[test]
fn rejection_leaves_out_what_diverges() {
    use {Divergence as D, RejectionLevel as L};
    let w: [&[f64]; 2] = [&[2.0, 1.0], &[1.0]];
    let kept = |divergence, over, low, high| {
        factor(&w, OffPolicy { rejection: Some(Rejection { divergence, over, low, high }), ..OffPolicy::default() }) * 3.0
    };
    // At the first token k1 = −0.693, k2 = 0.240, k3 = 2 − 0.693 − 1 = 0.307; elsewhere 0.
    is(kept(D::K3, L::Token, None, 0.30), 2.0);
    is(kept(D::K3, L::Token, None, 0.31), 3.0);
    is(kept(D::K3, L::SequenceMean, None, 0.15), 1.0);
    is(kept(D::K3, L::SequenceMean, None, 0.16), 3.0);
    is(kept(D::K2, L::SequenceSum, None, 0.2), 1.0);
    is(kept(D::K2, L::SequenceSum, None, 0.25), 3.0);
    is(kept(D::K2, L::SequenceMax, None, 0.2), 1.0);
    is(kept(D::K1, L::Token, Some(-0.7), 0.1), 3.0);
    is(kept(D::K1, L::Token, Some(-0.6), 0.1), 2.0); // below the lower bound
    is(kept(D::K1, L::SequenceMax, Some(-0.6), 0.1), 3.0); // the largest of the row is 0
}

#[test]
fn the_off_policy_mask_drops_punished_completions_that_drifted_and_keeps_their_kl() {
    let mut data = Data::rows(&[&[-1.5, -1.5], &[-1.5]], &[-1.0, 1.0]);
    data.old = Some(vec![vec![-1.0, -1.0], vec![-1.0]]); // drift ½
    data.reference = vec![vec![-2.0, -1.5], vec![-1.5]];
    data.sampler = vec![vec![-1.1, -0.5], vec![-1.5]]; // drift 0.7
    let masked_from = |limit, from| {
        let off_policy = OffPolicy { sequence_mask: Some(SequenceMask { limit, from }), ..OffPolicy::default() };
        data.run(&GrpoConfig { off_policy, kl: Some(KlPenalty::plain_k3(1.0)), ..with(Objective::Reinforce) }).loss
    };
    let k3 = (-0.5f64).exp() - 0.5;
    let masked = |limit| masked_from(limit, OldSource::Trainer);
    is(masked(0.4), (1.5 + k3) / 3.0); // −1 · −1.5 of the rewarded one
    is(masked(0.6), (-1.5 - 1.5 + 1.5 + k3) / 3.0);
    is(masked_from(0.6, OldSource::Sampler), (1.5 + k3) / 3.0);
    is(masked_from(0.8, OldSource::Sampler), (-1.5 - 1.5 + 1.5 + k3) / 3.0);
}

#[test]
fn bypass_takes_the_ratio_against_the_sampler() {
    let mut data = Data::rows(&[&[-1.0]], &[1.0]);
    data.sampler = vec![vec![-1.0 - 1.1f64.ln()]];
    let off_policy = OffPolicy { old: OldSource::Sampler, ..OffPolicy::default() };
    is(data.run(&GrpoConfig { off_policy, ..GrpoConfig::default() }).loss, -1.1);
}

#[test]
fn additions_are_means_over_chosen_tokens_and_squares_of_the_drift() {
    let mut data = Data::rows(&[&[-0.5, -1.5, -9.0]], &[0.0]);
    data.chosen = vec![vec![true, true, false]];
    data.mask = vec![vec![true, false, true]]; // a chosen token need not be one of the loss
    let added = |addition| GrpoConfig { additions: vec![addition], ..GrpoConfig::default() };
    let run = data.run(&added(Addition::CrossEntropy { coefficient: 0.3 }));
    is(run.loss, 0.3); // 0.3 · (0.5 + 1.5) / 2
    is(run.gradient[0][1], -0.15);
    data.old = Some(vec![vec![-1.0, -1.5, -9.0]]);
    is(data.run(&added(Addition::SquaredDrift { coefficient: 2.0 })).loss, 2.0 * 0.25 / 2.0);
}

#[test]
fn cross_entropy_on_tokens_that_nobody_chose_is_refused_and_an_empty_choice_adds_nothing() {
    let data = Data::rows(&[&[-0.5, -1.5]], &[1.0]); // chosen: none of two
    let config = GrpoConfig { additions: vec![Addition::CrossEntropy { coefficient: 0.3 }], ..GrpoConfig::default() };
    is(data.run(&config).loss, data.run(&GrpoConfig::default()).loss);
    let row = Row { prompt: 0, group: GroupId(0), tokens: &[1, 1], mask: vec![true; 2], advantages: vec![1.0; 2] };
    let batch = Batch::from_rows(&[&[0]], &[row], 1.0, &Device::flex()).unwrap();
    let (scores, _) = data.scores(&[0]);
    let error = grpo_loss(&scores, &batch, &StepStats::of([&batch]), &config).unwrap_err().to_string();
    assert!(error.contains("chosen tokens") && error.contains("cross_entropy") && error.contains("Batch::choose"), "{error}");
}

#[test]
fn an_estimate_of_the_exact_kl_from_sampled_tokens_is_refused() {
    let one = || Tensor::<2>::zeros([1, 1], &Device::flex());
    let error = kl_estimate(&KlPenalty::exact(0.1), one(), one(), &one(), None).unwrap_err().to_string();
    assert!(error.contains("exact") && error.contains("k3"), "{error}");
}

#[test]
fn entropies_of_another_shape_are_refused_when_a_step_is_observed() {
    let data = Data::rows(&[&[-0.5, -1.5]], &[1.0]);
    let entropy = EntropySettings { top_fraction: Some(0.5), ..EntropySettings::default() };
    let config = GrpoConfig { entropy, ..GrpoConfig::default() };
    let (batch, (mut scores, _)) = (data.batch(&[0]), data.scores(&[0]));
    scores.entropies = Some(Tensor::zeros([1, 3], &Device::flex()));
    let error = StepStats::of([&batch]).observe(&batch, &scores, &config).unwrap_err().to_string();
    assert!(error.contains("entropies") && error.contains("[1, 3]") && error.contains("[1, 2]"), "{error}");
}

/// Not the mean of the shares: the share of all weights together.
#[test]
fn the_effective_sample_size_of_a_step_does_not_depend_on_how_it_is_cut() {
    let mut data = Data::rows(&[&[-1.0], &[-1.0], &[-1.0]], &[1.0, -1.0, 1.0]);
    data.groups = vec![0, 1, 2];
    data.sampler = vec![vec![-1.0 - 4f64.ln()], vec![-1.0], vec![-1.0 - 2f64.ln()]];
    let off_policy = weight(WeightLevel::Token, OutOfBounds::Truncate, 0.0, 8.0, WeightNormalisation::None);
    let config = GrpoConfig { off_policy, ..GrpoConfig::default() };
    for parts in [vec![vec![0, 1, 2]], vec![vec![0], vec![1, 2]], vec![vec![2], vec![0], vec![1]]] {
        let metrics = data.run_in(&config, &parts).metrics;
        is(metrics.get("sampling/effective_sample_size").unwrap(), 49.0 / (3.0 * 21.0)); // weights 4, 1, 2
        assert_eq!(metrics.normaliser("sampling/effective_sample_size"), Some(Normaliser::EffectiveShare));
    }
    // All masked out: no sample has an effect.
    data.sampler[1] = data.sampler[0].clone();
    let off_policy = weight(WeightLevel::Token, OutOfBounds::Mask, 0.0, 1.5, WeightNormalisation::None);
    is(data.run(&GrpoConfig { off_policy, ..GrpoConfig::default() }).metrics.get("sampling/effective_sample_size").unwrap(), 0.0);
}

#[test]
fn additions_are_metrics_before_their_coefficients() {
    let mut data = Data::rows(&[&[-0.5, -1.5]], &[0.0]);
    data.chosen = vec![vec![true, true]];
    data.old = Some(vec![vec![-1.0, -1.5]]);
    let additions = vec![Addition::CrossEntropy { coefficient: 7.0 }, Addition::SquaredDrift { coefficient: 7.0 }];
    let metrics = data.run(&GrpoConfig { additions, ..GrpoConfig::default() }).metrics;
    is(metrics.get("cross_entropy").unwrap(), 1.0);
    is(metrics.get("squared_drift").unwrap(), 0.125);
}

/// The two conventions of empty rows.
#[test]
fn empty_rows_count_or_do_not_as_the_setting_says() {
    let mut data = Data::rows(&[&[-1.0], &[-1.0]], &[3.0, 1.0]);
    data.mask[1] = vec![false];
    let config = |counted_rows| GrpoConfig { reduction: Reduction::SequenceMean, counted_rows, ..with(Objective::Reinforce) };
    is(data.run(&config(CountedRows::All)).loss, 1.5);
    is(data.run(&config(CountedRows::NonEmpty)).loss, 3.0);
}

#[test]
fn clip_counts_need_an_advantage_that_loses_its_gradient() {
    let mut data = Data::of_ratios(&[1.5, 0.5, 1.0, 1.5], 1.0);
    data.advantages = vec![vec![1.0, -1.0, 1.0, -1.0]];
    let metrics = data.run(&GrpoConfig::default()).metrics;
    let shares = ["low", "high", "region"].map(|side| metrics.get(&format!("clip_ratio/{side}_mean")).unwrap());
    assert_eq!(shares, [0.25, 0.25, 0.5]);
    data.advantages = vec![vec![0.0; 4]];
    assert_eq!(data.run(&GrpoConfig::default()).metrics.get("clip_ratio/region_mean"), Some(0.0), "nothing to lose at Â = 0");
}
