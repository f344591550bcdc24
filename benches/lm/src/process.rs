//! What the kernel says about this process: CPU time and memory. Linux only.

use std::time::Instant;

use grpo_core::BoxError;

/// The kernel's unit of CPU time in /proc, fixed at 100 a second on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A moment: wall clock and CPU time of all threads.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    wall: Instant,
    cpu: f64,
}

/// What passed since a moment.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// Seconds on the clock.
    pub wall: f64,
    /// Seconds of CPU, all threads together.
    pub cpu: f64,
}

impl Moment {
    /// Now.
    pub fn now() -> Result<Self, BoxError> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        // The program's name stands in brackets and may hold spaces: fields are counted behind it, user and system time are 14 and 15.
        let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1.split_whitespace().collect();
        let ticks = |field: usize| -> Result<f64, BoxError> { Ok(fields.get(field - 3).ok_or("/proc/self/stat is short")?.parse()?) };
        Ok(Self { wall: Instant::now(), cpu: (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND })
    }

    /// What has passed since.
    pub fn spent(self) -> Result<Spent, BoxError> {
        let now = Self::now()?;
        Ok(Spent { wall: (now.wall - self.wall).as_secs_f64(), cpu: now.cpu - self.cpu })
    }
}

/// Resident memory in MiB: `VmRSS` now, `VmHWM` at its highest.
pub fn memory(field: &str) -> Result<f64, BoxError> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).ok_or("a field is missing in /proc/self/status")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}
