//! The launcher's second stage: files, limits, the user, and at last the program.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_remount};
use rustix::process::{Gid, Resource, Rlimit, Signal, Uid, geteuid, set_parent_process_death_signal, setrlimit};
use rustix::thread::{UnshareFlags, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::launch::{socket, unshare};
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
    let root_outside = geteuid().is_root() && !in_user_namespace();
    if wants(Layer::ReadOnlyFiles) {
        read_only(&order.directory, order.limits.files)?;
        if wants(Layer::PidNamespace) {
            // Its own view of /proc; without it the program sees none.
            step("mounting /proc", mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None))?;
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
        // Per thread, and this process has one.
        step("dropping groups", set_thread_groups(&[]))?;
        step("changing the group", set_thread_res_gid(gid, gid, gid))?;
        step("changing the user", set_thread_res_uid(uid, uid, uid))?;
    } else if !root_outside && in_user_namespace() {
        drop_namespace_rights()?;
    }
    // After the change of user, which clears it: the program dies with the launcher.
    step("tying the program to the launcher", set_parent_process_death_signal(Some(Signal::KILL)))?;
    step("forbidding new rights", set_no_new_privs(true))?;
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
    step("a second user namespace", unshare(UnshareFlags::NEWUSER))?;
    step("setgroups", std::fs::write("/proc/self/setgroups", "deny"))?;
    step("mapping the user", std::fs::write("/proc/self/uid_map", "65534 0 1"))?;
    step("mapping the group", std::fs::write("/proc/self/gid_map", "65534 0 1"))
}

/// Makes every mount read-only, but for a new one in memory over the program's directory.
fn read_only(directory: &str, size: u64) -> std::io::Result<()> {
    step("keeping mounts private", mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC))?;
    let table = step("reading the mounts", std::fs::read_to_string("/proc/self/mountinfo"))?;
    for line in table.lines() {
        let mut fields = line.split(' ').skip(4);
        let (Some(target), Some(options)) = (fields.next(), fields.next()) else { continue };
        let target = unescaped(target);
        // Flags that a mount has must be kept: within a user namespace they are locked.
        let mut flags = MountFlags::BIND | MountFlags::RDONLY;
        for option in options.split(',') {
            flags |= match option {
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                _ => MountFlags::empty(),
            };
        }
        if mount_remount(target.as_str(), flags, "").is_err() && !is_hidden(&target) {
            return Err(std::io::Error::other(format!("making {target} read-only")));
        }
    }
    let options = step("naming the size", std::ffi::CString::new(format!("size={size},nr_inodes=4096,mode=0700")))?;
    step("mounting the directory", mount("sandbox", directory, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str()))
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
    let set =
        |resource, soft: u64, hard: u64| step("setting a limit", setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) }));
    set(Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds + 1)?;
    set(Resource::As, limits.memory, limits.memory)?;
    set(Resource::Fsize, limits.files, limits.files)?;
    set(Resource::Nproc, limits.processes, limits.processes)?;
    set(Resource::Nofile, 256, 256)?;
    set(Resource::Core, 0, 0)
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
