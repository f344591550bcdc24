//! A folder of checkpoints.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::disk::{Disk, RealDisk};
use super::manifest::{MANIFEST, MARKER, Manifest, hash, looks_whole};
use crate::error::{Error, Result};

/// A checkpoint that was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// Its folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// The folders `step-N` in a folder, newest first, by number: `step-10` comes before `step-9`. Finished or not.
///
/// # Errors
/// A folder that cannot be read. One that does not exist has no checkpoints.
pub fn list(folder: impl AsRef<Path>) -> Result<Vec<(u64, PathBuf)>> {
    let folder = folder.as_ref();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io(folder))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io(folder))?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let step = name.strip_prefix("step-").and_then(|n| n.parse::<u64>().ok());
        // Only the name that we would give: `step-07` is somebody else's.
        found.extend(step.filter(|step| name == folder_name(*step)).map(|step| (step, path)));
    }
    found.sort_by_key(|(step, _)| std::cmp::Reverse(*step));
    Ok(found)
}

/// Whether a folder has any finished checkpoint, damaged or not.
///
/// # Errors
/// A folder that cannot be read. One that does not exist has none.
pub fn has_any(folder: impl AsRef<Path>) -> Result<bool> {
    Ok(list(folder)?.iter().any(|(_, path)| path.join(MARKER).exists()))
}

fn folder_name(step: u64) -> String {
    format!("step-{step}")
}

/// A folder of checkpoints that one run writes to.
pub(crate) struct Store {
    folder: PathBuf,
    disk: Box<dyn Disk>,
    /// Held as long as the run: the system frees it however the process ends.
    _lock: Option<File>,
}

impl Store {
    /// Opens a folder, makes it if need be, and makes sure that it can be written to and that no other run does.
    ///
    /// # Errors
    /// A folder that cannot be made or written to; another run that writes to it.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let path = folder.join(".lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(Error::io(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Checkpoint { path: folder.to_owned(), problem: "another run writes to this folder".to_owned() });
            }
            // A file system without locks is no reason not to train.
            Err(TryLockError::Error(error)) => tracing::warn!("{}: cannot be locked: {error}", path.display()),
        }
        Ok(Self { folder: folder.to_owned(), disk: Box::new(RealDisk), _lock: Some(lock) })
    }

    /// A folder to read from, also while a run writes to it, and where nothing may be written.
    pub(crate) fn reader(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), disk: Box::new(RealDisk), _lock: None }
    }

    #[cfg(test)]
    pub(crate) fn with_disk(folder: &Path, disk: impl Disk + 'static) -> Self {
        Self { folder: folder.to_owned(), disk: Box::new(disk), _lock: None }
    }

    /// Where a checkpoint of this step is, or will be.
    pub(crate) fn path(&self, step: u64) -> PathBuf {
        self.folder.join(folder_name(step))
    }

    /// Whether there is any finished checkpoint, damaged or not.
    pub(crate) fn has_any(&self) -> Result<bool> {
        has_any(&self.folder)
    }

    /// The newest checkpoint that is whole, and those that were refused on the way. Unfinished ones are refused, too: they are named, and
    /// harmless.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub(crate) fn newest(&self) -> Result<(Option<Loaded>, Vec<Refused>)> {
        let mut refused = Vec::new();
        for (step, path) in list(&self.folder)? {
            match Manifest::verify(&path) {
                Ok(manifest) if manifest.step == step => return Ok((Some(Loaded { path, manifest }), refused)),
                Ok(manifest) => refused.push(Refused { path, problem: format!("is of step {}, must be of step {step}", manifest.step) }),
                Err(problem) => refused.push(Refused { path, problem }),
            }
        }
        Ok((None, refused))
    }

    /// Starts a checkpoint: files go to a folder beside, which no one takes for a checkpoint.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub(crate) fn begin(&self, step: u64) -> Result<Draft<'_>> {
        self.clean()?;
        let folder = self.folder.join(format!(".step-{step}.partial"));
        self.disk.create_folder(&folder).map_err(Error::io(&folder))?;
        Ok(Draft { store: self, step, folder, manifest: Manifest::new(step) })
    }

    /// Removes what runs that were killed left behind.
    fn clean(&self) -> Result<()> {
        for entry in fs::read_dir(&self.folder).map_err(Error::io(&self.folder))? {
            let path = entry.map_err(Error::io(&self.folder))?.path();
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with(".step-") && (name.ends_with(".partial") || name.ends_with(".old")) {
                self.disk.remove_folder(&path).map_err(Error::io(&path))?;
            }
        }
        Ok(())
    }

    /// Removes all checkpoints but the newest `keep_last` and those of `keep`. Called after that of the step `written` is complete. What cannot be removed is
    /// reported and left: a full folder is no reason to lose a run.
    pub(crate) fn prune(&self, written: u64, keep_last: usize, keep: Option<u64>) {
        let Ok(mut found) = list(&self.folder) else { return };
        // What is newer was refused when the run went on: it counts for nothing, and is written over when the run gets there.
        found.retain(|(step, _)| *step <= written);
        let (whole, broken): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, path)| looks_whole(path));
        let old = whole.into_iter().skip(keep_last).filter(|(step, _)| Some(*step) != keep);
        for (_, path) in old.chain(broken) {
            // The marker goes first: what is half removed is no checkpoint.
            let marker = path.join(MARKER);
            let unmarked = if marker.exists() { self.disk.remove_file(&marker) } else { Ok(()) };
            if let Err(error) = unmarked.and_then(|()| self.disk.remove_folder(&path)) {
                tracing::warn!("{}: an old checkpoint cannot be removed: {error}", path.display());
            }
        }
    }
}

