//! The trainer is the loop of grpo-core: the same numbers, and nothing else.

use burn::module::Module;
use burn::optim::AdamWConfig;
use burn::tensor::Device;
use grpo_core::{Batch, GrpoConfig, KlPenalty, Metrics, RolloutPlan, gradients, rollout, step_stats};
use grpo_train::observe::RunEnd;
use grpo_train::{
    Best, Better, CheckpointConfig, EarlyStop, EvaluationConfig, Outcome, PromptSource, ReferenceConfig, Resume, TrainConfig,
    list_checkpoints,
};

use crate::support::{Diary, HostSampler, config, held_out, policy, prompts, rewards, run, trainer};

#[test]
fn it_gives_the_numbers_of_the_bare_loop_bit_by_bit() {
    let settings = TrainConfig { grpo: GrpoConfig { kl: Some(KlPenalty::plain_k3(0.1)), ..GrpoConfig::default() }, ..config(None) };
    let start = policy();
    // The loop of the README, by hand.
    let (mut bare, reference, mut sampler) = (start.clone(), start.valid(), HostSampler);
    let mut optimizer = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.0).init();
    let (mut source, rewards, device) = (prompts(), rewards(), Device::flex());
    let mut lines = Vec::new();
    for step in 0..settings.steps {
        let plan = RolloutPlan { group_size: 4, params: settings.sampling.clone(), seed: settings.seed, step, policy_version: step };
        let groups = rollout(&bare.valid(), &mut sampler, source.next(3).unwrap(), &plan).unwrap();
        let table = rewards.score(&groups).unwrap();
        let advantages = settings.grpo.estimator.advantages(&table.totals(), &table.groups).unwrap();
        let mut batches = Batch::split(&groups, &advantages, settings.micro_tokens, step, &device).unwrap();
        batches.iter_mut().for_each(|batch| batch.score_reference(&reference, grpo_core::KlEstimator::K3).unwrap());
        let stats = step_stats(&bare.valid(), &batches, &settings.grpo).unwrap();
        let update = gradients(&bare, &batches, &stats, &settings.grpo).unwrap();
        let mut metrics = update.metrics.clone();
        bare = update.apply(&mut optimizer, settings.learning_rate.at(step), bare);
        metrics.merge(&Metrics::of_rollout(&groups, &table));
        lines.push(metrics);
    }
    let diary = Diary::default();
    let Outcome { policy, end } = trainer(settings).with_observer(diary.clone()).run(start);
    assert_eq!(end.unwrap(), RunEnd::Finished);
    assert_eq!(policy.values(), bare.values());
    for (step, line) in lines.iter().enumerate() {
        for (name, value) in line.iter() {
            assert_eq!(diary.metric(step as u64, name).map(f64::to_bits), Some(value.to_bits()), "step {step}, {name}");
        }
    }
}

#[test]
fn a_run_learns_and_its_evaluation_says_so() {
    let diary = Diary::default();
    let mut settings = config(None);
    settings.steps = 150;
    settings.prompts = 5;
    settings.group_size = 8;
    settings.learning_rate = grpo_core::Schedule::Constant { peak: 0.1, warmup_steps: 0 };
    settings.evaluation = EvaluationConfig { samples: 16, k: vec![1, 4], ..EvaluationConfig::default() };
    run(settings, Resume::Fresh, &diary, policy(), None).end.unwrap();
    let pages = diary.pages();
    assert_eq!(pages.evaluations.keys().copied().collect::<Vec<_>>(), [0, 150], "before and after");
    let value = |step: u64, name: &str| f64::from_bits(pages.evaluations[&step].iter().find(|(n, _)| n == name).unwrap().1);
    assert!(value(150, "eval/sampled/reward") > value(0, "eval/sampled/reward") + 0.3);
    assert!(value(150, "eval/sampled/pass@4") >= value(150, "eval/sampled/pass@1"));
    for name in
        ["eval/greedy/reward", "eval/greedy/right", "eval/sampled/majority", "eval/sampled/rewards/places/mean", "eval/sampled/pass@1"]
    {
        let (low, mean, high) = (value(150, &format!("{name}/low")), value(150, name), value(150, &format!("{name}/high")));
        assert!(low <= mean && mean <= high, "{name}: {low} {mean} {high}");
    }
}

#[test]
fn a_run_that_is_good_enough_for_long_enough_ends_and_stays_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = config(Some(folder.path()));
    settings.early_stop = Some(EarlyStop { metric: "grad_norm".to_owned(), at_least: Some(0.0), at_most: None, patience: 3 });
    let diary = Diary::default();
    assert_eq!(run(settings.clone(), Resume::Fresh, &diary, policy(), None).end.unwrap(), RunEnd::EarlyStop);
    assert_eq!(diary.pages().steps.len(), 3);
    assert_eq!(run(settings.clone(), Resume::Newest, &diary, policy(), None).end.unwrap(), RunEnd::AlreadyFinished);
    // More steps are no reason to go on after it, another rule or none is.
    settings.steps += 1;
    assert_eq!(run(settings.clone(), Resume::Newest, &diary, policy(), None).end.unwrap(), RunEnd::AlreadyFinished);
    settings.early_stop = None;
    assert_eq!(run(settings, Resume::Newest, &diary, policy(), None).end.unwrap(), RunEnd::Finished);
}

