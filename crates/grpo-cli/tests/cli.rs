//! The program, run on a tiny model.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// A folder with questions, settings, and room for runs.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new(steps: u64, more: &str) -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        let rows: Vec<String> =
            (10..42).map(|n| serde_json::json!({ "question": format!("{n} + {n} ="), "answer": "#### 1" }).to_string()).collect();
        std::fs::write(scene.path("rows.jsonl"), rows.join("\n") + "\n").unwrap();
        let config = format!(
            r#"run = "{run}"
[model]
path = "{model}"
lora = {{ rank = 4 }}
[data]
train = "{rows}"
test = "{rows}"
test_limit = 8
[prompt]
form = "raw"
[[rewards]]
kind = "exact"
[train]
steps = {steps}
prompts = 2
group_size = 4
sampling = {{ max_tokens = 1 }}
learning_rate.constant = {{ peak = 0.02 }}
[checkpoints]
every = 2
[observe]
csv = true
tensorboard = true
{more}"#,
            run = scene.path("run").display(),
            model = testdata("tiny-models/qwen2").display(),
            rows = scene.path("rows.jsonl").display(),
        );
        std::fs::write(scene.path("settings.toml"), config).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_grpo"));
        command.current_dir(self.0.path()).args(arguments);
        command
    }

    fn grpo(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The lines of a file without the fields that tell of time.
    fn lines(&self, name: &str) -> Vec<Value> {
        let timeless = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().retain(|name, _| name != "step_time" && !name.starts_with("time/"));
            line
        };
        self.text(name).lines().map(timeless).collect()
    }
}

fn said(output: &Output, code: i32) -> (String, String) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_run_leaves_everything_and_is_not_begun_twice() {
    let scene = Scene::new(6, "");
    let (out, _) = said(&scene.grpo(&["train", "settings.toml"]), 0);
    assert!(out.contains("finished after 6 steps") && out.contains("held out, after 0 steps:"), "{out}");
    let metrics = scene.lines("run/metrics.jsonl");
    assert_eq!(metrics.len(), 6);
    for name in ["reward", "entropy", "grad_norm", "completions/mean_length", "learning_rate"] {
        assert!(metrics[3][name].is_f64(), "{name} in {}", metrics[3]);
    }
    assert_eq!(scene.lines("run/completions.jsonl").len(), 6 * 2 * 4);
    assert_eq!(scene.lines("run/evaluations.jsonl").len(), 2);
    assert_eq!(scene.text("run/metrics.csv").lines().count(), 7);
    assert!(scene.path("run/adapter/adapter_model.safetensors").is_file() && scene.path("run/tensorboard").is_dir());
    assert!(scene.text("run/report.html").contains("6 of 6, complete"));
    assert_eq!(scene.text("run/config.toml"), scene.text("settings.toml"));

    let (_, error) = said(&scene.grpo(&["train", "settings.toml"]), 2);
    assert!(error.contains("grpo resume"), "{error}");
    let (out, _) = said(&scene.grpo(&["resume", "run"]), 0);
    assert!(out.contains("nothing is left to do"), "{out}");

    let (out, _) = said(&scene.grpo(&["eval", "run", "--json", "--samples", "4", "--k", "1,2"]), 0);
    let evaluated: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(evaluated["step"], 6);
    assert!(evaluated["eval/greedy/right"].is_f64() && evaluated["eval/sampled/pass@2"].is_f64(), "{evaluated}");
    assert_eq!(evaluated["eval/greedy/right"], scene.lines("run/evaluations.jsonl")[1]["eval/greedy/right"]);
    let (out, _) = said(&scene.grpo(&["eval", "settings.toml", "--limit", "2"]), 0);
    assert!(out.contains("eval/greedy/right") && out.contains("after 0 steps"), "{out}");
}

