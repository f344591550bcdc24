//! The header of a GGUF file: metadata, and where each tensor lies.
//!
//! Read here and not with a library, so that a type that cannot be read is refused with the name of its
//! tensor, and no count in a damaged file is believed before it is held against the size of the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek as _};
use std::path::{Path, PathBuf};

use super::blocks::BlockType;
use crate::checkpoint::count;
use crate::error::{Error, Result};

/// A value of the metadata; arrays by what they hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Whole(i128),
    Real(f64),
    Switch(bool),
    Text(String),
    Wholes(Vec<i64>),
    Texts(Vec<String>),
    /// An array that no model needs.
    Other,
}

#[derive(Debug)]
pub(super) struct TensorInfo {
    /// In Hugging Face's order: [out, in].
    pub(super) shape: Vec<usize>,
    pub(super) block_type: BlockType,
    /// From the start of the file.
    pub(super) start: u64,
    pub(super) bytes: usize,
}

pub(super) struct Header {
    pub(super) path: PathBuf,
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) tensors: BTreeMap<String, TensorInfo>,
}

pub(super) fn read(path: &Path, file: &mut File) -> Result<Header> {
    let size = file.metadata().map_err(Error::io(path))?.len();
    let mut reader = Reader { path, inner: BufReader::new(file), left: size };
    reader.bytes::<4>()?;
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        return Err(Error::unsupported("GGUF version", version, "2, 3"));
    }
    let tensor_count = reader.u64()?;
    let metadata_count = reader.u64()?;
    // The least that an entry takes: length of the name, type, value; or ranks, type and offset.
    reader.fits(metadata_count, 13, "metadata entries")?;
    reader.fits(tensor_count, 24, "tensors")?;

    let mut metadata = BTreeMap::new();
    for _ in 0..metadata_count {
        let key = reader.text("a metadata key")?;
        let kind = reader.u32()?;
        let value = reader.value(&key, kind)?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(reader.bad(format!("metadata {key} is there twice")));
        }
    }
    let mut entries = BTreeMap::new();
    for _ in 0..tensor_count {
        let name = reader.text("the name of a tensor")?;
        let entry = reader.tensor(&name)?;
        if entries.insert(name.clone(), entry).is_some() {
            return Err(Error::tensor(path, &name, "is there twice"));
        }
    }
    let alignment = match metadata.get("general.alignment") {
        None => 32,
        Some(Value::Whole(alignment @ 1..=0x1_0000)) => *alignment as u64,
        Some(other) => {
            let reason = format!("general.alignment = {other:?}, must be from 1 to 65536");
            return Err(reader.bad(reason));
        }
    };
    let here = reader.inner.stream_position().map_err(Error::io(path))?;
    let data_start = here.next_multiple_of(alignment);
    place(path, entries, data_start, size).map(|tensors| Header { path: path.to_path_buf(), metadata, tensors })
}

/// A tensor as its entry says, not yet held against the size of the file.
type Entry = (Vec<usize>, BlockType, u64);

fn place(path: &Path, entries: BTreeMap<String, Entry>, data_start: u64, size: u64) -> Result<BTreeMap<String, TensorInfo>> {
    let mut tensors = BTreeMap::new();
    let mut total = 0u64;
    for (name, (shape, block_type, offset)) in entries {
        let bytes = count(&shape).and_then(|elements| block_type.bytes(elements));
        let row = shape.last().copied().unwrap_or(0);
        let Some(bytes) = bytes.filter(|_| row.is_multiple_of(block_type.elements())) else {
            let reason =
                format!("shape {shape:?} of {} is not made of rows of whole blocks of {}", block_type.name(), block_type.elements(),);
            return Err(Error::tensor(path, &name, reason));
        };
        let start = data_start.saturating_add(offset);
        let end = start.saturating_add(bytes as u64);
        if end > size {
            let reason = format!("truncated: ends at byte {end} of a file of {size}");
            return Err(Error::tensor(path, &name, reason));
        }
        total = total.saturating_add(bytes as u64);
        tensors.insert(name, TensorInfo { shape, block_type, start, bytes });
    }
    // Tensors that share bytes would let a small file ask for any amount of memory.
    if total > size {
        return Err(Error::file(path, format!("damaged: tensors of {total} bytes in a file of {size}")));
    }
    Ok(tensors)
}

