//! The sandbox, from the library's side.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process_group};

use super::directory::Directory;
use super::launch::library_path;
use super::message::{Layer, Limits, Order, Report, STAGE_ONE};

/// Why nothing could be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// Layers that the kernel or the caller's rights do not lend, and that were not accepted as missing.
    #[error("missing layers: {}; accept them by name, or give the program the rights they need", .0.iter().map(|(layer, why)| format!("{layer} ({why})")).collect::<Vec<_>>().join(", "))]
    Missing(Vec<(Layer, String)>),
    /// The launcher could not be started, or could not start the program.
    #[error("the sandbox failed: {0}")]
    Failed(String),
    /// A setting out of range.
    #[error("{0}")]
    Setting(#[from] grpo_core::Error),
}

impl From<std::io::Error> for SandboxError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The program that sets limits and namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// The running program, whose `main` begins with [`launch_if_asked`](super::launch_if_asked).
    ThisProgram,
    /// The binary `grpo-sandbox`, or another one that calls [`launch_if_asked`](super::launch_if_asked), at this path.
    Path(PathBuf),
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// Names (without folders) and contents of files in its directory.
    pub files: Vec<(String, String)>,
    /// An absolute path and arguments.
    pub command: Vec<String>,
    /// Its standard input.
    pub input: String,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// By itself, with this code.
    Exit(i32),
    /// Killed by a signal: 9 may be a limit, 24 the CPU time's, 25 the file size's.
    Signal(i32),
    /// At the limit of wall-clock time.
    WallClock,
    /// At the limit of output.
    Output,
    /// With its launcher: nothing more is known.
    Lost,
}

/// What a program did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// How it ended.
    pub ended: Ended,
    /// What it wrote to standard output, up to the limit; broken UTF-8 is replaced.
    pub output: String,
    /// What it wrote to standard error, up to the limit.
    pub errors: String,
    /// How long it took.
    pub time: Duration,
}

/// A place to run programs in.
#[derive(Debug, Clone)]
pub struct Sandbox {
    launcher: PathBuf,
    limits: Limits,
    layers: Vec<Layer>,
}

/// Time that starting may take beside the program's own.
const GRACE: Duration = Duration::from_secs(5);
/// Time that ending may take; the launcher needs less.
const ENDING: Duration = Duration::from_secs(10);

impl Sandbox {
    /// Asks which layers are there, each by starting a program under it, and refuses if one is missing that `accepted` does not name.
    ///
    /// # Errors
    /// Missing layers, all of them with the reason; a launcher that does not work; limits of zero.
    pub fn new(launcher: Launcher, limits: Limits, accepted: &[Layer]) -> Result<Self, SandboxError> {
        let launcher = match launcher {
            Launcher::ThisProgram => std::env::current_exe()?,
            Launcher::Path(path) => path.canonicalize().map_err(|e| SandboxError::Failed(format!("launcher {}: {e}", path.display())))?,
        };
        if limits.wall.is_zero() || [limits.cpu_seconds, limits.memory, limits.output, limits.files, limits.processes].contains(&0) {
            return Err(grpo_core::Error::config("sandbox limits", format!("{limits:?}"), "all above 0").into());
        }
        let mut sandbox = Self { launcher, limits, layers: Vec::new() };
        sandbox.probe().map_err(|why| SandboxError::Failed(format!("without any layer: {why}")))?;
        let mut missing = Vec::new();
        for layer in Layer::ALL {
            sandbox.layers.push(layer);
            if let Err(why) = sandbox.probe() {
                sandbox.layers.pop();
                if !accepted.contains(&layer) {
                    missing.push((layer, why));
                }
            }
        }
        if missing.is_empty() { Ok(sandbox) } else { Err(SandboxError::Missing(missing)) }
    }

    /// The layers that are there.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Leaves out a layer that is there: the network namespace, to let a program call out.
    pub fn without(mut self, layer: Layer) -> Self {
        self.layers.retain(|l| *l != layer);
        self
    }

    /// Whether a program that does nothing runs under the layers asked for so far.
    fn probe(&self) -> Result<(), String> {
        if self.layers.contains(&Layer::UnprivilegedUser) && !geteuid().is_root() {
            return Err("only root can become another user".to_owned());
        }
        let program = ["/bin/true", "/usr/bin/true"].into_iter().find(|p| Path::new(p).exists()).ok_or("no `true` to try with")?;
        let run = self.run(&Program { command: vec![program.to_owned()], ..Program::default() }).map_err(|e| e.to_string())?;
        if run.ended == Ended::Exit(0) {
            Ok(())
        } else {
            Err(format!("a program that does nothing ended with {:?}: {}", run.ended, run.errors.trim()))
        }
    }

