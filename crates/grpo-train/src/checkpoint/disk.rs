//! The operations that change the disk, each of which may fail: one place to make sure of it, and to try it out.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// What a checkpoint is written with.
pub(crate) trait Disk: Send {
    /// Makes a folder that does not exist yet.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Writes a new file and waits until it is on the disk.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Waits until a folder's entries are on the disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Gives a file or folder another name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder with everything in it.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
}

/// The real one.
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create_new(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // Only Unix can open a folder to sync it; elsewhere a rename is on the disk when the system says so.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}
