//! The launcher's first stage: namespaces, and the watch over the program.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getegid, geteuid, getpid, kill_process, set_child_subreaper, wait};
use rustix::thread::UnshareFlags;

use super::confine;
use super::message::{Layer, Order, Report, STAGE_ONE, STAGE_TWO};

/// Becomes the sandbox's launcher if the library started this program as one, and says so by the exit code to return from `main`.
///
/// Call it before anything else: threads that run already keep namespaces from being made.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     if let Some(code) = grpo_rewards::code::launch_if_asked() {
///         return code;
///     }
///     // … training
///     std::process::ExitCode::SUCCESS
/// }
/// ```
pub fn launch_if_asked() -> Option<ExitCode> {
    let stage = std::env::args().nth(1)?;
    let result = match stage.as_str() {
        STAGE_ONE => first_stage(),
        STAGE_TWO => confine::second_stage(),
        _ => return None,
    };
    Some(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The socket that came in the place of standard input.
pub(super) fn socket() -> std::io::Result<UnixStream> {
    Ok(UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}

pub(super) fn say(mut socket: &UnixStream, report: &Report) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    socket.write_all(&line)
}

/// How long the ends of all processes are waited for.
const ENDING: Duration = Duration::from_secs(8);

fn first_stage() -> std::io::Result<()> {
    let socket = socket()?;
    let mut lines = BufReader::new(socket.try_clone()?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let result = isolate(&order).and_then(|()| watch(&line, &order, &socket));
    if let Err(error) = &result {
        say(&socket, &Report::Failed(error.to_string()))?;
    }
    result
}

/// Namespaces, but for the one of processes.
fn isolate(order: &Order) -> std::io::Result<()> {
    let wants = |layer| order.layers.contains(&layer);
    let mut flags = UnshareFlags::empty();
    if wants(Layer::NetworkNamespace) {
        flags |= UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    }
    if wants(Layer::ReadOnlyFiles) {
        flags |= UnshareFlags::NEWNS;
    }
    // Orphans come to this process rather than to the system's first one.
    set_child_subreaper(Some(getpid()))?;
    if flags.is_empty() && !wants(Layer::PidNamespace) {
        return Ok(());
    }
    if geteuid().is_root() {
        return if flags.is_empty() { Ok(()) } else { unshare(flags) };
    }
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare(flags | UnshareFlags::NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
}

/// Leaves namespaces for new ones.
#[expect(
    deprecated,
    reason = "the replacement is unsafe for the sake of `FILES`, which splits the table of open files and is not asked for here"
)]
pub(super) fn unshare(flags: UnshareFlags) -> std::io::Result<()> {
    Ok(rustix::thread::unshare(flags)?)
}

/// Starts the second stage and waits for it, or for word from the library, or for its end.
fn watch(line: &str, order: &Order, library: &UnixStream) -> std::io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    let (send, events) = channel();
    let gone = send.clone();
    let (begin, begun) = channel();
    let own_processes = order.layers.contains(&Layer::PidNamespace);
    // A thread of its own: once its children belong to another PID namespace, it can start no further threads. The program dies with it.
    std::thread::spawn(move || {
        let _ = match start(theirs, own_processes) {
            Ok(mut child) => {
                let _ = begin.send(Ok(i32::try_from(child.id()).ok().and_then(Pid::from_raw)));
                send.send(child.wait().ok())
            }
            Err(error) => begin.send(Err(error)).map_err(|_| std::sync::mpsc::SendError(None)),
        };
    });
    let pid = begun.recv().unwrap_or_else(|_| Err(std::io::Error::other("the second stage did not start")))?;
    (&ours).write_all(line.as_bytes())?;
    // The second stage's end of the socket closes when the program takes its place; what it says before is why that failed.
    let mut problem = String::new();
    BufReader::new(&ours).read_line(&mut problem)?;
    if !problem.is_empty() {
        end(pid);
        return Err(std::io::Error::other(problem.trim().to_owned()));
    }
    say(library, &Report::Started)?;
    let mut silence = library.try_clone()?;
    std::thread::spawn(move || {
        // Any word from the library means stop, and so does its end.
        let _ = silence.read(&mut [0]);
        let _ = gone.send(None);
    });
    let status = events.recv().unwrap_or(None);
    end(pid);
    if status.is_none() {
        // The first process of a PID namespace is gone only when all others are.
        let _ = events.recv_timeout(ENDING);
    }
    end_descendants();
    if let Some(status) = status {
        say(library, &Report::Exited { code: status.code(), signal: status.signal() })?;
    }
    Ok(())
}

/// Where the launcher's own libraries are, if it has any: it may be a program that LibTorch is linked to. What it launches never sees this.
pub(super) fn library_path() -> Option<(&'static str, OsString)> {
    const NAME: &str = "LD_LIBRARY_PATH";
    std::env::var_os(NAME).map(|path| (NAME, path))
}

fn start(socket: UnixStream, own_processes: bool) -> std::io::Result<Child> {
    if own_processes {
        unshare(UnshareFlags::NEWPID)?;
    }
    Command::new(std::env::current_exe()?)
        .arg0("sandbox")
        .arg(STAGE_TWO)
        .env_clear()
        .envs(library_path())
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)))
        .spawn()
}

fn end(pid: Option<Pid>) {
    if let Some(pid) = pid {
        // It may be gone already.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Kills whatever descends from this process until nothing does. With a PID namespace the kernel has done so already, and /proc, if it is
/// the program's own by now, shows none.
fn end_descendants() {
    let me = std::process::id();
    // The kernel takes its time with many processes on a busy machine.
    let deadline = Instant::now() + ENDING;
    while Instant::now() < deadline {
        let found = descendants(me);
        if found.is_empty() {
            return;
        }
        for pid in found {
            end(Pid::from_raw(pid));
        }
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All living descendants of a process, from /proc.
fn descendants(of: u32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut parents: Vec<(i32, i32)> = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in brackets may hold anything; the state and the parent follow its last bracket.
        let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let (state, parent) = (fields.next().unwrap_or("Z"), fields.next().and_then(|p| p.parse().ok()));
        if let Some(parent) = parent.filter(|_| state != "Z") {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![i32::try_from(of).unwrap_or(0)];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid).collect::<Vec<_>>());
        at += 1;
    }
    found.split_off(1)
}
