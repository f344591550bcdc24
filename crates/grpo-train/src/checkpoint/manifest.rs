//! What a checkpoint says of itself, and whether it is true.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The format that this version writes and reads. It grows with every change that an older version would misread.
pub(crate) const FORMAT: u32 = 1;
/// The manifest's file.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The file that is written last. It holds the manifest's checksum.
pub(crate) const MARKER: &str = "complete";

/// A file as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// The list of a checkpoint's files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    /// The crate's version that wrote it.
    pub(crate) written_by: String,
    pub(crate) step: u64,
    pub(crate) files: BTreeMap<String, Entry>,
}

impl Manifest {
    pub(crate) fn new(step: u64) -> Self {
        Self { format: FORMAT, written_by: env!("CARGO_PKG_VERSION").to_owned(), step, files: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) {
        self.files.insert(name.to_owned(), Entry { bytes: bytes.len() as u64, sha256: hash(bytes) });
    }

    /// Reads and checks a checkpoint: marker, manifest, and every file.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn verify(folder: &Path) -> Result<Self, String> {
        let read = |name: &str| std::fs::read(folder.join(name)).map_err(|e| format!("`{name}`: {e}"));
        let marker = read(MARKER).map_err(|_| format!("has no file `{MARKER}`: it was never finished"))?;
        let text = read(MANIFEST)?;
        if marker != hash(&text).as_bytes() {
            return Err(format!("`{MANIFEST}` is damaged: its checksum is not the one in `{MARKER}`"));
        }
        // The format first: another one may have other fields.
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|e| format!("`{MANIFEST}`: {e}"))?;
        let format = value.get("format").and_then(serde_json::Value::as_u64);
        if format != Some(u64::from(FORMAT)) {
            let by = value.get("written_by").and_then(serde_json::Value::as_str).unwrap_or("an unknown version");
            let format = format.map_or_else(|| "no format".to_owned(), |f| format!("format {f}"));
            return Err(format!("has {format}, written by grpo-train {by}; this version reads format {FORMAT}"));
        }
        let manifest: Self = serde_json::from_value(value).map_err(|e| format!("`{MANIFEST}`: {e}"))?;
        for (name, entry) in &manifest.files {
            let (bytes, sha256) = hash_file(&folder.join(name)).map_err(|e| format!("`{name}`: {e}"))?;
            if bytes != entry.bytes {
                return Err(format!("`{name}` has {bytes} bytes, must have {}", entry.bytes));
            }
            if sha256 != entry.sha256 {
                return Err(format!("`{name}` is damaged: its checksum is {sha256}, must be {}", entry.sha256));
            }
        }
        Ok(manifest)
    }
}

/// Whether a folder was finished and its files have the lengths they must have: what can be told without reading them.
pub(crate) fn looks_whole(folder: &Path) -> bool {
    let read = |name: &str| std::fs::read(folder.join(name)).ok();
    let Some((marker, text)) = read(MARKER).zip(read(MANIFEST)) else { return false };
    let length = |name: &str| std::fs::metadata(folder.join(name)).map(|m| m.len()).ok();
    marker == hash(&text).as_bytes()
        && serde_json::from_slice::<Manifest>(&text).is_ok_and(|m| m.files.iter().all(|(name, entry)| length(name) == Some(entry.bytes)))
}

/// SHA-256 in hexadecimal.
pub(crate) fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Length and SHA-256 of a file, without holding it in memory.
fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut hash, mut total) = (File::open(path)?, Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((total, format!("{:x}", hash.finalize())));
        }
        hash.update(&buffer[..read]);
        total += read as u64;
    }
}
