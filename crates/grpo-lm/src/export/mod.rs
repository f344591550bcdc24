//! Models and LoRA adapters to files that other programs load.
//!
//! Every file is written beside its place, synced, and renamed into it: a failed or killed write leaves
//! the old file whole.

mod hf;
mod peft;

pub use hf::{WeightType, write_hf_folder};
pub use peft::{LoraFactors, PeftAdapter, read_peft, write_peft};

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use crate::checkpoint::HostTensor;
use crate::error::{Error, Result};

/// Writes a file by way of a temporary one beside it. `fill` gets the open temporary file.
fn write_atomically(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    // Two processes that write the same file do not share a temporary one.
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = (|| {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&partial)?);
        fill(&mut out)?;
        out.flush()?;
        out.get_ref().sync_all()?;
        std::fs::rename(&partial, path)?;
        sync_folder(path)
    })();
    written.map_err(|error| {
        // The first error is the one to tell; what is left behind is a partial file at worst.
        let _ = std::fs::remove_file(&partial);
        Error::io(path)(error)
    })
}

/// Makes the rename itself survive a power cut.
#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn write_json(path: &Path, value: &serde_json::Value) -> Result<()> {
    write_atomically(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(Error::io(folder))
}

/// Writes tensors in the safetensors format, one at a time: no second copy of the model in memory.
fn write_safetensors<'a>(path: &Path, tensors: impl Iterator<Item = (&'a str, &'a HostTensor)>, weights: WeightType) -> Result<()> {
    let mut all = Vec::new();
    for (name, tensor) in tensors {
        if tensor.shape.iter().product::<usize>() != tensor.data.len() {
            let reason = format!("{} values for shape {:?}", tensor.data.len(), tensor.shape);
            return Err(Error::tensor(path, name, reason));
        }
        all.push((name, Bytes { tensor, weights }));
    }
    // `transformers` refuses a file that does not say who wrote it.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let header = header(&all, metadata).map_err(|reason| Error::file(path, reason))?;
    write_atomically(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        for (_, bytes) in &all {
            out.write_all(&bytes.data())?;
        }
        Ok(())
    })
}

fn header(tensors: &[(&str, Bytes<'_>)], metadata: HashMap<String, String>) -> Result<Vec<u8>, String> {
    let mut infos = Vec::with_capacity(tensors.len());
    let mut offset = 0;
    for (name, bytes) in tensors {
        let end = offset + bytes.data_len();
        let info = TensorInfo { dtype: bytes.dtype(), shape: bytes.tensor.shape.clone(), data_offsets: (offset, end) };
        infos.push(((*name).to_owned(), info));
        offset = end;
    }
    let metadata = Metadata::new(Some(metadata), infos).map_err(|error| error.to_string())?;
    let mut header = serde_json::to_vec(&metadata).map_err(|error| error.to_string())?;
    // Tensors begin at a multiple of 8.
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}

struct Bytes<'a> {
    tensor: &'a HostTensor,
    weights: WeightType,
}

impl Bytes<'_> {
    fn dtype(&self) -> Dtype {
        match self.weights {
            WeightType::F32 => Dtype::F32,
            WeightType::F16 => Dtype::F16,
            WeightType::Bf16 => Dtype::BF16,
        }
    }

    fn data(&self) -> Vec<u8> {
        let data = &self.tensor.data;
        match self.weights {
            WeightType::F32 => data.iter().flat_map(|value| value.to_le_bytes()).collect(),
            WeightType::F16 => data.iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes()).collect(),
            WeightType::Bf16 => data.iter().flat_map(|value| half::bf16::from_f32(*value).to_le_bytes()).collect(),
        }
    }

    fn data_len(&self) -> usize {
        self.tensor.data.len() * (self.dtype().bitsize() / 8)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_fails_half_way_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        std::fs::write(&path, "good").unwrap();
        let result = write_atomically(&path, |out| {
            out.write_all(&vec![0; 3 << 20])?;
            Err(std::io::Error::other("disk full"))
        });
        assert!(result.unwrap_err().to_string().contains("disk full"));
        assert_eq!(std::fs::read(&path).unwrap(), b"good");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_tensor_whose_shape_lies_is_refused_before_the_old_file_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        std::fs::write(&path, "good").unwrap();
        let tensor = HostTensor { shape: vec![2, 2], data: vec![0.0; 3] };
        let tensors = [("w", &tensor)];
        let error = write_safetensors(&path, tensors.into_iter(), WeightType::F32).unwrap_err();
        assert!(error.to_string().contains("tensor w: 3 values for shape [2, 2]"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"good");
    }
}
