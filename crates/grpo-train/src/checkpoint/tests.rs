use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;

use super::disk::{Disk, RealDisk};
use super::manifest::{FORMAT, MANIFEST, MARKER, Manifest, hash};
use super::store::{Store, list};

/// What happens from the failing operation on.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    /// This one fails, half-done; later ones work: a full disk that was given room.
    Once,
    /// Nothing works any more: the process is dead.
    ForGood,
}

/// A disk whose n-th operation fails.
struct Failing {
    left: Cell<usize>,
    fault: Fault,
}

impl Failing {
    fn try_it(&self, half: impl FnOnce(), whole: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self.left.get() {
            0 => Err(io::ErrorKind::StorageFull.into()),
            1 => {
                half();
                self.left.set(if self.fault == Fault::Once { usize::MAX } else { 0 });
                Err(io::ErrorKind::StorageFull.into())
            }
            n => {
                self.left.set(n - 1);
                whole()
            }
        }
    }
}

impl Disk for Failing {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.try_it(|| (), || RealDisk.create_folder(path))
    }
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.try_it(|| fs::write(path, &bytes[..bytes.len() / 2]).unwrap(), || RealDisk.write(path, bytes))
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.try_it(|| (), || RealDisk.sync_folder(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.try_it(|| (), || RealDisk.rename(from, to))
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.try_it(|| (), || RealDisk.remove_file(path))
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        // Half a removal: one file is gone.
        let half = || fs::read_dir(path).unwrap().take(1).for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
        self.try_it(half, || RealDisk.remove_folder(path))
    }
}

fn save(store: &Store, step: u64, keep_last: usize, keep: Option<u64>) -> crate::Result<()> {
    let mut draft = store.begin(step)?;
    draft.add("a", format!("weights of {step}").as_bytes())?;
    draft.add("b", &[7; 1000])?;
    draft.finish()?;
    store.prune(step, keep_last, keep);
    Ok(())
}

fn newest(folder: &Path) -> Option<u64> {
    let loaded = Store::with_disk(folder, RealDisk).newest().unwrap().0?;
    let text = String::from_utf8(loaded.require("a").unwrap()).unwrap();
    Some(text.strip_prefix("weights of ").unwrap().parse().unwrap())
}

fn steps(folder: &Path) -> Vec<u64> {
    list(folder).unwrap().into_iter().map(|(step, _)| step).collect()
}

#[test]
fn c01_and_c06_whatever_operation_of_a_save_fails_the_checkpoint_before_is_still_there() {
    for fault in [Fault::Once, Fault::ForGood] {
        let mut failed = 0;
        for operation in 1..40 {
            let folder = tempfile::tempdir().unwrap();
            save(&Store::with_disk(folder.path(), RealDisk), 10, 1, None).unwrap();
            let store = Store::with_disk(folder.path(), Failing { left: Cell::new(operation), fault });
            let saved = save(&store, 20, 1, None);
            failed += usize::from(saved.is_err());
            match newest(folder.path()) {
                Some(10) => assert!(saved.is_err(), "operation {operation}: a save that succeeded is not there"),
                Some(20) => {}
                other => panic!("operation {operation}, {fault:?}: the newest is {other:?}"),
            }
            // And the next save works, whatever was left behind.
            save(&Store::with_disk(folder.path(), RealDisk), 30, 1, None).unwrap();
            assert_eq!((newest(folder.path()), steps(folder.path())), (Some(30), vec![30]), "operation {operation}, {fault:?}");
        }
        assert!((8..39).contains(&failed), "{failed} operations failed: the test must reach past the last one");
    }
}

#[test]
fn c01_a_damaged_checkpoint_of_the_same_step_is_replaced_and_no_good_one_lost_on_the_way() {
    for operation in 1..14 {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::with_disk(folder.path(), RealDisk);
        save(&store, 10, 9, None).unwrap();
        save(&store, 20, 9, None).unwrap();
        fs::write(folder.path().join("step-20/a"), "damaged").unwrap();
        let _ = save(&Store::with_disk(folder.path(), Failing { left: Cell::new(operation), fault: Fault::ForGood }), 20, 9, None);
        assert!(matches!(newest(folder.path()), Some(10 | 20)));
    }
}

