//! The cases of `testdata/reward-cases`, through the binary that checks them.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)] // Helpers of tests, too, say what they expect.

use std::process::Command;

fn check(arguments: &[&str]) -> (String, bool) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/reward-cases");
    let output = Command::new(env!("CARGO_BIN_EXE_check-rewards")).arg(folder).args(arguments).output().expect("the binary runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

#[test]
fn every_case_on_which_sound_checkers_agree_passes() {
    let (table, success) = check(&["--tier", "must"]);
    assert!(success && table.ends_with("383 passed, 0 failed, 0 skipped\n"), "{table}");
}

/// Three differ: two pay for a chain of equations with a false link, one takes a gold text for readable that is not mathematics.
#[test]
fn of_the_cases_on_which_good_checkers_agree_three_differ() {
    let (table, _) = check(&["--tier", "should"]);
    assert!(table.ends_with("335 passed, 3 failed, 0 skipped\n"), "{table}");
    for id in ["equation-relation-987b2305", "equation-relation-c4816bb5", "robustness-800acb58"] {
        assert!(table.contains(id), "{table}");
    }
}

#[test]
fn no_wrong_answer_is_paid_in_any_tier() {
    let (table, _) = check(&[]);
    assert!(table.contains("answered equal where not_equal was expected: 0 "), "{table}");
}

#[test]
fn eight_threads_at_once_give_the_same_table() {
    let (one, _) = check(&["--tier", "must"]);
    let (eight, _) = check(&["--tier", "must", "--threads", "8"]);
    let cut = |table: &str| table.lines().filter(|l| !l.starts_with("slowest")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(cut(&one), cut(&eight));
}

#[test]
fn bad_arguments_and_broken_lines_are_named() {
    let run = |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_check-rewards")).args(arguments).output().expect("the binary runs");
    let (none, tier, folder) = (run(&[]), run(&["x", "--tier", "maybe"]), run(&["/nowhere"]));
    for output in [&none, &tier, &folder] {
        assert_eq!(output.status.code(), Some(2));
    }
    assert!(String::from_utf8_lossy(&tier.stderr).contains("tier = `maybe`, must be must, should or policy"));
    let broken = std::env::temp_dir().join(format!("broken-cases-{}", std::process::id()));
    std::fs::create_dir_all(&broken).expect("a folder");
    std::fs::write(broken.join("a.jsonl"), "{\"id\": \"x\", \"family\": \"f\", \"kind\": \"verdict\", \"tier\": \"must\"}\n{\"id\": \n")
        .expect("a file");
    let output = run(&[broken.to_str().expect("a path")]);
    std::fs::remove_dir_all(&broken).expect("the folder goes");
    assert!(String::from_utf8_lossy(&output.stderr).contains("a.jsonl, line 2: "));
}
