//! The launcher's second stage: files, limits, the user, and at last the program.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use nix::mount::{MsFlags, mount};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use super::launch::socket;
use super::message::{Layer, Limits, Order};

/// Never returns if all goes well: the program takes this process's place. What went wrong is said to the first stage.
pub(super) fn second_stage() -> std::io::Result<()> {
    let socket = socket()?;
    let mut line = String::new();
    BufReader::new(&socket).read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let error = confined(&order).err().unwrap_or_else(|| std::io::Error::other("the program did not start"));
    std::io::Write::write_all(&mut &socket, format!("{}\n", error.to_string().replace('\n', " ")).as_bytes())
}

fn step<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> std::io::Result<T> {
    result.map_err(|error| std::io::Error::other(format!("{what}: {error}")))
}

fn confined(order: &Order) -> std::io::Result<()> {
    let wants = |layer| order.layers.contains(&layer);
    let root_outside = Uid::effective().is_root() && !in_user_namespace();
    if wants(Layer::ReadOnlyFiles) {
        read_only(&order.directory, order.limits.files)?;
        if wants(Layer::PidNamespace) {
            // Its own view of /proc; without it the program sees none.
            step(
                "mounting /proc",
                mount(Some("proc"), "/proc", Some("proc"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC, None::<&str>),
            )?;
        }
    }
    step("entering the directory", std::env::set_current_dir(&order.directory))?;
    for (name, content) in &order.files {
        step("writing a file", std::fs::write(name, content))?;
    }
    step("writing the input", std::fs::write(".input", &order.input))?;
    let input = step("opening the input", std::fs::File::open(".input"))?;
    step("removing the input", std::fs::remove_file(".input"))?;
    if wants(Layer::UnprivilegedUser) {
        let (uid, gid) = (Uid::from_raw(order.user), Gid::from_raw(order.user));
        step("giving the directory away", std::os::unix::fs::chown(&order.directory, Some(order.user), Some(order.user)))?;
        for (name, _) in &order.files {
            step("giving a file away", std::os::unix::fs::chown(name, Some(order.user), Some(order.user)))?;
        }
        step("dropping groups", setgroups(&[]))?;
        step("changing the group", setresgid(gid, gid, gid))?;
        step("changing the user", setresuid(uid, uid, uid))?;
    } else if !root_outside && in_user_namespace() {
        drop_namespace_rights()?;
    }
    // After the change of user, which clears it: the program dies with the launcher.
    step("tying the program to the launcher", prctl::set_pdeathsig(Signal::SIGKILL))?;
    step("forbidding new rights", prctl::set_no_new_privs())?;
    set_limits(&order.limits)?;
    if wants(Layer::Landlock) {
        restrict(&order.directory)?;
    }
    let [program, arguments @ ..] = order.command.as_slice() else { return Err(std::io::Error::other("no command")) };
    // The socket must not reach the program: it closes on exec, and standard input is replaced.
    Err(Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .env("HOME", &order.directory)
        .env("TMPDIR", &order.directory)
        .stdin(input)
        .exec())
}

/// Whether user ids here are not the system's.
fn in_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Within a user namespace of the launcher's: a further one, in which the program is nobody and owns no mount.
fn drop_namespace_rights() -> std::io::Result<()> {
    step("a second user namespace", nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER))?;
    step("setgroups", std::fs::write("/proc/self/setgroups", "deny"))?;
    step("mapping the user", std::fs::write("/proc/self/uid_map", "65534 0 1"))?;
    step("mapping the group", std::fs::write("/proc/self/gid_map", "65534 0 1"))
}

/// Makes every mount read-only, but for a new one in memory over the program's directory.
fn read_only(directory: &str, size: u64) -> std::io::Result<()> {
    let none = None::<&str>;
    step("keeping mounts private", mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))?;
    let table = step("reading the mounts", std::fs::read_to_string("/proc/self/mountinfo"))?;
    for line in table.lines() {
        let mut fields = line.split(' ').skip(4);
        let (Some(target), Some(options)) = (fields.next(), fields.next()) else { continue };
        let target = unescaped(target);
        // Flags that a mount has must be kept: within a user namespace they are locked.
        let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        for option in options.split(',') {
            flags |= match option {
                "nosuid" => MsFlags::MS_NOSUID,
                "nodev" => MsFlags::MS_NODEV,
                "noexec" => MsFlags::MS_NOEXEC,
                "noatime" => MsFlags::MS_NOATIME,
                "nodiratime" => MsFlags::MS_NODIRATIME,
                "relatime" => MsFlags::MS_RELATIME,
                _ => MsFlags::empty(),
            };
        }
        if mount(none, target.as_str(), none, flags, none).is_err() && !is_hidden(&target) {
            return Err(std::io::Error::other(format!("making {target} read-only")));
        }
    }
    let options = format!("size={size},nr_inodes=4096,mode=0700");
    step(
        "mounting the directory",
        mount(Some("sandbox"), directory, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options.as_str())),
    )
}

/// Whether a mount point cannot be reached, being under another mount.
fn is_hidden(target: &str) -> bool {
    std::fs::symlink_metadata(target).is_err() || ["/proc", "/sys"].iter().any(|p| target.starts_with(p))
}

/// The mount table writes blanks and backslashes as octal numbers.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")].iter().fold(text.to_owned(), |t, (from, to)| t.replace(from, to))
}

fn set_limits(limits: &Limits) -> std::io::Result<()> {
    let set = |resource, soft: u64, hard: u64| step("setting a limit", setrlimit(resource, soft, hard));
    set(Resource::RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1)?;
    set(Resource::RLIMIT_AS, limits.memory, limits.memory)?;
    set(Resource::RLIMIT_FSIZE, limits.files, limits.files)?;
    set(Resource::RLIMIT_NPROC, limits.processes, limits.processes)?;
    set(Resource::RLIMIT_NOFILE, 256, 256)?;
    set(Resource::RLIMIT_CORE, 0, 0)
}

/// Reading anywhere, writing only in the directory, no TCP.
fn restrict(directory: &str) -> std::io::Result<()> {
    let abi = ABI::V4;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(abi)))
        .and_then(|ruleset| ruleset.create())
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(["/"], AccessFs::from_read(abi))))
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules([directory, "/dev/null"], AccessFs::from_all(abi))))
        .and_then(|ruleset| ruleset.restrict_self());
    match step("Landlock", status)?.ruleset {
        RulesetStatus::NotEnforced => Err(std::io::Error::other("Landlock: the kernel does not have it")),
        _ => Ok(()),
    }
}