#[test]
fn c06_newer_checkpoints_that_were_refused_never_push_out_the_one_just_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::with_disk(folder.path(), RealDisk);
    save(&store, 10, 2, None).unwrap();
    save(&store, 20, 2, None).unwrap();
    // Of the right length: only its checksum tells.
    fs::write(folder.path().join("step-20/a"), "weights of 2O").unwrap();
    assert_eq!(newest(folder.path()), Some(10));
    save(&store, 15, 1, None).unwrap();
    assert_eq!((newest(folder.path()), steps(folder.path())), (Some(15), vec![20, 15]));
    save(&store, 20, 1, None).unwrap();
    assert_eq!((newest(folder.path()), steps(folder.path())), (Some(20), vec![20]));
}

#[test]
fn c02_a_truncated_flipped_or_missing_file_is_refused_by_name_and_the_one_before_is_taken() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage, &str); 7] = [
        ("a", |p| fs::write(p, &fs::read(p).unwrap()[..6]).unwrap(), "`a` has 6 bytes, must have 13"),
        ("a", |p| fs::write(p, "weights of 2O").unwrap(), "`a` is damaged"),
        ("b", |p| fs::remove_file(p).unwrap(), "`b`: "),
        ("b", |p| fs::write(p, "").unwrap(), "`b` has 0 bytes, must have 1000"),
        (MANIFEST, |p| fs::write(p, "{}").unwrap(), "`manifest.json` is damaged"),
        (MANIFEST, |p| fs::remove_file(p).unwrap(), "`manifest.json`: "),
        (MARKER, |p| fs::write(p, "").unwrap(), "`manifest.json` is damaged"),
    ];
    for (file, damage, message) in damages {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::with_disk(folder.path(), RealDisk);
        save(&store, 10, 9, None).unwrap();
        save(&store, 20, 9, None).unwrap();
        damage(&folder.path().join("step-20").join(file));
        let (loaded, refused) = store.newest().unwrap();
        assert!(loaded.unwrap().path.ends_with("step-10"));
        assert!(refused[0].path.ends_with("step-20") && refused[0].problem.contains(message), "{refused:?}");
    }
}

#[test]
fn c04_a_half_written_folder_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::with_disk(folder.path(), RealDisk);
    save(&store, 10, 9, None).unwrap();
    save(&store, 20, 9, None).unwrap();
    fs::remove_file(folder.path().join("step-20").join(MARKER)).unwrap();
    assert_eq!(newest(folder.path()), Some(10));
    assert!(store.newest().unwrap().1[0].problem.contains("never finished"));
}

#[test]
fn c13_the_newest_is_the_one_with_the_largest_number() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::with_disk(folder.path(), RealDisk);
    for step in [2, 10, 9] {
        save(&store, step, 9, None).unwrap();
    }
    for foreign in ["step-011", "step-12a", "step-", "13"] {
        fs::create_dir(folder.path().join(foreign)).unwrap();
    }
    assert_eq!(steps(folder.path()), [10, 9, 2]);
    assert_eq!(newest(folder.path()), Some(10));
}

#[test]
fn c16_a_checkpoint_of_another_format_names_the_version_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::with_disk(folder.path(), RealDisk);
    save(&store, 10, 9, None).unwrap();
    let path = folder.path().join("step-10");
    let text = format!(r#"{{"format": {}, "written_by": "9.0.0", "layout": "new"}}"#, FORMAT + 1);
    fs::write(path.join(MANIFEST), &text).unwrap();
    fs::write(path.join(MARKER), hash(text.as_bytes())).unwrap();
    let problem = Manifest::verify(&path).unwrap_err();
    assert_eq!(problem, "has format 2, written by grpo-train 9.0.0; this version reads format 1");
}

#[test]
fn the_last_ones_and_the_best_one_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::with_disk(folder.path(), RealDisk);
    for step in 1..=6 {
        save(&store, step, 2, Some(3)).unwrap();
    }
    assert_eq!(steps(folder.path()), [6, 5, 3]);
}

#[test]
fn two_runs_cannot_write_to_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = Store::open(folder.path()).unwrap();
    let error = Store::open(folder.path()).map(|_| ()).unwrap_err();
    assert!(error.to_string().ends_with("another run writes to this folder"), "{error}");
    drop(first);
    assert!(Store::open(folder.path()).is_ok());
}
