//! The golden vectors of this repository, on the default device.
#![cfg(feature = "flex")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests say what they expect by unwrapping, as tests do")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use grpo_conformance::{Column, Error, Precision, Report, Tally, Vectors, open, suite};
use serde_json::Value;

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors")
}

fn check(folder: &Path) -> Report {
    Vectors::read(folder).unwrap().check(&open("flex").unwrap(), &[]).unwrap()
}

/// How many results each file expects, and whether the library answers on tensors or on the host.
const FILES: [(&str, usize, usize); 10] = [
    ("advantages.json", 0, 167),
    ("advantages_multi.json", 0, 12),
    ("advantages_token.json", 0, 24),
    ("bandit.json", 3, 0),
    ("kl_estimators.json", 24, 0),
    ("kl_exact.json", 8, 0),
    ("logits.json", 35, 0),
    ("losses.json", 288, 0),
    ("optim.json", 3, 3),
    ("sampling.json", 0, 5),
];

#[test]
fn every_case_of_every_file_passes_on_reference_host_and_tensors() {
    let report = check(&vectors());
    for (file, tensors, host) in FILES {
        for (column, expected) in
            [(Column::Reference, tensors + host), (Column::Host, host), (Column::F32, tensors), (Column::F64, tensors)]
        {
            let tally = report.tally(|c| c.file == file && c.column == column);
            assert_eq!(tally, Tally { passed: expected, failed: 0, skipped: 0 }, "{file} {column}\n{report}");
        }
    }
    let all: usize = FILES.iter().map(|(_, tensors, host)| 3 * tensors + 2 * host).sum();
    assert_eq!(report.tally(|_| true), Tally { passed: all, failed: 0, skipped: 0 });
}

/// A copy of one file with the number at `place` moved, alone in its folder.
fn corrupted(file: &str, place: &str) -> tempfile::TempDir {
    let text = std::fs::read_to_string(vectors().join(file)).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    let number = json.pointer_mut(place).unwrap_or_else(|| panic!("{file} has no {place}"));
    *number = Value::from(number.as_f64().unwrap() + 1e-3);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(file), json.to_string()).unwrap();
    folder
}

#[test]
fn a_wrong_number_anywhere_fails_on_the_reference_and_in_the_library() {
    let places = [
        ("advantages.json", "/cases/0/expected/0/advantages/0", 2),
        ("advantages_multi.json", "/cases/1/expected/3/advantages/7", 2),
        ("advantages_token.json", "/cases/0/expected/0/advantages_raw/0/0", 2),
        ("advantages_token.json", "/cases/0/expected/0/advantages_whitened/0/0", 2),
        ("advantages_token.json", "/cases/2/expected/1/returns/0/0", 2),
        ("advantages_token.json", "/cases/3/expected/3/advantages/0/0", 2),
        ("bandit.json", "/cases/0/steps/19/logits_after/0", 3),
        ("bandit.json", "/cases/1/steps/0/kl", 3),
        ("bandit.json", "/cases/2/final_probability_of_good", 3),
        ("kl_estimators.json", "/cases/0/expected/4/value/0", 3),
        ("kl_estimators.json", "/cases/2/expected/5/grad_logp/0", 3),
        ("kl_exact.json", "/cases/0/grad_policy_logits_of_sum/0/0", 3),
        ("kl_exact.json", "/cases/1/kl_ref_policy/0", 3),
        ("logits.json", "/cases/0/entropy/0/0", 3),
        ("logits.json", "/cases/0/grad_of_masked_logp_sum/0/0/0", 3),
        ("logits.json", "/cases/2/expected/6/grad_logits/0/0/0", 3),
        ("losses.json", "/cases/0/expected/0/loss", 3),
        ("losses.json", "/cases/4/expected/20/grad_logp/0/0", 3),
        ("losses.json", "/cases/0/expected/1/metrics/kl", 3),
        ("losses.json", "/cases/2/expected/3/metrics/clip_ratio~1low_mean", 3),
        ("losses.json", "/cases/7/expected/30/grad_logp/0/0", 3),
        ("optim.json", "/cases/1/params_after_each_step/4/0", 3),
        ("optim.json", "/cases/1/grad_norm_before_clip/0", 3),
        ("optim.json", "/schedules/0/lr_at_step/1", 2),
        ("sampling.json", "/cases/4/probs/0/0", 2),
        ("sampling.json", "/cases/4/kept/0/0", 2),
    ];
    for (file, place, columns) in places {
        let folder = corrupted(file, place);
        let report = check(folder.path());
        assert_eq!(report.failed(), columns, "{file}{place}\n{report}");
        assert!(!report.is_green());
    }
}

#[test]
fn every_operation_behaves_on_the_default_device() {
    let report = suite(&open("flex").unwrap());
    assert_eq!((report.failed(), report.skipped()), (0, 0), "{report}");
    assert!(report.passed() >= 30);
}

#[test]
fn what_cannot_be_read_is_an_error_with_the_place_in_it() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Vectors::read(folder.path()), Err(Error::Empty { .. })));
    assert!(matches!(Vectors::read(folder.path().join("nowhere")), Err(Error::Read { .. })));
    let broken = [
        ("not JSON at all", "line 1"),
        ("{}", "missing field"),
        (r#"{"format":2,"about":"","dtype":"","versions":{},"tolerance":{"float64":1,"float32":1},"cases":[]}"#, "format is 2"),
        (
            r#"{"format":1,"about":"","dtype":"","versions":{},"tolerance":{"float64":1,"float32":1},
                "cases":[{"name":"short","logp":[-1.0],"ref_logp":[],"expected":[]}]}"#,
            "case `short`: ref_logp has 0 entries, expected 1",
        ),
    ];
    for (text, expected) in broken {
        std::fs::write(folder.path().join("kl_estimators.json"), text).unwrap();
        let error = Vectors::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("kl_estimators.json") && error.contains(expected), "{error}");
    }
}

#[test]
fn an_unknown_file_is_skipped_by_name_and_nothing_run_is_not_green() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(vectors().join("sampling.json"), folder.path().join("sampling.json")).unwrap();
    std::fs::write(folder.path().join("tomorrow.json"), "{}").unwrap();
    let report = check(folder.path());
    assert_eq!((report.failed(), report.skipped()), (0, 1));
    assert!(report.to_string().contains("skipped tomorrow.json"), "{report}");
    assert!(!Report::default().is_green());
}

#[test]
fn devices_are_known_by_name() {
    assert!(open("abacus").is_err() && open("flex").is_ok());
    let report = Vectors::read(vectors()).unwrap().check(&open("flex").unwrap(), &[Precision::F32]).unwrap();
    assert_eq!(report.tally(|c| c.column == Column::F64), Tally::default());
}

fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_check-vectors")).args(arguments).output().unwrap()
}

#[test]
fn the_program_ends_with_its_closing_line_and_its_exit_code() {
    let folder = vectors();
    let output = program(&[folder.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert_eq!(text.lines().last(), Some("1505 passed, 0 failed, 0 skipped"), "{text}");

    let folder = corrupted("sampling.json", "/cases/0/probs/0/0");
    let output = program(&[folder.path().to_str().unwrap(), "--dtype", "f64"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text.lines().last(), Some("8 passed, 2 failed, 0 skipped"), "{text}");
    assert!(text.contains("FAILED sampling.json host temperature: probs, row 0[0]: got "), "{text}");

    for arguments in [&["nowhere"][..], &[folder.path().to_str().unwrap(), "--device", "abacus"]] {
        let output = program(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.starts_with("error: "), "{error}");
    }
}
