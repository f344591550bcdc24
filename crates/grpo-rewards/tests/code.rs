//! The sandbox against programs that go wrong. Each ends within its limit, with the right verdict, and leaves nothing running.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)] // Helpers of tests, too, say what they expect.
#![cfg(all(target_os = "linux", feature = "code"))]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use grpo_core::Reward;
use grpo_rewards::code::{Check, CodeReward, CodeTask, Credit, Ended, Language, Launcher, Layer, Limits, Run, Sandbox, SandboxError};

/// One test at a time: each looks for what its sandbox left running, and would find a neighbour's.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn launcher() -> Launcher {
    Launcher::Path(PathBuf::from(env!("CARGO_BIN_EXE_grpo-sandbox")))
}

fn limits() -> Limits {
    Limits { wall: Duration::from_secs(4), cpu_seconds: 2, memory: 512 << 20, output: 1 << 20, files: 8 << 20, processes: 32 }
}

/// Everything that this machine lends.
fn reward() -> CodeReward {
    let sandbox = Sandbox::new(launcher(), limits(), &Layer::ALL).expect("a sandbox");
    println!("layers here: {}", sandbox.layers().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    CodeReward::new(sandbox, Language::python().expect("python3 for the tests"))
}

fn output(input: &str, expected: &str) -> Check {
    Check::Output { input: input.to_owned(), expected: expected.to_owned() }
}

/// Runs code that must not pass, and checks that it ended in time and that no process of it is left.
fn bad(code: &str) -> Run {
    let mark = format!("marker_{}", std::process::id());
    let reward = reward();
    let start = Instant::now();
    let (passed, run) = reward.check(&format!("{mark} = 1\n{code}"), &output("", "ok")).expect("the sandbox works");
    assert!(!passed, "{run:?}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let left = running();
    assert!(left.is_empty(), "left running: {left:?}");
    run
}

/// Processes that still run the sandbox's files, or belong to its users.
fn running() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(status) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        let of_sandbox = status.lines().any(|l| {
            l.starts_with("Uid:")
                && l.split_whitespace().nth(1).and_then(|u| u.parse::<u32>().ok()).is_some_and(|u| {
                    let first = 2_000_000 + (std::process::id() % 100_000) * 1024;
                    (first..first + 1024).contains(&u)
                })
        });
        if of_sandbox && !status.contains("State:\tZ") {
            found.push(status.lines().take(7).collect::<Vec<_>>().join(" "));
        }
    }
    found
}

#[test]
fn right_code_earns_its_share_and_wrong_code_none() {
    let _alone = alone();
    let task = CodeTask { checks: vec![output("2 3", "5"), output("10 -4", "6"), Check::Script("assert add(1, 1) == 2".to_owned())] };
    let good = "<think>sum</think>\n```python\ndef add(a, b):\n    return a + b\ntry:\n    print(add(*map(int, input().split())))\nexcept EOFError:\n    pass\n```";
    let reward = reward();
    assert_eq!(reward.judge(&task, good).unwrap(), Reward::Outcome(1.0));
    let half = good.replace("a + b", "a + abs(b)");
    assert_eq!(reward.judge(&task, &half).unwrap(), Reward::Outcome(0.0));
    assert_eq!(reward.clone().credit(Credit::Share).judge(&task, &half).unwrap(), Reward::Outcome(2.0 / 3.0));
    assert_eq!(reward.judge(&task, "no code").unwrap(), Reward::Outcome(0.0));
    assert_eq!(reward.judge(&CodeTask::default(), good).unwrap(), Reward::NotApplicable);
}

#[test]
fn an_early_exit_passes_no_assertion() {
    let _alone = alone();
    let (passed, run) = reward().check("import sys\nsys.exit(0)", &Check::Script("assert False".to_owned())).unwrap();
    assert!(!passed && run.ended == Ended::Exit(0));
}

#[test]
fn an_infinite_loop_ends_at_its_cpu_time() {
    let _alone = alone();
    // Time enough on the wall that the limit on CPU time is met first, on a machine that is busy, too.
    let limits = Limits { wall: Duration::from_secs(60), cpu_seconds: 1, ..limits() };
    let sandbox = Sandbox::new(launcher(), limits, &Layer::ALL).unwrap();
    let (passed, run) = CodeReward::new(sandbox, Language::python().unwrap()).check("while True: pass", &output("", "ok")).unwrap();
    assert!(!passed && matches!(run.ended, Ended::Signal(9 | 24)), "{run:?}");
}

#[test]
fn a_sleeper_ends_at_the_wall_clock() {
    let _alone = alone();
    let run = bad("import time\ntime.sleep(1000)");
    assert_eq!(run.ended, Ended::WallClock);
    assert!(run.time < Duration::from_secs(6));
}

#[test]
fn a_fork_bomb_is_contained() {
    let _alone = alone();
    bad("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass");
}

#[test]
fn ten_gigabytes_of_memory_are_refused() {
    let _alone = alone();
    let run = bad("x = bytearray(10 * 2**30)\nprint('ok')");
    assert!(run.errors.contains("MemoryError"), "{run:?}");
}

#[test]
fn a_gigabyte_of_output_is_cut_off() {
    let _alone = alone();
    let run = bad("import sys\nfor _ in range(1024):\n    sys.stdout.write('x' * 2**20)");
    assert_eq!(run.ended, Ended::Output);
    assert_eq!(run.output.len(), 1 << 20);
}

#[test]
fn files_outside_cannot_be_written() {
    let _alone = alone();
    let targets = ["/tmp/escaped", "/etc/escaped", "/var/tmp/escaped", "/dev/shm/escaped", "/root/escaped", "../escaped"];
    for target in targets {
        let run = bad(&format!("open({target:?}, 'w').write('x')\nprint('ok')"));
        assert!(run.errors.contains("Error"), "{target}: {run:?}");
        assert!(!std::path::Path::new(target).exists(), "{target}");
    }
}