#[cfg(unix)]
#[test]
fn a_run_that_ctrl_c_stopped_goes_on_as_if_nothing_had_happened() {
    let scene = Scene::new(100_000, "");
    let child = scene.command(&["train", "settings.toml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let written = || std::fs::read_to_string(scene.path("run/metrics.jsonl")).map_or(0, |text| text.lines().count());
    while written() < 5 && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let (out, error) = said(&child.wait_with_output().unwrap(), 3);
    assert!(out.contains("grpo resume") && error.contains("finishing the step"), "{out}{error}");
    let stopped = scene.lines("run/metrics.jsonl").len();
    assert!(scene.path(&format!("run/checkpoints/step-{stopped}")).is_dir());

    let steps = (stopped + 3).to_string();
    said(&scene.grpo(&["resume", "run", "--steps", &steps]), 0);
    let unbroken = Scene::new(stopped as u64 + 3, "");
    said(&unbroken.grpo(&["train", "settings.toml"]), 0);
    for name in ["run/metrics.jsonl", "run/completions.jsonl"] {
        assert_eq!(scene.lines(name), unbroken.lines(name), "{name}");
    }
    let adapter = |scene: &Scene| std::fs::read(scene.path("run/adapter/adapter_model.safetensors")).unwrap();
    assert!(adapter(&scene) == adapter(&unbroken), "the adapters differ");
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_stops_at_once_and_loses_no_checkpoint() {
    use std::io::BufRead as _;
    let scene = Scene::new(3, "");
    said(&scene.grpo(&["train", "settings.toml"]), 0);
    // Long answers of many, so that the step is not finished before the second one.
    let settings = scene.text("settings.toml").replace("steps = 3", "steps = 9").replace("run\"\n", "slow\"\n");
    let settings = settings
        .replace("prompts = 2", "prompts = 32")
        .replace("group_size = 4", "group_size = 512")
        .replace("max_tokens = 1", "max_tokens = 64");
    std::fs::write(scene.path("slow.toml"), settings).unwrap();
    let mut child = scene.command(&["train", "slow.toml"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let interrupt = |id: u32| assert!(Command::new("kill").args(["-INT", &id.to_string()]).status().unwrap().success());
    let start = Instant::now();
    while !scene.path("slow/run.json").exists() && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(child.id());
    let asked = std::io::BufReader::new(child.stderr.take().unwrap()).lines().any(|line| line.unwrap().contains("once more stops at once"));
    assert!(asked);
    let second = Instant::now();
    interrupt(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(second.elapsed() < Duration::from_secs(5), "the step was finished first");
    assert!(!scene.path("slow/checkpoints/step-1").exists());
    said(&scene.grpo(&["resume", "run", "--steps", "5"]), 0);
}

#[test]
fn a_run_that_was_given_more_steps_keeps_them_however_it_is_stopped() {
    let scene = Scene::new(3, "");
    said(&scene.grpo(&["train", "settings.toml"]), 0);
    said(&scene.grpo(&["resume", "run", "--steps", "5"]), 0);
    assert_eq!(scene.lines("run/metrics.jsonl").len(), 5);
    assert_eq!(
        scene.text("run/config.toml"),
        scene.text("settings.toml").replace("steps = 3", "steps = 5"),
        "all else stays as it was written"
    );
    // As a kill would leave it: the newest checkpoint is that of step 4.
    std::fs::remove_dir_all(scene.path("run/checkpoints/step-5")).unwrap();
    let (out, _) = said(&scene.grpo(&["resume", "run"]), 0);
    assert!(out.contains("goes on at step 4 of 5"), "{out}");
    assert_eq!(scene.lines("run/metrics.jsonl").len(), 5);
}

#[test]
fn what_is_refused_before_the_run_goes_on_is_input_and_no_advice_to_do_it_again() {
    let scene = Scene::new(3, "");
    said(&scene.grpo(&["train", "settings.toml"]), 0);
    for checkpoint in std::fs::read_dir(scene.path("run/checkpoints")).unwrap() {
        let _ = std::fs::write(checkpoint.unwrap().path().join("policy.bpk"), "not weights");
    }
    let (_, error) = said(&scene.grpo(&["resume", "run", "--steps", "5"]), 2);
    assert!(error.contains("policy.bpk") && !error.contains("goes on from there"), "{error}");
}

#[test]
fn a_run_goes_on_only_with_what_it_was_begun_with() {
    let scene = Scene::new(3, "");
    said(&scene.grpo(&["train", "settings.toml"]), 0);
    let (settings, rows) = (scene.text("run/config.toml"), scene.text("rows.jsonl"));
    for (from, to, named) in [
        ("rank = 4", "rank = 4, alpha = 8.0", "`lora` was "),
        ("kind = \"exact\"", "kind = \"exact\"\nweight = 2.0", "`reward functions` was "),
        ("kind = \"exact\"", "kind = \"exact\"\nfrom = \"boxed\"", "`reward functions` was "),
        ("form = \"raw\"", "form = \"raw\"\nprefix = \"9 \"", "`prompt` was "),
        ("group_size = 4", "group_size = 5", "`group_size` was 4, and is 5 now"),
    ] {
        std::fs::write(scene.path("run/config.toml"), settings.replace(from, to)).unwrap();
        let changed = scene.text("run/config.toml");
        let (_, error) = said(&scene.grpo(&["resume", "run", "--steps", "5"]), 2);
        assert!(error.contains(named), "{to}: {error}");
        assert_eq!(scene.text("run/config.toml"), changed, "what is refused changes nothing");
    }
    std::fs::write(scene.path("run/config.toml"), settings).unwrap();
    std::fs::write(scene.path("rows.jsonl"), rows.replace("#### 1", "#### 2")).unwrap();
    let (_, error) = said(&scene.grpo(&["resume", "run", "--steps", "5"]), 2);
    assert!(error.contains("of other prompts or tasks"), "{error}");
    std::fs::write(scene.path("rows.jsonl"), rows).unwrap();
    said(&scene.grpo(&["resume", "run", "--steps", "5"]), 0);
}

#[test]
fn a_run_that_a_rule_ended_goes_on_with_another_rule() {
    let scene = Scene::new(5, "[train.early_stop]\nmetric = \"grad_norm\"\nat_least = 0.0\npatience = 2\n");
    let (out, _) = said(&scene.grpo(&["train", "settings.toml"]), 0);
    assert!(out.contains("ended by the rule of early_stop after 2 steps"), "{out}");
    let (out, _) = said(&scene.grpo(&["resume", "run"]), 0);
    assert!(out.contains("nothing is left to do") && out.contains("config.toml"), "{out}");
    std::fs::write(scene.path("run/config.toml"), scene.text("run/config.toml").replace("patience = 2", "patience = 9")).unwrap();
    let (out, _) = said(&scene.grpo(&["resume", "run"]), 0);
    assert!(out.contains("finished after 5 steps"), "{out}");
}

#[test]
fn a_rule_that_looks_at_no_metric_is_told() {
    let scene = Scene::new(2, "[train.early_stop]\nmetric = \"rewrad\"\nat_least = 0.0\n");
    let (_, warned) = said(&scene.grpo(&["train", "settings.toml"]), 0);
    assert!(warned.contains("early_stop looks at `rewrad`") && warned.contains("grad_norm"), "{warned}");
    let best = scene.text("settings.toml").replace("every = 2", "every = 2\nbest = { metric = \"eval/greedy/reward\" }");
    let without = best.lines().filter(|line| !line.starts_with("test")).collect::<Vec<_>>().join("\n");
    std::fs::write(scene.path("best.toml"), without).unwrap();
    let (_, error) = said(&scene.grpo(&["check", "best.toml"]), 2);
    assert!(error.contains("checkpoints best: looks at `eval/greedy/reward`, which needs held-out prompts"), "{error}");
}

#[test]
fn check_finds_what_train_would_refuse() {
    let scene = Scene::new(3, "");
    let settings = scene.text("settings.toml");
    for (from, to, named) in [
        ("group_size = 4", "group_size = 1", "wrong.toml:16: group_size = 1, must be at least 2"),
        ("max_tokens = 1", "max_tokens = 1, temperature = 1e-300", "temperature = 0.00000"),
        ("max_tokens = 1", "max_tokens = 1, end_tokens = [999999]", "end_tokens has 999999, must be below the vocabulary"),
        ("form = \"raw\"", "form = \"raw\"\nsystem = \"be brief\"", "wrong.toml:11: system: a raw prompt has no system message"),
        ("kind = \"exact\"", "kind = \"pattern\"\npattern = \"(\"", "wrong.toml:13: reward pattern: `pattern`"),
        ("csv = true", "csv = true\nmlflow = { uri = \"http://\" }", "MLflow uri: `http://`, must be"),
        ("rank = 4", "rank = 100000", "lora rank"),
        ("qwen2\"", "qwen2\"\ndevice = \"abacus\"", "abacus"),
    ] {
        std::fs::write(scene.path("wrong.toml"), settings.replace(from, to)).unwrap();
        for command in ["check", "train"] {
            let (_, error) = said(&scene.grpo(&[command, "wrong.toml"]), 2);
            assert!(error.contains(named), "{command} {to}: {error}");
        }
    }
    assert!(!scene.path("run").exists());
    std::fs::write(scene.path("run"), "a file").unwrap();
    let (_, error) = said(&scene.grpo(&["check", "settings.toml"]), 2);
    assert!(error.contains("run is no folder"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_run_goes_on_where_nobody_listens() {
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let scene = Scene::new(4, "");
    let status = scene.command(&["train", "settings.toml"]).stdout(full()).stderr(full()).status().unwrap();
    assert_eq!((status.code(), scene.lines("run/metrics.jsonl").len()), (Some(0), 4));
    assert_eq!(scene.command(&["check", "settings.toml"]).stdout(full()).stderr(full()).status().unwrap().code(), Some(2));

    let scene = Scene::new(100_000, "");
    let mut child = scene.command(&["train", "settings.toml"]).stdout(full()).stderr(full()).spawn().unwrap();
    let start = Instant::now();
    while !scene.path("run/checkpoints/step-2").is_dir() && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(3), "it listens to Ctrl-C all the same");
}

#[test]
fn a_run_without_a_finished_checkpoint_is_begun_again() {
    let scene = Scene::new(2, "");
    said(&scene.grpo(&["train", "settings.toml"]), 0);
    std::fs::remove_file(scene.path("run/checkpoints/step-2/complete")).unwrap();
    let (_, error) = said(&scene.grpo(&["resume", "run"]), 2);
    assert!(error.contains("begin it with `grpo train`"), "{error}");
    let (out, _) = said(&scene.grpo(&["train", "settings.toml"]), 0);
    assert!(out.contains("written anew") && out.contains("finished after 2 steps"), "{out}");
}

#[test]
fn a_mark_in_front_of_a_file_is_no_part_of_it() {
    let scene = Scene::new(2, "");
    for file in ["settings.toml", "rows.jsonl"] {
        std::fs::write(scene.path(file), format!("\u{feff}{}", scene.text(file))).unwrap();
    }
    said(&scene.grpo(&["train", "settings.toml"]), 0);
}

#[test]
fn a_device_that_is_not_there_is_told_before_anything_is_computed() {
    let scene = Scene::new(6, "");
    let settings = scene.text("settings.toml").replace("[data]", "device = \"abacus\"\n[data]");
    std::fs::write(scene.path("settings.toml"), settings).unwrap();
    for command in ["check", "train"] {
        let (_, error) = said(&scene.grpo(&[command, "settings.toml"]), 2);
        assert!(error.contains("device `abacus` is not known") && error.contains("compiled in: flex"), "{error}");
    }
    assert!(!scene.path("run").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn code_is_judged_by_the_tests_of_its_question() {
    let scene = Scene::new(1, "");
    let settings = scene.text("settings.toml").replace("kind = \"exact\"", "kind = \"code\"");
    std::fs::write(scene.path("settings.toml"), settings).unwrap();
    let row =
        |body: &str| serde_json::json!({ "question": "Add one.", "answer": body, "tests": ["assert add(1) == 2", "assert add(-1) == 0"] });
    for (body, earns) in [("def add(x):\n    return x + 1", "earns 1"), ("def add(x):\n    return 2", "earns 0")] {
        std::fs::write(scene.path("rows.jsonl"), format!("{}\n", row(body)).repeat(2)).unwrap();
        let (out, _) = said(&scene.grpo(&["check", "settings.toml"]), 0);
        assert!(out.contains(earns), "{out}");
    }
    said(&scene.grpo(&["train", "settings.toml"]), 0);
    assert_eq!(scene.lines("run/metrics.jsonl")[0]["rewards/code/mean"], 0.0);
    std::fs::write(scene.path("rows.jsonl"), "{\"question\": \"Add one.\", \"answer\": \"2\"}\n").unwrap();
    let (_, error) = said(&scene.grpo(&["check", "settings.toml"]), 2);
    assert!(error.contains("no question has `tests`"), "{error}");
}

#[test]
fn check_says_what_would_be_trained_and_leaves_nothing() {
    let scene = Scene::new(6, "");
    let (out, _) = said(&scene.grpo(&["check", "settings.toml"]), 0);
    for part in ["32 prompts", "factors of rank 4", "\"10 + 10 =\"", "earns 1", "1 × exact_answer", "nothing is wrong"] {
        assert!(out.contains(part), "{part} in {out}");
    }
    assert!(!scene.path("run").exists());
}

#[test]
fn what_is_wrong_is_told_with_file_and_line_and_code_2() {
    let scene = Scene::new(6, "tensorbord = true\n");
    let (_, error) = said(&scene.grpo(&["train", "settings.toml"]), 2);
    assert!(error.contains("settings.toml:24: ") && error.contains("tensorbord"), "{error}");

    let scene = Scene::new(6, "");
    let huge = scene.text("settings.toml").replace("prompts = 2", "prompts = 9223372036854775807");
    std::fs::write(scene.path("huge.toml"), huge).unwrap();
    let (_, error) = said(&scene.grpo(&["train", "huge.toml"]), 2);
    assert!(error.contains("at most 16777216 completions"), "{error}");

    std::fs::write(scene.path("rows.jsonl"), "{\"question\": \"1 + 1 =\", \"answer\": \"2\"}\n{\"question\": \"2 + 2 =\"}\n").unwrap();
    for command in ["check", "train"] {
        let (_, error) = said(&scene.grpo(&[command, "settings.toml"]), 2);
        assert!(error.contains("rows.jsonl:2: no `answer`"), "{error}");
    }
    assert!(!scene.path("run").exists(), "nothing was begun");
    let (_, error) = said(&scene.grpo(&["resume", "nowhere"]), 2);
    assert!(error.contains("nowhere"), "{error}");
    let (_, error) = said(&scene.grpo(&["report", "."]), 2);
    assert!(error.contains("metrics.jsonl"), "{error}");
}

#[test]
fn a_report_is_drawn_from_a_folder_with_nothing_but_metrics() {
    let scene = Scene::new(6, "");
    std::fs::write(scene.path("metrics.jsonl"), "{\"step\":0,\"reward\":0.5}\n{\"step\":1,\"rew").unwrap();
    let (out, _) = said(&scene.grpo(&["report", ".", "--to", "here.html"]), 0);
    assert!(out.contains("here.html: 1 steps") && scene.text("here.html").starts_with("<!doctype html>"), "{out}");
}

#[test]
fn help_names_the_commands_and_the_exit_codes() {
    let scene = Scene::new(6, "");
    let (out, _) = said(&scene.grpo(&["--help"]), 0);
    for word in ["train", "resume", "eval", "report", "check", "Exit codes", "130"] {
        assert!(out.contains(word), "{word} in {out}");
    }
}
