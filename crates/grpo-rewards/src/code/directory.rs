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

/// So deep, and along paths so long in bytes, a directory is descended into.
const MAX_DEPTH: usize = 128;
const MAX_PATH: usize = 2048;

/// Removes a directory, whatever the program made of it.
///
/// A program can nest directories deeper than a stack is high and a path may be long: what lies too deep is moved up, and comes next. Nothing
/// follows a link, and whoever could put one in the way is dead by now.
fn remove(top: &Path) -> Result<()> {
    let mut moved = 0_u64;
    loop {
        let mut progress = false;
        let mut open = vec![(top.to_owned(), fs::read_dir(top)?)];
        while let Some((directory, entries)) = open.last_mut() {
            let Some(entry) = entries.next() else {
                progress |= fs::remove_dir(directory).is_ok();
                open.pop();
                continue;
            };
            let entry = entry?;
            let path = entry.path();
            if !entry.file_type()?.is_dir() {
                progress |= fs::remove_file(&path).is_ok();
            } else if open.len() < MAX_DEPTH && path.as_os_str().len() < MAX_PATH {
                fs::set_permissions(&path, Permissions::from_mode(0o700))?;
                let inner = fs::read_dir(&path)?;
                open.push((path, inner));
            } else {
                moved += 1;
                progress |= fs::rename(&path, top.join(format!("moved-{moved}"))).is_ok();
            }
        }
        match fs::symlink_metadata(top) {
            Err(_) => return Ok(()),
            Ok(_) if progress => {}
            Ok(_) => return Err(Error::other("something in the directory cannot be removed")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn directories_nested_deeper_than_a_stack_is_high_are_removed() {
        // In memory where that is possible: disks take their time.
        let base = [PathBuf::from("/dev/shm"), std::env::temp_dir()].into_iter().find(|p| p.is_dir()).unwrap();
        let place = |name: &str| base.join(format!("grpo-{name}-{}", std::process::id()));
        let (mut inner, mut outer) = (place("inner"), place("outer"));
        fs::create_dir(&inner).unwrap();
        // From the inside out: no path is ever long.
        for level in 0..20_000 {
            fs::create_dir(&outer).unwrap();
            fs::rename(&inner, outer.join("deep")).unwrap();
            if level % 1000 == 0 {
                fs::write(outer.join("file"), "x").unwrap();
                std::os::unix::fs::symlink(&base, outer.join("link")).unwrap();
            }
            std::mem::swap(&mut inner, &mut outer);
        }
        remove(&inner).unwrap();
        assert!(!inner.exists() && base.exists());
    }
}
