//! Whole reports.

use std::path::Path;

use super::*;

/// A run's folder of so many steps whose completions are hostile, cut in the middle of its last lines.
fn folder(path: &Path, steps: u64) {
    let mut metrics = String::new();
    for step in 0..steps {
        metrics +=
            &format!("{{\"step\":{step},\"reward\":{},\"time/rollout\":0.5,\"step_time\":0.5,\"tokens\":10}}\n", step as f64 / 100.0);
    }
    std::fs::write(path.join("metrics.jsonl"), metrics + "{\"step\":99").unwrap();
    let line = serde_json::json!({
        "step": 0, "group": 0, "completion": 0, "prompt": "<b>ask</b>", "text": "</pre><script>alert(1)</script>", "tokens": 3,
        "finish": "<i>", "rewards/<u>": 1.0, "rewards/b": 0.0, "reward": 1.0, "advantage": 0.5,
    });
    std::fs::write(path.join("completions.jsonl"), format!("{line}\n{{\"step\":")).unwrap();
    std::fs::write(path.join("run.json"), "{\"format\":1,\"steps\":20,\"config\":{\"model\":\"<img src=x>\"}}").unwrap();
}

#[test]
fn a_report_is_written_while_the_run_goes_on_and_hostile_text_is_only_text() {
    let run = tempfile::tempdir().unwrap();
    folder(run.path(), 12);
    let to = run.path().join("report.html");
    write_report(run.path(), &to).unwrap();
    let html = std::fs::read_to_string(&to).unwrap();
    assert!(html.contains("12 of 20, not complete") && html.contains("The reward rises"), "{html}");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && html.contains("&lt;img src=x&gt;"));
    for tag in ["<script", "<img", "<b>ask", "<u>", "<i>\"", "http://", "https://", "url(", "@import"] {
        assert!(!html.contains(tag), "{tag}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn a_folder_of_nothing_but_metrics_has_a_report_and_an_empty_run_as_well() {
    let run = tempfile::tempdir().unwrap();
    std::fs::write(run.path().join("metrics.jsonl"), "").unwrap();
    let html = render(&RunFiles::read(run.path()).unwrap());
    assert!(html.contains("too little to judge"), "{html}");
    std::fs::write(run.path().join("metrics.jsonl"), "{\"step\":0,\"kl\":0.5}\n").unwrap();
    assert!(render(&RunFiles::read(run.path()).unwrap()).contains("KL to the reference"));
}

#[test]
fn a_folder_that_is_no_run_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let error = write_report(folder.path(), folder.path().join("report.html")).unwrap_err().to_string();
    assert!(error.contains("metrics.jsonl") && error.contains(&folder.path().display().to_string()), "{error}");
}

#[test]
fn lines_that_cannot_be_read_are_told() {
    let run = tempfile::tempdir().unwrap();
    std::fs::write(run.path().join("metrics.jsonl"), "{\"step\":0}\nnonsense\n{\"step\":1}\n").unwrap();
    assert!(render(&RunFiles::read(run.path()).unwrap()).contains("1 lines could not be read"));
}

#[test]
fn a_report_that_fails_does_not_stop_the_run() {
    let mut writer = ReportWriter::new("/nowhere");
    writer.on_checkpoint(3, Path::new("")).unwrap();
    writer.on_end(3, RunEnd::Finished).unwrap();
}
