//! A folder of golden vectors.

use std::fmt;
use std::path::Path;

use burn::tensor::Device;

use crate::error::{Error, Result};
use crate::report::{Checked, Column, Outcome, Report};
use crate::runner::{AnyFile, FILES, supported};

/// What tensors are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precision {
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// Files that stand among golden vectors and are checked by another program.
const ELSEWHERE: &[(&str, &str)] = &[("smollm2_reference.json", "needs a real model: `check-model` reads it")];

/// The golden vectors of a folder, parsed and checked for shapes.
pub struct Vectors {
    files: Vec<(&'static str, Box<dyn AnyFile>)>,
    unknown: Vec<String>,
    notes: Vec<String>,
}

impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.files.iter().map(|(name, _)| name)).finish()
    }
}

impl Vectors {
    /// Reads every `.json` file of a folder.
    ///
    /// # Errors
    /// A folder or file that cannot be read, a file that is not what its name says, a folder without any file of this suite.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let unreadable = |source| Error::Read { path: folder.to_owned(), source };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".json") {
                names.push(name);
            }
        }
        names.sort();
        let mut vectors = Self { files: Vec::new(), unknown: Vec::new(), notes: Vec::new() };
        for name in names {
            if let Some((name, parse)) = FILES.iter().find(|(known, _)| *known == name) {
                let path = folder.join(name);
                let text = std::fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
                vectors.files.push((name, parse(&text).map_err(|problem| Error::Malformed { path, problem })?));
            } else if let Some((name, why)) = ELSEWHERE.iter().find(|(known, _)| *known == name) {
                vectors.notes.push(format!("{name} {why}"));
            } else {
                vectors.unknown.push(name);
            }
        }
        if vectors.files.is_empty() {
            let known = FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return Err(Error::Empty { path: folder.to_owned(), known });
        }
        let missing = FILES.iter().filter(|(known, _)| vectors.files.iter().all(|(name, _)| name != known));
        vectors.notes.extend(missing.map(|(name, _)| format!("{name} is not there")));
        Ok(vectors)
    }

    /// Checks every case: on the reference, in host arithmetic, and on tensors of a device in the given precisions (none given: in all that it computes).
    ///
    /// # Errors
    /// A precision that was asked for and that the device does not compute.
    pub fn check(&self, device: &Device, precisions: &[Precision]) -> Result<Report> {
        let computed = supported(device, precisions)?;
        let mut report = Report { notes: self.notes.clone(), ..Report::default() };
        if precisions.is_empty() && !computed.contains(&Precision::F64) {
            report.notes.push("f64 is left out: the device does not compute it".to_owned());
        }
        for (name, file) in &self.files {
            file.run(name, device, &computed, &mut report);
        }
        for file in &self.unknown {
            let outcome = Outcome::Skipped("not supported: this file".to_owned());
            report.checks.push(Checked { file: file.clone(), name: String::new(), column: Column::Reference, outcome });
        }
        if !report.checks.iter().any(|check| matches!(check.column, Column::F32 | Column::F64)) {
            report.notes.push("no check ran on the device: what these files hold is host arithmetic".to_owned());
        }
        Ok(report)
    }
}