#[test]
fn a_rule_may_look_at_held_out_prompts_and_counts_the_steps_that_ask_them() {
    let stop = |metric: &str| Some(EarlyStop { metric: metric.to_owned(), at_least: Some(0.0), at_most: None, patience: 2 });
    let settings = TrainConfig {
        evaluation: EvaluationConfig { every: Some(2), ..EvaluationConfig::default() },
        early_stop: stop("eval/greedy/reward"),
        ..config(None)
    };
    let diary = Diary::default();
    let mut asking = trainer(settings.clone()).with_held_out(held_out()).with_observer(diary.clone());
    assert_eq!(asking.run(policy()).end.unwrap(), RunEnd::EarlyStop);
    assert_eq!(diary.pages().steps.len(), 4, "two evaluations, one every two steps; the one before the first step is of no step");
    let error = trainer(settings.clone()).run(policy()).end.unwrap_err().to_string();
    assert_eq!(error, "early_stop: looks at `eval/greedy/reward`, which needs held-out prompts: there are none");
    let never = TrainConfig { evaluation: EvaluationConfig::default(), ..settings };
    let error = trainer(never).with_held_out(held_out()).run(policy()).end.unwrap_err().to_string();
    assert!(error.starts_with("early_stop metric = eval/greedy/reward, must be a metric of steps, or"), "{error}");
}

#[test]
fn a_run_that_is_given_more_steps_ends_by_a_rule_where_the_unbroken_one_does() {
    let (whole_folder, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings = |folder: &std::path::Path, steps| TrainConfig {
        steps,
        evaluation: EvaluationConfig { every: Some(2), ..EvaluationConfig::default() },
        early_stop: Some(EarlyStop { metric: "eval/greedy/reward".into(), at_least: Some(0.0), at_most: None, patience: 3 }),
        ..config(Some(folder))
    };
    let (whole, extended) = (Diary::default(), Diary::default());
    let unbroken = run(settings(whole_folder.path(), 8), Resume::Fresh, &whole, policy(), None);
    assert_eq!((unbroken.end.unwrap(), whole.pages().steps.len()), (RunEnd::EarlyStop, 6));
    // Its closing evaluation, at step 3, is no part of the series.
    assert_eq!(run(settings(folder.path(), 3), Resume::Fresh, &extended, policy(), None).end.unwrap(), RunEnd::Finished);
    let more = run(settings(folder.path(), 8), Resume::Newest, &extended, policy(), None);
    assert_eq!((more.end.unwrap(), extended.pages().steps.len()), (RunEnd::EarlyStop, 6));
    assert_eq!(more.policy.values(), unbroken.policy.values());
}

#[test]
fn another_metric_of_the_best_checkpoint_is_not_held_against_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let best = |metric: &str, steps| {
        let best = Some(Best { metric: metric.to_owned(), better: Better::default() });
        let checkpoints = CheckpointConfig { every: 1, keep_last: 1, best, ..CheckpointConfig::new(folder.path()) };
        TrainConfig { steps, checkpoints: Some(checkpoints), ..config(None) }
    };
    let kept = || list_checkpoints(folder.path()).unwrap().into_iter().map(|(step, _)| step).collect::<Vec<_>>();
    run(best("completions/mean_length", 3), Resume::Fresh, &Diary::default(), policy(), None).end.unwrap();
    run(best("learning_rate", 5), Resume::Newest, &Diary::default(), policy(), None).end.unwrap();
    assert_eq!(kept(), [5, 4], "the rate falls, and step 4 is the first that was asked for it");
}

#[test]
fn a_run_ends_where_its_prompts_do() {
    let diary = Diary::default();
    let source = prompts().with_epochs(2);
    let mut trainer = grpo_train::Trainer::new(config(None), HostSampler, rewards(), source).with_observer(diary.clone());
    assert_eq!(trainer.run(policy()).end.unwrap(), RunEnd::Finished);
    // Ten prompts in rollouts of three: three whole ones and a rest of one.
    assert_eq!(diary.pages().steps.len(), 4);
}

#[test]
fn a_replaced_reference_is_at_no_distance_and_a_kept_one_is() {
    let kl_after = |reference: ReferenceConfig| {
        let diary = Diary::default();
        let mut settings = config(None);
        settings.grpo.kl = Some(KlPenalty::plain_k3(0.01));
        settings.reference = reference;
        trainer(settings).with_observer(diary.clone()).run(policy()).end.unwrap();
        (4..8).map(|step| diary.metric(step, "kl").unwrap()).collect::<Vec<_>>()
    };
    let kept = kl_after(ReferenceConfig::default());
    let replaced = kl_after(ReferenceConfig { every: Some(4), share: None });
    let averaged = kl_after(ReferenceConfig { every: Some(4), share: Some(0.5) });
    assert!(kept.iter().all(|kl| *kl > 0.0));
    assert_eq!(replaced[0], 0.0, "step 4 comes right after the reference became the policy");
    assert!(averaged[0] > 0.0 && averaged[0] < kept[0], "{averaged:?} {kept:?}");
}

