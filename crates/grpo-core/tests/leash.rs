//! The leash to a reference, on policies that are trained: who is asked, what it is before the first step, where it pulls.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use burn::module::Module;
use burn::optim::SgdConfig;
use burn::tensor::DType;
use common::configs;
use common::models::{batch_of, cut, device, group, groups, policy, short};
use grpo_core::{
    Advantages, Batch, BoxError, GrpoConfig, KlEstimator, KlGradient, KlPenalty, KlPlace, Policy, ScoreRequest, Scores, StepStats,
    TokenBatch, gradients, score_old_and_reference, to_host,
};

struct Untouchable;

impl Policy for Untouchable {
    fn score(&self, _: &TokenBatch, _: &ScoreRequest<'_>) -> Result<Scores, BoxError> {
        panic!("asked")
    }
}

#[test]
fn a_coefficient_of_zero_asks_no_reference_and_a_positive_one_demands_it() {
    let policy = policy(10, DType::F32);
    let mut batches = short(2);
    let at = |coefficient, estimator| {
        let kl = KlPenalty { coefficient, estimator, gradient: KlGradient::Plain, place: KlPlace::Loss, value_bound: None };
        GrpoConfig { kl: Some(kl), ..GrpoConfig::default() }
    };
    for estimator in [KlEstimator::K3, KlEstimator::Exact] {
        let off = at(0.0, estimator);
        assert!(!off.needs_reference() && at(0.1, estimator).needs_reference());
        if off.needs_reference() {
            batches[0].score_reference(&Untouchable, estimator).unwrap();
        }
        let update = gradients(&policy, &batches, &StepStats::of(&batches), &off).unwrap();
        assert_eq!(update.metrics.get("kl"), None);
        let error = gradients(&policy, &batches, &StepStats::of(&batches), &at(0.1, estimator)).unwrap_err().to_string();
        assert!(error.contains("reference") && error.contains("score_reference"), "{error}");
    }
}

/// It acts before the loss is there; the loss measures it, for an adaptive coefficient, and refuses a batch for which nobody asked the reference.
#[test]
fn a_kl_outside_the_loss_is_measured_and_never_forgotten_silently() {
    let policy = policy(10, DType::F64);
    let reference = common::models::policy(12, DType::F64).valid();
    for place in [KlPlace::Reward, KlPlace::Advantage] {
        let kl = KlPenalty { coefficient: 0.1, estimator: KlEstimator::K1, gradient: KlGradient::Plain, place, value_bound: None };
        let config = GrpoConfig { kl: Some(kl), ..GrpoConfig::default() };
        let mut batches = short(2);
        let error = gradients(&policy, &batches, &StepStats::of(&batches), &config).unwrap_err().to_string();
        assert!(error.contains("reference log-probs") && error.contains("kl_in_rewards") && error.contains("0.1"), "{error}");
        let error = score_old_and_reference(&mut batches, &policy.valid(), None, &config).unwrap_err().to_string();
        assert!(error.contains("reference") && error.contains("0.1"), "{error}");
        score_old_and_reference(&mut batches, &policy.valid(), Some(&reference), &config).unwrap();
        let k1 = batches[0].log_ratios_to_reference().unwrap().concat();
        let update = gradients(&policy, &batches, &StepStats::of(&batches), &config).unwrap();
        common::close(update.metrics.get("kl").unwrap(), k1.iter().sum::<f64>() / k1.len() as f64, 1e-12, "kl");
        let without = gradients(&policy, &batches, &StepStats::of(&batches), &GrpoConfig::default()).unwrap();
        assert_eq!(update.metrics.get("loss"), without.metrics.get("loss"), "the loss itself has no such term");
    }
}

#[test]
fn what_stays_fixed_is_scored_as_far_as_it_is_asked_for() {
    let policy = policy(10, DType::F32);
    let scored = |config: &GrpoConfig, reference| {
        let mut batches = short(2);
        score_old_and_reference(&mut batches, &policy.valid(), reference, config).unwrap();
        (batches[0].old().is_some(), batches[0].reference().is_some())
    };
    let valid = policy.valid();
    assert_eq!(scored(&GrpoConfig::default(), None), (false, false));
    assert_eq!(scored(&GrpoConfig::default(), Some(&valid)), (false, false), "β = 0: the reference is not asked");
    assert_eq!(scored(&GrpoConfig { updates_per_rollout: 4, ..GrpoConfig::default() }, None), (true, false));
    for kl in [KlPenalty::new(0.1), KlPenalty::exact(0.1)] {
        assert_eq!(scored(&GrpoConfig { kl: Some(kl), ..GrpoConfig::default() }, Some(&valid)), (false, true));
    }
    let mut stale = [Batch::new(&groups(), &common::models::advantages(), 3, &device()).unwrap()];
    score_old_and_reference(&mut stale, &valid, None, &GrpoConfig::default()).unwrap();
    assert!(stale[0].old().is_some());
}

