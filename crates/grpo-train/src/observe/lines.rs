//! Files that grow by a line at a time, and can be cut back to a step.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A file that is only ever appended to, a whole line or record at once.
///
/// A write that fails half-way is taken back, and one that a kill cut off is taken back by [`cut`](Self::cut): in between, readers must
/// expect a torn last line.
#[derive(Debug)]
pub(crate) struct Appended {
    path: PathBuf,
    file: File,
    length: u64,
    /// What is there is of an earlier run, and goes as soon as something is written. Not before: a run may also be resumed at step 0.
    stale: bool,
}

impl Appended {
    /// Opens it. A new run begins a new file with its first write; one that goes on is cut before that.
    pub(crate) fn open(path: impl Into<PathBuf>, first_step: u64) -> Result<Self> {
        let path = path.into();
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let mut file = open.map_err(Error::io(&path))?;
        let length = file.seek(SeekFrom::End(0)).map_err(Error::io(&path))?;
        Ok(Self { path, file, length, stale: first_step == 0 })
    }

    /// Drops what an earlier run left.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if std::mem::take(&mut self.stale) { self.shorten(0) } else { Ok(()) }
    }

    /// Appends all of `bytes`, or nothing.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.begin()?;
        let written = self.file.write_all(bytes);
        if written.is_err() {
            // Best effort: if this fails as well, the next cut takes the torn end away.
            let _ = self.shorten(self.length);
        }
        written.map_err(Error::io(&self.path))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Keeps whole lines up to the first one that `keep` refuses, and drops the rest.
    pub(crate) fn cut(&mut self, mut keep: impl FnMut(&[u8]) -> bool) -> Result<()> {
        self.stale = false;
        let mut lines = BufReader::new(File::open(&self.path).map_err(Error::io(&self.path))?);
        let (mut good, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line).map_err(Error::io(&self.path))?;
            if line.last() != Some(&b'\n') || !keep(&line) {
                break;
            }
            good += read as u64;
        }
        self.shorten(good)
    }

    /// What was appended reaches the disk.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(Error::io(&self.path))
    }

    /// Cuts everything behind so many bytes.
    fn shorten(&mut self, length: u64) -> Result<()> {
        self.file.set_len(length).map_err(Error::io(&self.path))?;
        self.file.seek(SeekFrom::Start(length)).map_err(Error::io(&self.path))?;
        self.length = length;
        Ok(())
    }
}

/// The step of a line of JSON: the only thing that all of our lines have.
#[derive(serde::Deserialize)]
struct AtStep {
    step: u64,
}

/// Whether a line is not of `next` or a later step. What cannot be read is no reason to drop what follows it: readers count such lines.
pub(crate) fn is_before(next: u64) -> impl FnMut(&[u8]) -> bool {
    move |line| serde_json::from_slice::<AtStep>(line).map_or(true, |line| line.step < next)
}

/// Writes a file beside its place and renames it: readers find the old one or the new one, whole.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut file = File::create(&beside).map_err(Error::io(&beside))?;
    file.write_all(bytes).and_then(|()| file.sync_data()).map_err(Error::io(&beside))?;
    std::fs::rename(&beside, path).map_err(Error::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &Appended) -> String {
        std::fs::read_to_string(&file.path).unwrap()
    }

    #[test]
    fn later_steps_and_a_torn_last_line_are_cut_and_writing_goes_on_behind_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"step\":0,\"kl\":1}\n{\"step\":1}\n{\"step\":2}\n{\"st").unwrap();
        let mut file = Appended::open(&path, 2).unwrap();
        file.cut(is_before(2)).unwrap();
        file.append(b"{\"step\":2,\"again\":1}\n").unwrap();
        assert_eq!(read(&file), "{\"step\":0,\"kl\":1}\n{\"step\":1}\n{\"step\":2,\"again\":1}\n");
    }

    #[test]
    fn a_damaged_line_is_no_reason_to_drop_those_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"step\":0}\n{\"st!p\":1}\n{\"step\":2}\n{\"step\":3}\n").unwrap();
        let mut file = Appended::open(&path, 3).unwrap();
        file.cut(is_before(3)).unwrap();
        assert_eq!(read(&file), "{\"step\":0}\n{\"st!p\":1}\n{\"step\":2}\n");
    }

    #[test]
    fn a_line_without_its_line_break_counts_as_torn_even_if_it_parses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"step\":0}\n{\"step\":1}").unwrap();
        let mut file = Appended::open(&path, 9).unwrap();
        file.cut(is_before(9)).unwrap();
        assert_eq!(read(&file), "{\"step\":0}\n");
    }

    #[test]
    fn a_new_run_begins_a_new_file_unless_it_is_one_that_goes_on_from_step_0() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        for (resumed, expected) in [(true, "{\"step\":0}\nnew\n"), (false, "new\n")] {
            std::fs::write(&path, "{\"step\":0}\n{\"step\":1}\n").unwrap();
            let mut file = Appended::open(&path, 0).unwrap();
            if resumed {
                file.cut(is_before(1)).unwrap();
            }
            file.append(b"new\n").unwrap();
            assert_eq!(read(&file), expected);
        }
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = Appended::open("/nowhere/metrics.jsonl", 0).unwrap_err().to_string();
        assert!(error.contains("/nowhere/metrics.jsonl"), "{error}");
    }
}