    /// Runs a program to its end, or to a limit. Nothing of it is left afterwards.
    ///
    /// # Errors
    /// The sandbox failed before the program started. What the program itself does is never an error.
    pub fn run(&self, program: &Program) -> Result<Run, SandboxError> {
        if program.files.iter().any(|(name, _)| name.is_empty() || name.contains('/') || name.starts_with('.')) {
            return Err(grpo_core::Error::invalid("file name", "empty, hidden or with a folder, must be a plain name").into());
        }
        let directory = Directory::new()?;
        let order = Order {
            layers: self.layers.clone(),
            limits: self.limits,
            directory: directory.path.display().to_string(),
            files: program.files.clone(),
            input: program.input.clone(),
            command: program.command.clone(),
            user: next_user(),
        };
        let (mut ours, theirs) = UnixStream::pair()?;
        let mut child = Command::new(&self.launcher)
            .arg(STAGE_ONE)
            .env_clear()
            .envs(library_path())
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| SandboxError::Failed(format!("launcher {}: {e}", self.launcher.display())))?;
        let watched = self.watched(&mut child, &mut ours, &order);
        // Whatever happened, the whole process group ends, and the launcher's namespace with it.
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait();
        watched
    }

    fn watched(&self, child: &mut Child, socket: &mut UnixStream, order: &Order) -> Result<Run, SandboxError> {
        let mut line = serde_json::to_vec(order).map_err(std::io::Error::from)?;
        line.push(b'\n');
        let (send, events) = channel();
        let output = collect(child.stdout.take(), self.limits.output, send.clone());
        let errors = collect(child.stderr.take(), self.limits.output, send.clone());
        let reports = BufReader::new(socket.try_clone()?);
        std::thread::spawn(move || {
            for line in reports.lines().map_while(Result::ok) {
                if let Ok(report) = serde_json::from_str(&line)
                    && send.send(Event::Report(report)).is_err()
                {
                    return;
                }
            }
            let _ = send.send(Event::Gone);
        });
        socket.write_all(&line)?;
        let mut started = None;
        let ended = loop {
            let since: Instant = started.unwrap_or_else(Instant::now);
            let limit = if started.is_some() { self.limits.wall.saturating_sub(since.elapsed()) } else { GRACE };
            match events.recv_timeout(limit) {
                Ok(Event::Report(Report::Started)) => started = Some(Instant::now()),
                Ok(Event::Report(Report::Failed(why))) => return Err(SandboxError::Failed(why)),
                Ok(Event::Report(Report::Exited { code, signal })) => {
                    break code.map(Ended::Exit).or(signal.map(Ended::Signal)).unwrap_or(Ended::Lost);
                }
                Ok(Event::Full) => break Ended::Output,
                Ok(Event::Gone) | Err(RecvTimeoutError::Disconnected) if started.is_some() => break Ended::Lost,
                Ok(Event::Gone) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(SandboxError::Failed("the launcher ended before the program began".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if started.is_some() => break Ended::WallClock,
                Err(RecvTimeoutError::Timeout) => return Err(SandboxError::Failed(format!("the program did not begin within {GRACE:?}"))),
            }
        };
        let time = started.map_or(Duration::ZERO, |s| s.elapsed());
        if matches!(ended, Ended::WallClock | Ended::Output) {
            // The launcher ends what it started, and then itself.
            let _ = socket.write_all(b"x");
            let deadline = Instant::now() + ENDING;
            while child.try_wait()?.is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(Run { ended, output: output.text(), errors: errors.text(), time })
    }
}

/// What happens while a program runs.
enum Event {
    Report(Report),
    /// More output than the limit.
    Full,
    /// The launcher's end of the socket closed.
    Gone,
}

/// A stream that is read to its end on a thread of its own.
struct Collected {
    bytes: Receiver<Vec<u8>>,
    stop: Arc<AtomicBool>,
}

impl Collected {
    fn text(self) -> String {
        // All writers are dead by now; a pipe that someone still holds is not waited for.
        let bytes = self.bytes.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        self.stop.store(true, Ordering::Relaxed);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn collect(stream: Option<impl Read + Send + 'static>, limit: u64, events: Sender<Event>) -> Collected {
    let (send, bytes) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), [0_u8; 8192]);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let Some(mut stream) = stream else { return };
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
            if all.len() > limit {
                all.truncate(limit);
                let _ = events.send(Event::Full);
                break;
            }
            if stopped.load(Ordering::Relaxed) {
                break;
            }
        }
        let _ = send.send(all);
    });
    Collected { bytes, stop }
}

/// A user id that no other run of this program has now, so that the limit on processes counts one run's only.
fn next_user() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let slot = NEXT.fetch_add(1, Ordering::Relaxed) % 1024;
    2_000_000 + (std::process::id() % 100_000) * 1024 + slot
}
