//! What goes wrong while a run goes on, each as documented. Rows C of the collected faults of other systems carry their number; those about
//! files alone (C01, C02, C04, C06, C13, C16) stand beside the checkpoints, C08, C11 and C18 in `resume`.
//!
//! C24 (a second copy of all logits) is the policy's business, and a test of grpo-kernels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use burn::Tensor;
use burn::module::Module;
use burn::tensor::Device;
use grpo_core::{BoxError, Completion, Policy, Reward, RewardFn, Rewards, Sampler, ScoreRequest, Scores, TokenBatch, from_fn};
use grpo_train::observe::{Observer, RunEnd, StepRecord};
use grpo_train::{CheckpointConfig, EarlyStop, Error, EvaluationConfig, Outcome, Resume, StopFlag, TrainConfig, Trainer, list_checkpoints};

use crate::files::files;
use crate::support::{Bigram, Count, Diary, HostSampler, Places, config, held_out, policy, prompts, rewards, run, trainer};

/// A reward that is broken as long as a switch says so, from its n-th group on.
struct Broken {
    calls: AtomicU64,
    from: u64,
    broken: Arc<AtomicBool>,
}

impl RewardFn<Count> for Broken {
    fn name(&self) -> &str {
        "places"
    }
    fn score(&self, task: &Count, completion: &Completion) -> Result<Reward, BoxError> {
        Places.score(task, completion)
    }
    fn score_group(&self, task: &Count, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        if self.calls.fetch_add(1, Ordering::SeqCst) >= self.from && self.broken.load(Ordering::SeqCst) {
            return Err("the grader is on fire".into());
        }
        group.iter().map(|completion| self.score(task, completion)).collect()
    }
}

