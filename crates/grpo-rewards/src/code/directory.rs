//! The program's directory, and its end.

use std::fs::{self, Permissions};
use std::io::{Error, Result};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that only its maker may enter, and that goes when this does.
pub(super) struct Directory {
    pub(super) path: PathBuf,
}

impl Directory {
    pub(super) fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("grpo-sandbox-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path: path.canonicalize()? })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Nobody is told: what is left then is the system's to clean up.
        let _ = remove(&self.path);
    }
}

/// Removes a directory, whatever the program made of it.
///
/// A program can nest directories deeper than a stack is high or a path is long, so what a directory holds is moved up rather than descended
/// into. Nothing follows a link, and whoever could put one in the way is dead by now.
fn remove(top: &Path) -> Result<()> {
    let mut moved = 0_u64;
    loop {
        let mut progress = false;
        for entry in fs::read_dir(top)? {
            let entry = entry?;
            let path = entry.path();
            if !entry.file_type()?.is_dir() {
                progress |= fs::remove_file(&path).is_ok();
                continue;
            }
            fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            for inner in fs::read_dir(&path)? {
                moved += 1;
                progress |= fs::rename(inner?.path(), top.join(format!("moved-{moved}"))).is_ok();
            }
            progress |= fs::remove_dir(&path).is_ok();
        }
        if fs::remove_dir(top).is_ok() {
            return Ok(());
        }
        if !progress {
            return Err(Error::other("something in the directory cannot be removed"));
        }
    }
}