struct Reader<'a> {
    path: &'a Path,
    inner: BufReader<&'a mut File>,
    left: u64,
}

impl Reader<'_> {
    fn bad(&self, reason: impl Into<String>) -> Error {
        Error::file(self.path, reason)
    }

    /// Refuses a count that the rest of the file has no room for.
    fn fits(&self, count: u64, least: u64, what: &str) -> Result<()> {
        if count.saturating_mul(least) <= self.left {
            return Ok(());
        }
        Err(self.bad(format!("truncated or damaged: {count} {what} in the last {} bytes", self.left)))
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.fits(N as u64, 1, "bytes")?;
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes).map_err(Error::io(self.path))?;
        self.left -= N as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn text(&mut self, what: &str) -> Result<String> {
        let length = self.u64()?;
        self.fits(length, 1, "bytes of text")?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.inner.read_exact(&mut bytes).map_err(Error::io(self.path))?;
        self.left -= length;
        String::from_utf8(bytes).map_err(|_| self.bad(format!("damaged: {what} is not UTF-8")))
    }

    fn value(&mut self, key: &str, kind: u32) -> Result<Value> {
        Ok(match kind {
            6 => {
                let value = f32::from_le_bytes(self.bytes()?);
                // The decimal number that was meant: 1e-5, not 9.99999974…e-6.
                Value::Real(value.to_string().parse().unwrap_or(f64::from(value)))
            }
            12 => Value::Real(f64::from_le_bytes(self.bytes()?)),
            7 => Value::Switch(self.bytes::<1>()? != [0]),
            8 => Value::Text(self.text(key)?),
            9 => self.array(key)?,
            other => Value::Whole(self.whole(key, other)?),
        })
    }

    fn whole(&mut self, key: &str, kind: u32) -> Result<i128> {
        Ok(match kind {
            0 => u8::from_le_bytes(self.bytes()?).into(),
            1 => i8::from_le_bytes(self.bytes()?).into(),
            2 => u16::from_le_bytes(self.bytes()?).into(),
            3 => i16::from_le_bytes(self.bytes()?).into(),
            4 => self.u32()?.into(),
            5 => i32::from_le_bytes(self.bytes()?).into(),
            10 => self.u64()?.into(),
            11 => i64::from_le_bytes(self.bytes()?).into(),
            other => return Err(self.bad(format!("damaged: metadata {key} has the unknown type {other}"))),
        })
    }

    fn array(&mut self, key: &str) -> Result<Value> {
        let kind = self.u32()?;
        let length = self.u64()?;
        let least = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            other => {
                return Err(self.bad(format!("metadata {key} is an array of the unknown type {other}")));
            }
        };
        self.fits(length, least, "array elements")?;
        Ok(match kind {
            8 => Value::Texts((0..length).map(|_| self.text(key)).collect::<Result<_>>()?),
            6 | 7 | 12 => {
                for _ in 0..length * least {
                    self.bytes::<1>()?;
                }
                Value::Other
            }
            kind => Value::Wholes(
                (0..length).map(|_| Ok(self.whole(key, kind)?.clamp(i64::MIN.into(), i64::MAX.into()) as i64)).collect::<Result<_>>()?,
            ),
        })
    }

    fn tensor(&mut self, name: &str) -> Result<Entry> {
        let rank = self.u32()?;
        if !(1..=4).contains(&rank) {
            return Err(Error::tensor(self.path, name, format!("rank {rank}, must be from 1 to 4")));
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            // A size beyond the address space overflows the count of elements too.
            shape.push(usize::try_from(self.u64()?).unwrap_or(usize::MAX));
        }
        // GGUF writes the innermost size first.
        shape.reverse();
        let code = self.u32()?;
        let offset = self.u64()?;
        let Some(block_type) = BlockType::from_code(code) else {
            let reason = format!("type {} is not supported; supported: {}", BlockType::foreign_name(code), BlockType::supported(),);
            return Err(Error::tensor(self.path, name, reason));
        };
        Ok((shape, block_type, offset))
    }
}