#[test]
fn files_inside_can_be_written_up_to_their_limit_and_vanish() {
    let _alone = alone();
    let (passed, run) = reward()
        .check("import os\nopen('a', 'w').write('ok')\nprint(open('a').read())\nprint(os.getcwd(), flush=True)", &output("", "ok"))
        .unwrap();
    assert!(!passed && run.output.starts_with("ok\n/"), "{run:?}");
    let directory = run.output.lines().nth(1).expect("a directory").to_owned();
    assert!(directory.contains("grpo-sandbox-") && !std::path::Path::new(&directory).exists(), "{directory}");
    let run = bad("for i in range(1000):\n    open(str(i), 'w').write('x' * 2**20)\nprint('ok')");
    assert!(run.errors.contains("No space left") || run.errors.contains("File too large") || run.ended == Ended::Signal(25), "{run:?}");
}

#[test]
fn a_directory_that_is_hard_to_remove_goes_too() {
    let _alone = alone();
    let keep = tempfile();
    let mut sandbox = Sandbox::new(launcher(), limits(), &Layer::ALL).unwrap();
    // Without these the directory is one on disk, which somebody must remove, and what it links to can be written.
    for layer in [Layer::ReadOnlyFiles, Layer::Landlock] {
        sandbox = sandbox.without(layer);
    }
    let reward = CodeReward::new(sandbox, Language::python().unwrap());
    let code = format!(
        "import os\nprint(os.getcwd(), flush=True)\nos.symlink({:?}, 'link')\nos.mkfifo('pipe')\nos.mkdir('shut'); open('shut/a', 'w'); os.chmod('shut', 0)\n\
         for i in range(300):\n    os.mkdir('deep'); os.chdir('deep')\nprint('done')",
        keep.parent().unwrap()
    );
    let (_, run) = reward.check(&code, &output("", "ok")).unwrap();
    let mut lines = run.output.lines();
    let directory = lines.next().expect("a directory").to_owned();
    assert_eq!(lines.next(), Some("done"), "{run:?}");
    assert!(!std::path::Path::new(&directory).exists(), "{directory}");
    assert!(keep.exists());
    std::fs::remove_dir_all(keep.parent().unwrap()).unwrap();
}

/// A file in a directory of its own, outside of any sandbox.
fn tempfile() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("grpo-keep-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("kept"), "x").unwrap();
    folder.join("kept")
}

#[test]
fn there_is_no_network() {
    let _alone = alone();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let run = bad(&format!("import socket\nsocket.create_connection(('127.0.0.1', {}), 1)\nprint('ok')", address.port()));
    assert!(run.errors.contains("Error"), "{run:?}");
}

#[test]
fn orphans_die_with_the_program() {
    let _alone = alone();
    // A grandchild in a session of its own, whose parent ends at once.
    let code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)\n    os._exit(0)\nos.wait()\nprint('done')";
    assert_eq!(bad(code).ended, Ended::Exit(0));
}

#[test]
fn orphans_die_without_a_namespace_of_processes_too() {
    let _alone = alone();
    let mut sandbox = Sandbox::new(launcher(), limits(), &Layer::ALL).unwrap();
    for layer in [Layer::PidNamespace, Layer::ReadOnlyFiles] {
        sandbox = sandbox.without(layer);
    }
    let reward = CodeReward::new(sandbox, Language::python().unwrap());
    let detached = "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n            time.sleep(1000)\n        os._exit(0)\n";
    for (end, expected) in [("print('done')", Ended::Exit(0)), ("time.sleep(1000)", Ended::WallClock)] {
        let (_, run) = reward.check(&format!("{detached}{end}"), &output("", "ok")).unwrap();
        let left = running();
        assert!(run.ended == expected && left.is_empty(), "{run:?}, left running: {left:?}");
    }
}

#[test]
fn other_processes_and_variables_are_not_seen() {
    let _alone = alone();
    let code = "import os\npids = [p for p in os.listdir('/proc') if p.isdigit()]\nprint(len(pids), sorted(os.environ), os.getuid() != 0)";
    let (_, run) = reward().check(code, &output("", "")).unwrap();
    assert_eq!(run.output.trim(), "1 ['HOME', 'LANG', 'PATH', 'TMPDIR'] True", "{run:?}");
}

#[test]
fn a_program_cannot_pass_for_a_broken_sandbox() {
    let _alone = alone();
    // Killing its parent, its group and whatever it can name leaves it with a verdict, not with an error.
    let run = bad(
        "import os, signal\nfor p in (os.getppid(), 0, -1):\n    try:\n        os.kill(p, signal.SIGKILL)\n    except Exception:\n        pass\nprint('still here')",
    );
    assert!(!matches!(run.ended, Ended::WallClock), "{run:?}");
}

#[test]
fn a_missing_layer_is_an_error_unless_accepted_by_name() {
    let _alone = alone();
    let all = Sandbox::new(launcher(), limits(), &Layer::ALL).unwrap();
    let missing: Vec<Layer> = Layer::ALL.into_iter().filter(|l| !all.layers().contains(l)).collect();
    match Sandbox::new(launcher(), limits(), &[]) {
        Ok(_) => assert!(missing.is_empty()),
        Err(SandboxError::Missing(named)) => {
            assert_eq!(named.iter().map(|(layer, _)| *layer).collect::<Vec<_>>(), missing);
            println!("{}", SandboxError::Missing(named));
        }
        Err(other) => panic!("{other}"),
    }
    assert!(matches!(Sandbox::new(Launcher::Path("/nowhere".into()), limits(), &[]), Err(SandboxError::Failed(_))));
}
