//! Runs cases: on the reference, in the library's host arithmetic, on tensors of a device.
//!
//! A case gives a list of [`Check`]s, one for each result it expects. A check knows how to get the numbers from the reference and how to get
//! them from the library; what the library does not have, it names ([`Stop::Unsupported`]).

mod advantages;
mod bandit;
mod bench;
mod config;
mod kl;
mod logits;
mod losses;
mod optim;
mod sampling;

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{DType, Device};
use grpo_kernels::device::computes;
use serde::de::DeserializeOwned;

pub(crate) use bench::{Bench, gradient_at as leaf_gradient};
pub(crate) use losses::run as losses_run;

use crate::cases::{self, Common, File, Float32};
use crate::compare::Compare;
use crate::report::{Checked, Column, Outcome, Report};
use crate::{Error, Precision, Result};

/// Why a check did not come to an end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The library does not have this; its name.
    Unsupported(String),
    /// Something failed.
    Broken(String),
}

impl From<grpo_core::Error> for Stop {
    fn from(error: grpo_core::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<grpo_core::BoxError> for Stop {
    fn from(error: grpo_core::BoxError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<String> for Stop {
    fn from(problem: String) -> Self {
        Self::Broken(problem)
    }
}

pub(crate) type Step = std::result::Result<(), Stop>;

type OnHost<'a> = Box<dyn Fn(&mut Compare) -> Step + 'a>;
type OnBench<'a> = Box<dyn Fn(&Bench, &mut Compare) -> Step + 'a>;

/// How the library is asked.
pub(crate) enum Library<'a> {
    /// Host arithmetic in f64: no device, no dtype.
    Host(OnHost<'a>),
    /// Tensors.
    Tensors(OnBench<'a>),
}

/// One result that a case expects.
pub(crate) struct Check<'a> {
    pub variant: String,
    pub reference: OnHost<'a>,
    pub library: Library<'a>,
}

/// A case that can be checked.
pub(crate) trait Golden: Common {
    /// Refuses lists that do not fit together.
    fn validate(&self) -> std::result::Result<(), String>;

    /// What it expects.
    fn checks(&self) -> Vec<Check<'_>>;
}

/// A parsed file of any kind.
pub(crate) trait AnyFile {
    fn run(&self, name: &str, device: &Device, precisions: &[Precision], report: &mut Report);
}

/// Parses the text of a file; what is wrong with it, if it does not fit.
type Parse = fn(&str) -> std::result::Result<Box<dyn AnyFile>, String>;

/// The files this suite knows.
pub(crate) const FILES: &[(&str, Parse)] = &[
    ("advantages.json", parse::<cases::ScalarCase>),
    ("advantages_multi.json", parse::<cases::MultiCase>),
    ("advantages_token.json", parse::<cases::TokenCase>),
    ("kl_estimators.json", parse::<cases::EstimatorCase>),
    ("kl_exact.json", parse::<cases::ExactCase>),
    ("losses.json", parse::<cases::LossCase>),
    ("logits.json", parse::<cases::LogitsCase>),
    ("optim.json", parse::<cases::OptimCase>),
    ("sampling.json", parse::<cases::SamplingCase>),
    ("bandit.json", parse::<cases::BanditCase>),
];

fn parse<C: Golden + DeserializeOwned + 'static>(text: &str) -> std::result::Result<Box<dyn AnyFile>, String> {
    let file: File<C> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if file.format != 1 {
        return Err(format!("format is {}, must be 1", file.format));
    }
    if file.cases.is_empty() && file.schedules.is_empty() {
        return Err("no case, must be at least one".to_owned());
    }
    let named = |case: &dyn Common, problem| format!("case `{}`: {problem}", case.name());
    file.cases.iter().try_for_each(|case| case.validate().map_err(|p| named(case, p)))?;
    file.schedules.iter().try_for_each(|case| case.validate().map_err(|p| named(case, p)))?;
    Ok(Box::new(file))
}

impl<C: Golden> AnyFile for File<C> {
    fn run(&self, name: &str, device: &Device, precisions: &[Precision], report: &mut Report) {
        let mut run = Run { file: name, tolerance: self.tolerance, device, precisions, report };
        self.cases.iter().enumerate().for_each(|(index, case)| run.case(index, case));
        self.schedules.iter().enumerate().for_each(|(index, case)| run.case(index, case));
    }
}

struct Run<'a> {
    file: &'a str,
    tolerance: cases::Tolerance,
    device: &'a Device,
    precisions: &'a [Precision],
    report: &'a mut Report,
}

impl Run<'_> {
    fn case<C: Golden>(&mut self, index: usize, case: &C) {
        let label = if case.name().is_empty() { format!("#{index}") } else { case.name().to_owned() };
        let float64 = case.tolerance_float64().unwrap_or(self.tolerance.float64);
        for check in case.checks() {
            let name = if check.variant.is_empty() { label.clone() } else { format!("{label} / {}", check.variant) };
            self.check(&name, Column::Reference, float64, &check.reference);
            match &check.library {
                Library::Host(run) => self.check(&name, Column::Host, float64, run),
                Library::Tensors(run) => {
                    for &precision in self.precisions {
                        let (column, tolerance, dtype) = match precision {
                            Precision::F32 => (Column::F32, self.tolerance.float32, DType::F32),
                            Precision::F64 => (Column::F64, float64, DType::F64),
                        };
                        if precision == Precision::F32 && case.float32() == Some(Float32::NotRepresentable) {
                            self.push(&name, column, Outcome::Skipped("not representable in float32".to_owned()));
                            continue;
                        }
                        let bench = Bench { device: self.device, dtype };
                        self.check(&name, column, tolerance, &|seen: &mut Compare| run(&bench, seen));
                    }
                }
            }
        }
    }

    fn check(&mut self, name: &str, column: Column, tolerance: f64, run: &dyn Fn(&mut Compare) -> Step) {
        let (outcome, left_out) = judge(tolerance, run);
        for what in left_out {
            let note = format!("{} {column}: {what}", self.file);
            if !self.report.notes.contains(&note) {
                self.report.notes.push(note);
            }
        }
        self.push(name, column, outcome);
    }

    fn push(&mut self, name: &str, column: Column, outcome: Outcome) {
        self.report.checks.push(Checked { file: self.file.to_owned(), name: name.to_owned(), column, outcome });
    }
}

/// Runs one check. A panic (burn panics where it meets what it did not expect) fails it, and no other. Also what was left out, by name.
pub(crate) fn judge(tolerance: f64, run: &dyn Fn(&mut Compare) -> Step) -> (Outcome, Vec<String>) {
    let mut seen = Compare::new(tolerance);
    let end = catch_unwind(AssertUnwindSafe(|| run(&mut seen)));
    let outcome = match end {
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
            Outcome::Broken(format!("panicked: {}", text.unwrap_or_default()))
        }
        Ok(Err(Stop::Unsupported(name))) => Outcome::Skipped(format!("not supported: {name}")),
        Ok(Err(Stop::Broken(problem))) => Outcome::Broken(problem),
        Ok(Ok(())) if !seen.mismatches.is_empty() => Outcome::Mismatched(seen.mismatches),
        Ok(Ok(())) if seen.compared == 0 => Outcome::Broken("compared nothing".to_owned()),
        Ok(Ok(())) => Outcome::Passed,
    };
    (outcome, seen.left_out)
}

/// The precisions of these that a device computes; asking for one by name that it does not compute is an error.
pub(crate) fn supported(device: &Device, asked: &[Precision]) -> Result<Vec<Precision>> {
    let has = |p: &Precision| {
        let dtype = match p {
            Precision::F32 => DType::F32,
            Precision::F64 => DType::F64,
        };
        computes(device, dtype)
    };
    match asked {
        [] => Ok([Precision::F32, Precision::F64].into_iter().filter(has).collect()),
        asked => asked.iter().find(|p| !has(p)).map_or(Ok(asked.to_vec()), |&missing| Err(Error::Precision(missing))),
    }
}