#[test]
fn a_reward_that_fails_at_step_7_ends_the_run_and_costs_nothing() {
    let (whole_folder, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rare = |folder: &std::path::Path| TrainConfig {
        checkpoints: Some(CheckpointConfig { every: 100, ..CheckpointConfig::new(folder) }),
        ..config(Some(folder))
    };
    let (whole, start) = (Diary::default(), policy());
    let unbroken = trainer(rare(whole_folder.path())).with_observer(whole.clone()).run(start.clone());
    // Three groups a step.
    let broken = Arc::new(AtomicBool::new(true));
    let reward = Broken { calls: AtomicU64::new(0), from: 7 * 3, broken: broken.clone() };
    let diary = Diary::default();
    let mut failing =
        Trainer::new(rare(folder.path()), HostSampler, Rewards::new().with(1.0, reward), prompts()).with_observer(diary.clone());
    let Outcome { end, policy: after_seven } = failing.run(start);
    let error = end.unwrap_err().to_string();
    assert!(error.contains("reward `places`") && error.contains("on fire"), "{error}");
    assert_eq!(list_checkpoints(folder.path()).unwrap()[0].0, 7, "what was learnt until then is saved");
    assert_ne!(after_seven.values(), unbroken.policy.values());
    // The same trainer, the grader repaired.
    broken.store(false, Ordering::SeqCst);
    let mut repaired = failing.with_resume(Resume::Newest);
    let resumed = repaired.run(policy());
    assert_eq!(resumed.end.unwrap(), RunEnd::Finished);
    assert_eq!(resumed.policy.values(), unbroken.policy.values());
    assert_eq!(diary.told(), whole.told());
}

/// A judge of single answers, as evaluations ask for, that is away from a step on as long as a switch says so.
struct Away(Arc<AtomicBool>);

impl RewardFn<Count> for Away {
    fn name(&self) -> &str {
        "places"
    }
    fn score(&self, task: &Count, completion: &Completion) -> Result<Reward, BoxError> {
        Places.score(task, completion)
    }
    fn score_group(&self, task: &Count, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        if group.len() == 1 && self.0.load(Ordering::SeqCst) {
            return Err("the judge is away".into());
        }
        group.iter().map(|completion| self.score(task, completion)).collect()
    }
}

impl Observer for Away {
    fn name(&self) -> &str {
        "away"
    }
    fn on_step(&mut self, record: &StepRecord) -> grpo_train::Result<()> {
        self.0.fetch_or(record.step == 3, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn an_evaluation_that_fails_costs_no_step_and_is_made_up_for() {
    let (whole_folder, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rare = |folder: &std::path::Path| TrainConfig {
        evaluation: EvaluationConfig { every: Some(2), ..EvaluationConfig::default() },
        early_stop: Some(EarlyStop { metric: "eval/greedy/reward".to_owned(), at_least: Some(0.0), at_most: None, patience: 3 }),
        checkpoints: Some(CheckpointConfig { every: 100, ..CheckpointConfig::new(folder) }),
        ..config(Some(folder))
    };
    let (whole, diary) = (Diary::default(), Diary::default());
    let unbroken = run(rare(whole_folder.path()), Resume::Fresh, &whole, policy(), None);
    assert_eq!((unbroken.end.unwrap(), whole.pages().steps.len()), (RunEnd::EarlyStop, 6));

    let away = Arc::new(AtomicBool::new(false));
    let judged = |resume| {
        Trainer::new(rare(folder.path()), HostSampler, Rewards::new().with(1.0, Away(away.clone())), prompts())
            .with_held_out(held_out())
            .with_observer(diary.clone())
            .with_resume(resume)
    };
    let error = judged(Resume::Fresh).with_observer(Away(away.clone())).run(policy()).end.unwrap_err().to_string();
    assert!(error.contains("the judge is away"), "{error}");
    assert_eq!(list_checkpoints(folder.path()).unwrap()[0].0, 4, "what was learnt until then is saved");
    let error = judged(Resume::Newest).run(policy()).end.unwrap_err().to_string();
    assert!(error.contains("the judge is away"), "still owed: {error}");
    away.store(false, Ordering::SeqCst);
    let resumed = judged(Resume::Newest).run(policy());
    assert_eq!(resumed.end.unwrap(), RunEnd::EarlyStop);
    assert_eq!(diary.told(), whole.told());
    assert_eq!(resumed.policy.values(), unbroken.policy.values());
}

#[test]
fn the_policy_comes_back_from_a_run_that_fails_without_checkpoints() {
    let always = from_fn("broken", |_: &Count, _: &Completion| Err("no".into()));
    let start = policy();
    let outcome = Trainer::new(config(None), HostSampler, Rewards::new().with(1.0, always), prompts()).run(start.clone());
    assert!(outcome.end.is_err());
    assert_eq!(outcome.policy.values(), start.values());
}

/// A policy whose gradient is NaN on some calls: its log-probabilities are a NaN times a number that has a gradient.
#[derive(Module, Debug)]
struct Poisoned {
    inner: Bigram,
    #[module(skip)]
    calls: Arc<AtomicU64>,
    #[module(skip)]
    from: u64,
    #[module(skip)]
    to: u64,
}

impl Policy for Poisoned {
    fn score(&self, batch: &TokenBatch, ask: &ScoreRequest<'_>) -> Result<Scores, BoxError> {
        let mut scores = self.inner.score(batch, ask)?;
        // Only the tracked call of a step: the one that is differentiated.
        if scores.log_probs.is_tracked() && (self.from..self.to).contains(&self.calls.fetch_add(1, Ordering::SeqCst)) {
            // 0 · √0 in value, 0 · ∞ in the gradient.
            let zero: Tensor<2> = (scores.log_probs.clone() - scores.log_probs.clone().detach()).abs().sqrt() * 0.0;
            scores.log_probs = scores.log_probs + zero;
        }
        Ok(scores)
    }
}

struct Through;

impl Sampler<Poisoned> for Through {
    fn sample(
        &mut self,
        policy: &Poisoned,
        requests: &[grpo_core::SampleRequest<'_>],
        params: &grpo_core::SamplingParams,
    ) -> Result<Vec<Vec<grpo_core::Sample>>, BoxError> {
        HostSampler.sample(&policy.inner, requests, params)
    }
}

fn poisoned(from: u64, to: u64) -> Poisoned {
    Poisoned { inner: policy(), calls: Arc::default(), from, to }
}

fn poison_config(folder: &std::path::Path) -> TrainConfig {
    TrainConfig { micro_tokens: 10_000, max_non_finite: 2, ..config(Some(folder)) }
}

#[test]
fn c22_a_gradient_that_is_nan_at_step_5_skips_the_step_and_changes_neither_weights_nor_moments() {
    let folder = tempfile::tempdir().unwrap();
    let diary = Diary::default();
    let mut trainer = Trainer::new(poison_config(folder.path()), Through, rewards(), prompts()).with_observer(diary.clone());
    assert_eq!(trainer.run(poisoned(5, 6)).end.unwrap(), RunEnd::Finished);
    assert_eq!(diary.metric(5, "skipped"), Some(1.0));
    // A gradient of 0 is skipped, too, and has a norm.
    assert_eq!((0..12).filter(|&s| diary.metric(s, "grad_norm").is_none()).collect::<Vec<_>>(), [5]);
    let (before, after) = (files(folder.path(), 5), files(folder.path(), 6));
    assert_eq!(before["policy.bpk"], after["policy.bpk"]);
    assert_eq!(before["optimizer.bpk"], after["optimizer.bpk"]);
    assert_ne!(before["policy.bpk"], files(folder.path(), 7)["policy.bpk"], "the next step learns again");
}

#[test]
fn c22_too_many_gradients_in_a_row_that_are_nan_end_the_run_and_name_the_parameter() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = Trainer::new(poison_config(folder.path()), Through, rewards(), prompts());
    let error = trainer.run(poisoned(5, 99)).end.unwrap_err().to_string();
    assert_eq!(error, "gradient: of `inner.table` is not finite, in 3 steps in a row, the last of them step 7");
}

/// An optimiser that ruins everything it touches, as a NaN that nobody stopped would.
#[derive(Clone)]
struct Ruin;

impl burn::optim::Optimizer for Ruin {
    type State<const D: usize> = ();
    fn step<const D: usize>(&self, _lr: f64, tensor: Tensor<D>, _grad: Tensor<D>, _state: Option<()>) -> (Tensor<D>, Option<()>) {
        (tensor * f32::NAN, None)
    }
    fn to_device<const D: usize>(_state: (), _device: &Device) {}
}

#[test]
fn c23_a_policy_that_is_not_finite_is_never_saved() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = trainer(config(Some(folder.path()))).with_optimizer(grpo_train::Optimizer::new(Ruin));
    let error = trainer.run(policy()).end.unwrap_err().to_string();
    assert_eq!(error, "checkpoint: `table` is not finite: such a policy is not saved");
    assert!(list_checkpoints(folder.path()).unwrap().is_empty());
}

#[test]
fn c23_a_stale_log_probability_far_from_the_new_one_gives_a_finite_step() {
    // Old log-probability −200 against new −1: a replayed group of a policy that moved on. The loss is the core's, and bounded there.
    use grpo_core::{Batch, GroupId, GrpoConfig, OldLogProbs, Row, StepStats, gradients};
    let row = |token: &'static [u32], advantage| Row {
        prompt: 0,
        group: GroupId(0),
        tokens: token,
        mask: vec![true],
        advantages: vec![advantage],
    };
    let device = Device::flex();
    let mut batch = Batch::from_rows(&[&[0]], &[row(&[1], 1.0), row(&[2], -1.0)], 1.0, &device).unwrap();
    batch.set_old(OldLogProbs::new(Tensor::from_data([[-200.0f32], [-200.0]], &device)).unwrap()).unwrap();
    let batches = [batch];
    let update = gradients(&policy(), &batches, &StepStats::of(&batches), &GrpoConfig::default()).unwrap();
    // Both ratios are beyond the bound: a finite loss, and a gradient of exactly 0.
    assert!(update.metrics.get("loss").unwrap().is_finite());
    assert_eq!((update.non_finite.clone(), update.metrics.get("grad_norm")), (None, Some(0.0)));
}

#[test]
fn c05_a_run_that_goes_on_writes_into_the_folder_it_read_from_and_nothing_there_changes() {
    let folder = tempfile::tempdir().unwrap();
    let settings = config(Some(folder.path()));
    run(TrainConfig { steps: 4, ..settings.clone() }, Resume::Fresh, &Diary::default(), policy(), None).end.unwrap();
    let before: Vec<_> = (1..=4).map(|step| files(folder.path(), step)).collect();
    run(TrainConfig { steps: 8, ..settings }, Resume::Newest, &Diary::default(), policy(), None).end.unwrap();
    assert_eq!((1..=4).map(|step| files(folder.path(), step)).collect::<Vec<_>>(), before);
}

#[test]
fn c14_a_run_past_its_end_is_resumed_into_nothing_and_that_is_success() {
    let folder = tempfile::tempdir().unwrap();
    let settings = config(Some(folder.path()));
    let first = run(settings.clone(), Resume::Fresh, &Diary::default(), policy(), None);
    for steps in [12, 10] {
        let diary = Diary::default();
        let again = run(TrainConfig { steps, ..settings.clone() }, Resume::Newest, &diary, policy(), None);
        assert_eq!(again.end.unwrap(), RunEnd::AlreadyFinished);
        assert_eq!(again.policy.values(), first.policy.values(), "and the policy is the trained one");
        assert_eq!(diary.pages(), Diary::default().pages(), "observers hear nothing of it");
    }
}

#[test]
fn c15_resuming_without_a_checkpoint_or_without_checkpoints_at_all_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = run(config(Some(folder.path())), Resume::Newest, &Diary::default(), policy(), None).end.unwrap_err().to_string();
    assert!(error.contains("has no checkpoint to resume from"), "{error}");
    for resume in [Resume::Newest, Resume::NewestIfAny] {
        let error = run(config(None), resume, &Diary::default(), policy(), None).end.unwrap_err().to_string();
        assert!(error.contains("set `checkpoints.folder`"), "{error}");
    }
}

#[test]
fn c17_an_empty_folder_starts_afresh_if_allowed_and_a_damaged_one_never_does() {
    let folder = tempfile::tempdir().unwrap();
    let settings = TrainConfig { steps: 2, ..config(Some(folder.path())) };
    let diary = Diary::default();
    assert_eq!(run(settings.clone(), Resume::NewestIfAny, &diary, policy(), None).end.unwrap(), RunEnd::Finished);
    assert_eq!(diary.pages().starts, [0]);
    for (_, path) in list_checkpoints(folder.path()).unwrap() {
        std::fs::write(path.join("policy.bpk"), "damaged").unwrap();
    }
    for resume in [Resume::NewestIfAny, Resume::Newest] {
        let error = run(settings.clone(), resume, &Diary::default(), policy(), None).end.unwrap_err().to_string();
        assert!(error.contains("all checkpoints are damaged") && error.contains("step-2") && error.contains("step-1"), "{error}");
    }
}

#[test]
fn c02_a_damaged_newest_checkpoint_costs_a_step_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let settings = config(Some(folder.path()));
    let (whole, diary) = (Diary::default(), Diary::default());
    let unbroken = run(TrainConfig { checkpoints: None, ..settings.clone() }, Resume::Fresh, &whole, policy(), None);
    run(settings.clone(), Resume::Fresh, &diary, policy(), Some(6)).end.unwrap();
    let path = folder.path().join("step-6/optimizer.bpk");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let resumed = run(settings, Resume::Newest, &diary, policy(), None);
    assert_eq!(resumed.end.unwrap(), RunEnd::Finished);
    assert_eq!(diary.pages().starts, [0, 5]);
    assert_eq!(resumed.policy.values(), unbroken.policy.values());
    assert_eq!(diary.told().steps, whole.told().steps);
}

#[test]
fn looking_at_a_run_takes_no_hold_of_its_folder_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let settings = TrainConfig { steps: 2, ..config(Some(folder.path())) };
    let learnt = run(settings.clone(), Resume::Fresh, &Diary::default(), policy(), None).policy;
    std::fs::remove_file(folder.path().join(".lock")).unwrap();
    let (loaded, step) = trainer(settings.clone()).load(policy()).unwrap();
    assert_eq!((loaded.values(), step), (learnt.values(), 2));
    assert!(!folder.path().join(".lock").exists());
    let nowhere = folder.path().join("nowhere");
    let error = trainer(config(Some(&nowhere))).load(policy()).unwrap_err().to_string();
    assert!(error.contains("nowhere") && error.contains("no checkpoint that is whole") && !nowhere.exists(), "{error}");
}

