//! A run that is killed at random moments, also while it writes, and resumed each time, is the run that never was.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use grpo_core::KlPenalty;
use grpo_train::{Resume, TrainConfig, list_checkpoints};
use rand::RngExt;

use crate::files::tensors;
use crate::support::{config, policy, trainer};

const FOLDER: &str = "GRPO_TRAIN_CRASH_FOLDER";
const STEPS: u64 = 400;

fn settings(folder: &Path) -> TrainConfig {
    let mut settings = config(Some(folder));
    settings.steps = STEPS;
    settings.grpo.kl = Some(KlPenalty::new(0.05));
    // Three steps a rollout: most checkpoints fall within one.
    settings.grpo.updates_per_rollout = 3;
    if let Some(checkpoints) = &mut settings.checkpoints {
        checkpoints.keep_last = 2;
    }
    settings
}

/// What the killed process does. Alone it does nothing: it is started by the tests below.
#[test]
fn child() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let mut trainer = trainer(settings(Path::new(&folder))).with_resume(Resume::NewestIfAny);
        trainer.run(policy()).end.unwrap();
    }
}

fn spawn(folder: &Path) -> std::process::Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "crash::child", "--test-threads", "1"]).env(FOLDER, folder);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills a run so many times, lets it end, and compares.
fn survives(kills: u32) {
    let (whole, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let start = std::time::Instant::now();
    assert!(spawn(whole.path()).wait().unwrap().success());
    let seconds = start.elapsed().as_secs_f64();
    // A seed of its own each time would hide a failure: the moments are the system's chance anyway.
    let mut rng = grpo_core::stream(u64::from(kills), 0);
    let (mut killed, mut reached) = (0, 0);
    while killed < kills {
        let mut child = spawn(folder.path());
        // Most of a short life is the start of the program, so it is given a little.
        std::thread::sleep(Duration::from_secs_f64(0.02 + rng.random::<f64>() * 2.0 * seconds / f64::from(kills)));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap(); // SIGKILL
        let status = child.wait().unwrap();
        if ended.is_some() {
            assert!(status.success(), "a resumed run failed after {killed} kills");
            break;
        }
        killed += 1;
        // No checkpoint is lost: the newest is never older than it was.
        let newest =
            list_checkpoints(folder.path()).unwrap().iter().find(|(_, path)| path.join("complete").exists()).map_or(0, |(step, _)| *step);
        assert!(newest >= reached, "from {reached} back to {newest} after {killed} kills");
        reached = newest;
    }
    assert!(killed >= kills.min(3), "the run ended after {killed} kills: too few to show anything");
    assert!(spawn(folder.path()).wait().unwrap().success());
    println!("{killed} kills, the last at step {reached}");
    assert!(tensors(folder.path(), STEPS) == tensors(whole.path(), STEPS), "weights or moments differ");
}

#[test]
fn a_run_that_is_killed_a_few_times_ends_as_the_unbroken_one() {
    survives(6);
}

#[test]
#[ignore = "takes a minute: scripts/crash-test.sh runs it"]
fn a_run_that_is_killed_fifty_times_ends_as_the_unbroken_one() {
    survives(50);
}
