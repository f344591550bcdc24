//! Code written by a model, run against tests in a sandbox of its own process. Linux only.
//!
//! # What it protects from
//! Programs that go wrong, as most do early in training: endless loops, fork bombs, gigabytes of memory or output, files left behind, orphans,
//! calls to the network. Each run has limits on wall-clock and CPU time, memory, processes, output and files, an empty environment, a
//! directory that vanishes with it, and, where the kernel lends them, an unprivileged user, PID and network namespaces of its own, a file system that is read-only but for
//! that directory, and Landlock. Which of these are there is asked before anything runs; one that is missing is an error unless it was
//! accepted by name.
//!
//! # What it does not protect from
//! An attacker with a hole in the kernel: the program shares it with you. A program can *read* what its user may read (unless Landlock or the
//! user's rights forbid it), talk to local sockets that are open to everyone, and learn the time. It can use up the processes, memory and time it was given, all at once. In a test that runs
//! in the program's own process ([`Check::Script`]) the program can look at the test and pretend to pass: prefer [`Check::Output`], whose
//! expected text never enters the sandbox.
//!
//! # The launcher
//! Limits and namespaces are set by a small program that then becomes the one under test. It is either the binary `grpo-sandbox` of this crate, or your own
//! program, if the first thing its `main` does is to call [`launch_if_asked`].

mod confine;
mod directory;
mod launch;
mod message;
mod reward;
mod run;

pub use launch::launch_if_asked;
pub use message::{Layer, Limits};
pub use reward::{Check, CodeReward, CodeTask, Credit, Language};
pub use run::{Ended, Launcher, Program, Run, Sandbox, SandboxError};
