//! What the library and the launcher say to each other.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A layer of isolation that the kernel may or may not lend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layer {
    /// The program runs as another user than the caller, one without rights. Needs the caller to be root.
    UnprivilegedUser,
    /// The program sees no other process, and all of its own end with it.
    PidNamespace,
    /// The program has no network, the local one included.
    NetworkNamespace,
    /// All files are read-only but those of its own directory, which is in memory.
    ReadOnlyFiles,
    /// The kernel's Landlock forbids writing elsewhere and TCP, whatever the user's rights.
    Landlock,
}

impl Layer {
    /// All layers.
    pub const ALL: [Self; 5] = [Self::UnprivilegedUser, Self::PidNamespace, Self::NetworkNamespace, Self::ReadOnlyFiles, Self::Landlock];
}

impl std::fmt::Display for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::UnprivilegedUser => "unprivileged user",
            Self::PidNamespace => "PID namespace",
            Self::NetworkNamespace => "network namespace",
            Self::ReadOnlyFiles => "read-only files",
            Self::Landlock => "Landlock",
        })
    }
}

/// What a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Time from start to end.
    pub wall: Duration,
    /// CPU time of each of its processes, in seconds.
    pub cpu_seconds: u64,
    /// Address space of each of its processes, in bytes.
    pub memory: u64,
    /// Bytes on standard output, and as many on standard error.
    pub output: u64,
    /// Bytes of all its files together.
    pub files: u64,
    /// Processes and threads at once.
    pub processes: u64,
}

impl Default for Limits {
    /// 10 s, 10 CPU seconds, 1 GiB, 1 MiB of output, 64 MiB of files, 64 processes.
    fn default() -> Self {
        Self { wall: Duration::from_secs(10), cpu_seconds: 10, memory: 1 << 30, output: 1 << 20, files: 64 << 20, processes: 64 }
    }
}

/// What the launcher is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub layers: Vec<Layer>,
    pub limits: Limits,
    /// An empty directory of the host, which only the launcher may enter.
    pub directory: String,
    /// Names and contents of files to put into it.
    pub files: Vec<(String, String)>,
    pub input: String,
    /// An absolute path, and arguments.
    pub command: Vec<String>,
    /// The user to become, where the layer is asked for.
    pub user: u32,
}

/// What the launcher reports, a line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The program could not be started.
    Failed(String),
    /// The program runs.
    Started,
    /// It ended: its exit code, or the signal that killed it.
    Exited { code: Option<i32>, signal: Option<i32> },
}

/// The first argument that makes a program the launcher, and the one that makes the launcher its second stage.
pub(super) const STAGE_ONE: &str = "grpo-sandbox-launch";
pub(super) const STAGE_TWO: &str = "grpo-sandbox-confine";
