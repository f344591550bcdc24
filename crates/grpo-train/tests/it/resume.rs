//! A run that is interrupted and resumed is, bit by bit, the run that never was.

use crate::files::files;
use crate::support::{Diary, config, policy, run};
use grpo_core::{
    AdaptiveEntropy, AdaptiveKl, ClipRange, Coefficient, Estimator, GroupFilter, KlEstimator, KlGradient, KlPenalty, KlPlace, Objective,
};
use grpo_train::observe::RunEnd;
use grpo_train::{EvaluationConfig, ReferenceConfig, ReplayConfig, Resume, SelectionConfig, TrainConfig, Truncated};

/// Interrupts after every step in turn, resumes with a new policy (of other parameter ids), and compares everything.
fn resumes_everywhere(change: impl Fn(&mut TrainConfig)) {
    let whole_folder = tempfile::tempdir().unwrap();
    let mut settings = config(Some(whole_folder.path()));
    change(&mut settings);
    let start = policy();
    let whole = Diary::default();
    let outcome = run(settings.clone(), Resume::Fresh, &whole, start.clone(), None);
    assert_eq!(outcome.end.unwrap(), RunEnd::Finished);
    let steps = settings.steps;
    assert_eq!(whole.pages().steps.len() as u64, steps);
    assert_ne!(outcome.policy.values(), start.values(), "nothing was learnt: the test would show nothing");

    for stop in 1..steps {
        let folder = tempfile::tempdir().unwrap();
        let settings = TrainConfig { checkpoints: config(Some(folder.path())).checkpoints, ..settings.clone() };
        let diary = Diary::default();
        let first = run(settings.clone(), Resume::Fresh, &diary, start.clone(), Some(stop));
        assert_eq!(first.end.unwrap(), RunEnd::Interrupted);
        let second = run(settings, Resume::Newest, &diary, policy(), None);
        assert_eq!(second.end.unwrap(), RunEnd::Finished, "stopped after {stop}");
        assert_eq!(diary.pages().starts, [0, stop]);
        assert_eq!(diary.told(), whole.told(), "stopped after {stop}");
        assert_eq!(second.policy.values(), outcome.policy.values(), "stopped after {stop}");
        for step in stop..=steps {
            let (mut resumed, mut unbroken) = (files(folder.path(), step), files(whole_folder.path(), step));
            // The state says where checkpoints go; all else must be the same bytes, and with it the manifest's other lines.
            for name in ["state.cbor", "manifest.json", "complete"] {
                resumed.remove(name);
                unbroken.remove(name);
            }
            assert!(resumed == unbroken, "stopped after {stop}, step {step}: a file of the checkpoint differs");
        }
    }
}

#[test]
fn plain_steps() {
    resumes_everywhere(|_| {});
}

#[test]
fn c08_over_the_borders_of_epochs() {
    // Three epochs of five prompts, in rollouts of three: 15 = 5 rollouts, borders within the second and fourth.
    resumes_everywhere(|c| (c.steps, c.prompts) = (5, 3));
}

#[test]
fn c11_inside_inner_updates_and_mini_batches() {
    resumes_everywhere(|c| {
        c.grpo.updates_per_rollout = 2;
        c.mini_batches = 2;
        c.steps = 10;
    });
}

#[test]
fn with_a_moving_reference_and_an_adaptive_kl_inside_inner_updates() {
    resumes_everywhere(|c| {
        c.grpo.kl = Some(KlPenalty::new(0.1));
        c.grpo.updates_per_rollout = 3;
        c.kl_coefficient = Some(Coefficient::Adaptive(AdaptiveKl { initial: 0.1, target: 0.001, horizon: 100.0 }));
        c.adaptive_entropy = Some(AdaptiveEntropy { initial: 0.01, target: 3.0, ..AdaptiveEntropy::default() });
        c.reference = ReferenceConfig { every: Some(5), share: Some(0.5) };
    });
}

#[test]
fn with_an_exact_kl() {
    resumes_everywhere(|c| {
        c.grpo.kl = Some(KlPenalty::exact(0.1));
        c.reference = ReferenceConfig { every: Some(4), share: None };
        c.steps = 8;
    });
}

#[test]
fn with_a_kl_in_rewards_and_in_advantages() {
    for place in [KlPlace::Reward, KlPlace::Advantage] {
        resumes_everywhere(|c| {
            c.grpo.kl = Some(KlPenalty { place, estimator: KlEstimator::K1, gradient: KlGradient::RatioWeighted, ..KlPenalty::new(0.05) });
            c.grpo.updates_per_rollout = 2;
            c.steps = 6;
            if place == KlPlace::Reward {
                c.grpo.estimator = Estimator::ReinforcePlusPlusBaseline(grpo_core::ReinforcePlusPlusBaseline::default());
            }
        });
    }
}

#[test]
fn with_dynamic_sampling_after_batches_that_were_filtered_out() {
    resumes_everywhere(|c| {
        // Only groups with a spread of two places pass, so that some rollouts come to nothing.
        let filter = GroupFilter { spread_above: Some(0.6), ..GroupFilter::default() };
        c.selection = Some(SelectionConfig { filter, max_rounds: 1 });
        c.prompts = 1;
        c.truncated = Truncated::Mask;
        // Long enough for some to end by themselves.
        c.sampling.max_tokens = 12;
    });
}

#[test]
fn some_of_these_batches_are_filtered_out_indeed() {
    let diary = Diary::default();
    let mut settings = config(None);
    let filter = GroupFilter { spread_above: Some(0.6), ..GroupFilter::default() };
    (settings.selection, settings.prompts) = (Some(SelectionConfig { filter, max_rounds: 1 }), 1);
    run(settings, Resume::Fresh, &diary, policy(), None).end.unwrap();
    let nothing = (0..12).filter(|&s| diary.metric(s, "groups/kept") == Some(0.0)).count();
    assert!((1..12).contains(&nothing), "{nothing} of 12 steps had no group");
    assert!((0..12).all(|s| (diary.metric(s, "groups/kept") == Some(0.0)) == (diary.metric(s, "skipped") == Some(1.0))));
}

#[test]
fn with_refilled_groups_and_replay() {
    resumes_everywhere(|c| {
        c.selection = Some(SelectionConfig::default());
        c.replay = Some(ReplayConfig { capacity: 6, groups: 2, max_age: Some(5) });
        c.mini_batches = 2;
        c.grpo.objective = Objective::clipped(ClipRange { low: 0.2, high: 0.28 });
    });
}

#[test]
fn with_evaluations_on_the_way() {
    resumes_everywhere(|c| {
        c.evaluation = EvaluationConfig { every: Some(2), samples: 4, k: vec![1, 2], ..EvaluationConfig::default() };
        c.steps = 6;
    });
}

#[test]
fn c18_adam_in_two_halves_is_adam_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let settings = TrainConfig { steps: 10, ..config(Some(folder.path())) };
    let whole = run(TrainConfig { checkpoints: None, ..settings.clone() }, Resume::Fresh, &Diary::default(), policy(), None);
    let half = TrainConfig { steps: 5, ..settings.clone() };
    assert_eq!(run(half, Resume::Fresh, &Diary::default(), policy(), None).end.unwrap(), RunEnd::Finished);
    // A run may go on for longer than it was meant to.
    let resumed = run(settings, Resume::Newest, &Diary::default(), policy(), None);
    assert_eq!(resumed.policy.values(), whole.policy.values());
}