#[test]
fn a_fresh_run_never_writes_over_an_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let settings = TrainConfig { steps: 2, ..config(Some(folder.path())) };
    run(settings.clone(), Resume::Fresh, &Diary::default(), policy(), None).end.unwrap();
    let error = run(settings, Resume::Fresh, &Diary::default(), policy(), None).end.unwrap_err().to_string();
    assert!(error.contains("has checkpoints of an earlier run"), "{error}");
}

#[test]
fn a_run_goes_on_only_with_the_settings_and_the_frozen_weights_it_was_begun_with() {
    let folder = tempfile::tempdir().unwrap();
    let settings = config(Some(folder.path()));
    run(settings.clone(), Resume::Fresh, &Diary::default(), policy(), Some(3)).end.unwrap();
    let other = TrainConfig { group_size: 5, ..settings.clone() };
    let error = run(other, Resume::Newest, &Diary::default(), policy(), None).end.unwrap_err().to_string();
    assert!(error.contains("`group_size` was 4, and is 5 now"), "{error}");
    let frozen = Bigram::with_bias(&Device::flex().autodiff(), 0.2);
    let error = run(settings.clone(), Resume::Newest, &Diary::default(), frozen, None).end.unwrap_err().to_string();
    assert!(error.contains("not trained are others"), "{error}");
    let twice = Rewards::new().with(2.0, Places);
    let mut heavier = Trainer::new(settings.clone(), HostSampler, twice, prompts()).with_resume(Resume::Newest);
    let error = heavier.run(policy()).end.unwrap_err().to_string();
    assert!(error.contains(r#"`rewards` was [["places",1.0]], and is [["places",2.0]] now"#), "{error}");
    let mut told = trainer(settings.clone()).with_resume(Resume::Newest).with_setting("judge", "strict");
    let error = told.run(policy()).end.unwrap_err().to_string();
    assert!(error.contains(r#"`judge` was nothing, and is "strict" now"#), "{error}");
    let mut clash = trainer(settings.clone()).with_resume(Resume::Newest).with_setting("seed", 3);
    assert_eq!(clash.run(policy()).end.unwrap_err().to_string(), "setting: `seed` is the name of another one");
    let mut sgd = trainer(settings).with_resume(Resume::Newest);
    sgd = sgd.with_optimizer(grpo_train::OptimizerConfig::Sgd.init());
    let error = sgd.run(policy()).end.unwrap_err().to_string();
    assert!(error.contains("of another optimiser"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_told_before_anything_is_trained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let diary = Diary::default();
    let error = run(config(Some(&file.join("checkpoints"))), Resume::Fresh, &diary, policy(), None).end.unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.starts_with(&file)), "{error}");
    assert!(diary.pages().steps.is_empty());
}

/// Takes the folder away, and puts a file in its place.
struct Vandal(std::path::PathBuf);

impl Observer for Vandal {
    fn name(&self) -> &str {
        "vandal"
    }
    fn on_step(&mut self, record: &StepRecord) -> grpo_train::Result<()> {
        if record.step == 4 {
            std::fs::rename(&self.0, self.0.with_extension("away")).unwrap();
            std::fs::write(&self.0, "").unwrap();
        }
        Ok(())
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_the_run_and_the_ones_before_stand() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("run");
    let Outcome { end, policy: trained } = trainer(config(Some(&folder))).with_observer(Vandal(folder.clone())).run(policy());
    assert!(matches!(end.unwrap_err(), Error::Io { .. }));
    assert_ne!(trained.values(), policy().values(), "what was learnt comes back");
    let away = folder.with_extension("away");
    assert_eq!(list_checkpoints(&away).unwrap()[0].0, 4);
    assert_eq!(run(config(Some(&away)), Resume::Newest, &Diary::default(), policy(), None).end.unwrap(), RunEnd::Finished);
}

/// Pulls the stop flag from within a stage.
struct Puller<S>(S, StopFlag, u64);

impl<S: Sampler<Bigram>> Sampler<Bigram> for Puller<S> {
    fn sample(
        &mut self,
        policy: &Bigram,
        requests: &[grpo_core::SampleRequest<'_>],
        params: &grpo_core::SamplingParams,
    ) -> Result<Vec<Vec<grpo_core::Sample>>, BoxError> {
        self.2 = self.2.saturating_sub(1);
        if self.2 == 0 {
            self.1.stop();
        }
        self.0.sample(policy, requests, params)
    }
}

#[test]
fn a_stop_in_the_middle_of_a_rollout_or_of_a_reward_finishes_the_step_saves_and_resumes() {
    let unbroken = trainer(config(None)).run(policy());
    for stage in ["sampler", "reward"] {
        let folder = tempfile::tempdir().unwrap();
        let flag = StopFlag::new();
        let pull = flag.clone();
        let calls = AtomicU64::new(0);
        let judging = from_fn("places", move |task: &Count, completion: &Completion| {
            if stage == "reward" && calls.fetch_add(1, Ordering::SeqCst) == 4 * 12 + 3 {
                pull.stop();
            }
            Places.score(task, completion)
        });
        let sampler = Puller(HostSampler, flag.clone(), if stage == "sampler" { 5 } else { u64::MAX });
        let rewards = Rewards::new().with(1.0, judging);
        let mut first = Trainer::new(config(Some(folder.path())), sampler, rewards, prompts()).with_stop(flag);
        assert_eq!(first.run(policy()).end.unwrap(), RunEnd::Interrupted);
        assert_eq!(list_checkpoints(folder.path()).unwrap()[0].0, 5, "the step in which {stage} was at work is whole");
        let resumed = run(config(Some(folder.path())), Resume::Newest, &Diary::default(), policy(), None);
        assert_eq!(resumed.policy.values(), unbroken.policy.values());
    }
}

#[test]
fn c20_two_streams_of_sampling_go_on_where_they_were() {
    // Two runs side by side in one program, interrupted and resumed crosswise: neither's draws touch the other's.
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let settings = |i: usize| TrainConfig { seed: 10 + i as u64, ..config(Some(folders[i].path())) };
    let whole: Vec<_> = (0..2).map(|i| trainer(TrainConfig { checkpoints: None, ..settings(i) }).run(policy()).policy.values()).collect();
    assert_ne!(whole[0], whole[1]);
    for i in [0, 1] {
        run(settings(i), Resume::Fresh, &Diary::default(), policy(), Some(4 + i as u64)).end.unwrap();
    }
    for i in [1, 0] {
        assert_eq!(run(settings(i), Resume::Newest, &Diary::default(), policy(), None).policy.values(), whole[i]);
    }
}

#[test]
fn an_observer_that_fails_is_named_and_costs_no_step() {
    struct Full;
    impl Observer for Full {
        fn name(&self) -> &str {
            "metrics.csv"
        }
        fn on_step(&mut self, _record: &StepRecord) -> grpo_train::Result<()> {
            Err(Error::invalid("disk", "is full"))
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Some(CheckpointConfig { every: 100, ..CheckpointConfig::new(folder.path()) });
    let error = trainer(TrainConfig { checkpoints, ..config(None) }).with_observer(Full).run(policy()).end.unwrap_err();
    assert_eq!(error.to_string(), "observer `metrics.csv`: disk: is full");
    assert_eq!(list_checkpoints(folder.path()).unwrap()[0].0, 1, "the step was taken");
}

const SMALL_DISK: &str = "GRPO_TRAIN_SMALL_DISK";

/// What happens on a small disk. Alone it does nothing: it is started by the test below.
#[test]
fn on_a_small_disk() {
    let Some(disk) = std::env::var_os(SMALL_DISK).map(std::path::PathBuf::from) else { return };
    let unbroken = trainer(config(None)).run(policy());
    let filler = disk.join("filler");
    std::fs::write(&filler, vec![0; 64 << 10]).unwrap();
    let settings = config(Some(&disk.join("run")));
    let error = run(settings.clone(), Resume::Fresh, &Diary::default(), policy(), None).end.unwrap_err();
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull), "{error}");
    let reached = list_checkpoints(disk.join("run")).unwrap()[0].0;
    assert!((1..12).contains(&reached), "the disk must be full after some checkpoints and before the last: {reached}");
    // Still full: nothing can be written, and nothing is lost.
    assert!(run(settings.clone(), Resume::Newest, &Diary::default(), policy(), None).end.is_err());
    std::fs::remove_file(&filler).unwrap();
    let mut roomy = settings;
    roomy.checkpoints.as_mut().unwrap().keep_last = 1;
    let resumed = run(roomy, Resume::Newest, &Diary::default(), policy(), None);
    assert_eq!(resumed.end.unwrap(), RunEnd::Finished);
    assert_eq!(resumed.policy.values(), unbroken.policy.values());
    println!("full after step {reached}");
}

#[test]
#[ignore = "mounts a small disk in a namespace of its own: Linux, where user namespaces are allowed"]
fn a_disk_that_is_full_ends_the_run_and_one_with_room_again_lets_it_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("mount -t tmpfs -o size=160k none \"${SMALL_DISK}\" && exec \"$0\" --exact faults::on_a_small_disk --nocapture");
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(SMALL_DISK, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("full after step"), "{text}");
}