/// A checkpoint that is being written.
pub(crate) struct Draft<'a> {
    store: &'a Store,
    step: u64,
    folder: PathBuf,
    manifest: Manifest,
}

impl Draft<'_> {
    /// Adds a file.
    ///
    /// # Errors
    /// A disk that is full, or fails otherwise.
    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        self.store.disk.write(&path, bytes).map_err(Error::io(&path))?;
        self.manifest.add(name, bytes);
        Ok(())
    }

    /// Makes it a checkpoint.
    ///
    /// # Errors
    /// As [`add`](Self::add). What was there before is still there.
    pub(crate) fn finish(self) -> Result<PathBuf> {
        let Self { store, step, folder, manifest } = self;
        let disk = &store.disk;
        let text = serde_json::to_vec_pretty(&manifest).map_err(|e| Error::invalid("manifest", e.to_string()))?;
        let path = folder.join(MANIFEST);
        disk.write(&path, &text).map_err(Error::io(&path))?;
        disk.sync_folder(&folder).map_err(Error::io(&folder))?;
        let target = store.path(step);
        // One of the same step is there if it was damaged, and the run came past it again. It makes room, and is no checkpoint from then on.
        if target.exists() {
            let aside = store.folder.join(format!(".step-{step}.old"));
            disk.rename(&target, &aside).map_err(Error::io(&target))?;
        }
        disk.rename(&folder, &target).map_err(Error::io(&folder))?;
        disk.sync_folder(&store.folder).map_err(Error::io(&store.folder))?;
        let marker = target.join(MARKER);
        disk.write(&marker, hash(&text).as_bytes()).map_err(Error::io(&marker))?;
        disk.sync_folder(&target).map_err(Error::io(&target))?;
        Ok(target)
    }
}

/// A checkpoint that is whole.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) path: PathBuf,
    manifest: Manifest,
}

impl Loaded {
    /// The steps before it.
    pub(crate) fn step(&self) -> u64 {
        self.manifest.step
    }

    /// A file of it, if it has one of this name.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if !self.manifest.files.contains_key(name) {
            return Ok(None);
        }
        let path = self.path.join(name);
        fs::read(&path).map(Some).map_err(Error::io(&path))
    }

    /// A file that every checkpoint has.
    ///
    /// # Errors
    /// A file that is not there or cannot be read.
    pub(crate) fn require(&self, name: &str) -> Result<Vec<u8>> {
        self.read(name)?.ok_or_else(|| self.problem(format!("has no file `{name}`")))
    }

    /// An error that names the checkpoint.
    pub(crate) fn problem(&self, problem: impl std::fmt::Display) -> Error {
        Error::Checkpoint { path: self.path.clone(), problem: problem.to_string() }
    }
}