#[test]
fn a_greedy_answer_per_prompt_is_the_baseline_of_remax() {
    let mut settings = config(None);
    settings.grpo.estimator = grpo_core::Estimator::ReMax;
    let start = policy();
    let outcome = trainer(settings).run(start.clone());
    outcome.end.unwrap();
    assert_ne!(outcome.policy.values(), start.values());
}

#[test]
fn a_greedy_answer_without_a_reward_is_an_error_and_no_baseline_of_0() {
    let mut settings = config(None);
    settings.grpo.estimator = grpo_core::Estimator::ReMax;
    let silent = grpo_core::Rewards::new().with(
        1.0,
        grpo_core::from_fn("silent", |_: &crate::support::Count, _: &grpo_core::Completion| Ok(grpo_core::Reward::NotApplicable)),
    );
    let error = grpo_train::Trainer::new(settings, HostSampler, silent, prompts()).run(policy()).end.unwrap_err().to_string();
    assert!(error.contains("re_max") && error.contains("no reward"), "{error}");
}

fn stop(at_least: Option<f64>, at_most: Option<f64>) -> Option<EarlyStop> {
    Some(EarlyStop { metric: "reward".into(), at_least, at_most, patience: 1 })
}

#[test]
fn settings_that_contradict_each_other_are_refused_before_anything_is_sampled() {
    let refused = |change: fn(&mut TrainConfig)| {
        let mut settings = config(None);
        change(&mut settings);
        trainer(settings).run(policy()).end.unwrap_err().to_string()
    };
    assert_eq!(refused(|c| c.mini_batches = 4), "mini_batches = 4, must be at most prompts: a group is never cut");
    assert!(refused(|c| c.sampling.temperature = 0.0).starts_with("sampling temperature = 0, must be above 0"));
    assert!(refused(|c| c.kl_coefficient = Some(grpo_core::Coefficient::Fixed(0.1))).starts_with("kl_coefficient = set, without grpo.kl"));
    assert!(refused(|c| c.grpo.estimator = grpo_core::Estimator::Gae(grpo_core::Gae::default())).contains("values of a critic"));
    assert!(refused(|c| c.evaluation.k = vec![2]).starts_with("evaluation k = 2"));
    assert_eq!(refused(|c| c.evaluation.samples = 1 << 40), "evaluation samples = 1099511627776, must be at most 65536");
    assert!(refused(|c| c.group_size = 1).starts_with("group_size = 1, must be at least 2"));
    assert!(refused(|c| c.reference.every = Some(3)).starts_with("reference every = set, without grpo.kl"));
    assert_eq!(refused(|c| c.early_stop = stop(None, None)), "early_stop = without at_least and at_most, must be at least one of them");
    assert_eq!(refused(|c| c.early_stop = stop(Some(f64::NAN), None)), "early_stop at_least = NaN, must be finite");
    assert_eq!(refused(|c| c.early_stop = stop(Some(2.0), Some(1.0))), "early_stop at_least = 2, must be at most early_stop at_most");
}

#[test]
fn a_configuration_comes_from_toml_or_json_and_unknown_keys_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (toml, json) = (folder.path().join("run.toml"), folder.path().join("run.json"));
    std::fs::write(&toml, "steps = 7\nprompts = 4\n[grpo]\nreduction = \"token_mean\"\n[learning_rate.cosine]\npeak = 1e-3\ntotal_steps = 7\n[checkpoints]\nfolder = \"x\"").unwrap();
    std::fs::write(
        &json,
        r#"{"steps": 7, "prompts": 4, "learning_rate": {"cosine": {"peak": 1e-3, "total_steps": 7}}, "checkpoints": {"folder": "x"}}"#,
    )
    .unwrap();
    assert_eq!(TrainConfig::load(&toml).unwrap(), TrainConfig::load(&json).unwrap());
    std::fs::write(&toml, "[sampling]\ntemprature = 0.5").unwrap();
    let error = TrainConfig::load(&toml).unwrap_err().to_string();
    assert!(error.contains("run.toml") && error.contains("temprature") && error.contains("temperature"), "{error}");
    std::fs::write(&json, r#"{"steps": 0}"#).unwrap();
    assert!(TrainConfig::load(&json).unwrap_err().to_string().contains("steps = 0, must be at least 1"));
}

#[test]
fn a_trainer_without_observers_writes_no_text() {
    // The decoder would be asked for every completion.
    let mut settings = config(None);
    settings.steps = 2;
    let mut quiet = trainer(settings).with_decoder(|_| panic!("nobody watches"));
    assert!(quiet.run(policy()).end.is_ok());
}