/// Trap 34, fault B29: one scoring function for all, so that nothing is what it is exactly.
#[test]
fn kl_before_the_first_step_is_exactly_zero_in_every_form() {
    for dtype in [DType::F32, DType::F64] {
        let policy = policy(11, dtype);
        let reference = policy.valid();
        for (name, config) in configs::kl_forms() {
            let mut batches = cut();
            for batch in &mut batches {
                batch.score_reference(&reference, config.kl.unwrap().estimator).unwrap();
            }
            let update = gradients(&policy, &batches, &StepStats::of(&batches), &config).unwrap();
            assert_eq!((update.metrics.get("kl"), update.metrics.get("kl/max")), (Some(0.0), Some(0.0)), "{name}, {dtype:?}");
        }
    }
}

/// Faults A03, A27, A28: with advantages of 0 the policy term has no gradient, and the KL term still pulls, towards the reference.
#[test]
fn without_advantages_every_kl_form_moves_the_policy_towards_the_reference() {
    let reference = policy(12, DType::F64).valid();
    let all: Vec<Vec<u32>> = (0..6).map(|token| vec![token]).collect();
    let rows: Vec<&[u32]> = all.iter().map(Vec::as_slice).collect();
    let group = [group(1, &[0], (), &rows)];
    for (name, config) in configs::kl_forms().into_iter().filter(|(name, _)| name.ends_with("None") && !name.starts_with("Abs")) {
        // K1 and the forms weighted by a ratio rank tokens by a signal of mean 0 under the policy: draw by its own probabilities.
        let (mut policy, mut optimizer) = (policy(13, DType::F64), SgdConfig::new().init());
        let mut exact = vec![];
        for _ in 0..20 {
            let probs = policy.valid().score(batch_of(&group).tokens(), &ScoreRequest::at(1.0)).unwrap().log_probs.exp();
            let probs = to_host(probs, "probabilities").unwrap();
            // A thousand completions in proportion to their probability.
            let drawn: Vec<&[u32]> = probs.iter().zip(&rows).flat_map(|(p, row)| vec![*row; (p * 1000.0).round() as usize]).collect();
            let n = drawn.len();
            let drawn = [common::models::group(1, &[0], (), &drawn)];
            let mut batch = Batch::new(&drawn, &Advantages::PerCompletion(vec![0.0; n]), 0, &device()).unwrap();
            batch.score_reference(&reference, config.kl.unwrap().estimator).unwrap();
            let step = StepStats::of([&batch]);
            let update = gradients(&policy, &[batch], &step, &config).unwrap();
            let mut judge = batch_of(&group);
            judge.score_reference(&reference, KlEstimator::Exact).unwrap();
            let Some(grpo_core::Reference::Rows(rows)) = judge.reference() else { unreachable!() };
            let scores = policy.valid().score(judge.tokens(), &ScoreRequest::at(1.0).with_kl_to(rows)).unwrap();
            exact.push(to_host(scores.kl.unwrap(), "kl").unwrap()[0]);
            policy = update.apply(&mut optimizer, 0.3, policy);
        }
        assert!(exact.windows(2).all(|w| w[1] < w[0]) && exact[19] < 0.7 * exact[0], "{name}: {exact:?}");
    }
}

#[test]
fn without_advantages_and_without_kl_there_is_no_gradient() {
    let (policy, batches) = (policy(14, DType::F64), vec![batch_of(&groups())]);
    let update = gradients(&policy, &batches, &StepStats::of(&batches), &GrpoConfig::default()).unwrap();
    assert_eq!(update.metrics.get("grad_norm"), Some(0.0));
}

/// Traps 37 and 39, on the side of the loss: the reference is the state it was when it was taken, whatever the policy becomes.
#[test]
fn a_reference_is_a_snapshot_and_stays_one() {
    let (mut policy, mut optimizer) = (policy(16, DType::F64), SgdConfig::new().init());
    let reference = policy.valid();
    let config = GrpoConfig { kl: Some(KlPenalty::exact(0.01)), ..GrpoConfig::default() };
    let mut seen = vec![];
    for _ in 0..3 {
        let mut batches = cut();
        batches.iter_mut().for_each(|b| b.score_reference(&reference, KlEstimator::Exact).unwrap());
        let update = gradients(&policy, &batches, &StepStats::of(&batches), &config).unwrap();
        seen.push(update.metrics.get("kl").unwrap());
        policy = update.apply(&mut optimizer, 0.3, policy);
    }
    assert!(seen[0] == 0.0 && 0.0 < seen[1] && seen[1] < seen[2], "{seen:?}");
}
