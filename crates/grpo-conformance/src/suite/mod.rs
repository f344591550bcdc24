//! The operations that the library relies on, one file a topic. A backend that has them computes the library right; the golden vectors
//! then check the formulas.
//!
//! A case is an [`Op`]: tensor code beside plain loops over f64. Values are compared with the loops, gradients with central differences of the loops. What
//! cannot be said that way (infinities, bits, what must not happen) is a [`Behaviour`]. A name in brackets is a fault that others reported.

mod casts;
mod indexing;
mod layers;
mod losses;
mod masks;
mod op;
mod products;
mod reductions;
mod shapes;
mod softmax;
mod tools;
mod training;
mod upstream;

use burn::tensor::{DType, Device};
use grpo_kernels::device::computes;

use crate::report::{Checked, Column, Outcome, Report};
use crate::runner::{Bench, Step, judge};
use op::Op;

pub(crate) use crate::compare::Compare;

type Run = fn(&Bench<'_>, &mut Compare) -> Step;

/// A case that no plain loops can say.
struct Behaviour {
    name: &'static str,
    run: Run,
    /// The float types it is about.
    of: Widths,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Widths {
    Wide,
    Half,
    All,
}

impl Widths {
    fn has(self, dtype: DType) -> bool {
        self == Self::All || (self == Self::Half) == matches!(dtype, DType::F16 | DType::BF16)
    }
}

const fn wide(name: &'static str, run: Run) -> Behaviour {
    Behaviour { name, run, of: Widths::Wide }
}

const fn half(name: &'static str, run: Run) -> Behaviour {
    Behaviour { name, run, of: Widths::Half }
}

const fn all(name: &'static str, run: Run) -> Behaviour {
    Behaviour { name, run, of: Widths::All }
}

struct Topic {
    name: &'static str,
    ops: &'static [Op],
    behaviours: &'static [Behaviour],
}

const TOPICS: &[Topic] = &[
    Topic { name: "indexing", ops: indexing::OPS, behaviours: indexing::BEHAVIOURS },
    Topic { name: "shapes", ops: shapes::OPS, behaviours: shapes::BEHAVIOURS },
    Topic { name: "reductions", ops: reductions::OPS, behaviours: reductions::BEHAVIOURS },
    Topic { name: "masks", ops: masks::OPS, behaviours: masks::BEHAVIOURS },
    Topic { name: "softmax", ops: softmax::OPS, behaviours: softmax::BEHAVIOURS },
    Topic { name: "products", ops: products::OPS, behaviours: products::BEHAVIOURS },
    Topic { name: "casts", ops: &[], behaviours: casts::BEHAVIOURS },
    Topic { name: "layers", ops: layers::OPS, behaviours: layers::BEHAVIOURS },
    Topic { name: "losses", ops: &[], behaviours: losses::BEHAVIOURS },
    Topic { name: "training", ops: &[], behaviours: training::BEHAVIOURS },
];

/// What the library goes around.
const UPSTREAM: Topic = Topic { name: "upstream", ops: &[], behaviours: upstream::BEHAVIOURS };

/// How far a number may be off: |got − want| ≤ tolerance · max(1, |want|).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Tolerance {
    /// Of values.
    pub value: f64,
    /// Of gradients.
    pub gradient: f64,
}

impl Tolerance {
    /// Of this float type: a few roundings of its digits, over sums of some dozen terms. Gradients in f64 are held to the error of the central differences.
    fn of(dtype: DType) -> Self {
        let (value, gradient) = match dtype {
            DType::F64 => (1e-12, 1e-7),
            DType::F16 => (1e-2, 2e-2),
            DType::BF16 => (6e-2, 1.2e-1),
            _ => (1e-5, 2e-5),
        };
        Self { value, gradient }
    }
}

/// A case that a backend does not pass, and why.
#[derive(Debug, Clone, Copy)]
pub struct Exclusion {
    /// The case, by the end of its name.
    pub case: &'static str,
    /// The float types; none given: all.
    pub dtypes: &'static [DType],
    /// What happens.
    pub fate: Fate,
    /// Why, and where the library works around it.
    pub reason: &'static str,
}

/// What becomes of an excluded case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is run and must fail: when it passes, the fault has been mended upstream, and the check fails until the exclusion is taken out.
    Fails,
    /// It is not run: it would take the process or the device with it.
    NotRun,
}

/// The suite. By default the operations that the library relies on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Suite {
    exclusions: &'static [Exclusion],
    upstream: bool,
}

/// Runs every case on a device, in each of f32 and f64 that it computes.
pub fn suite(device: &Device) -> Report {
    Suite::default().run(device, &[DType::F32, DType::F64])
}

impl Suite {
    /// For backend crates: also the faults of burn that the library goes around, and without these cases.
    pub fn without(exclusions: &'static [Exclusion]) -> Self {
        Self { exclusions, upstream: true }
    }

    /// Runs the cases on a device in those of these float types that it computes; a note names the others.
    ///
    /// An exclusion that no case answers to is a failure: it would hide that a case was renamed.
    pub fn run(self, device: &Device, dtypes: &[DType]) -> Report {
        let mut report = Report::default();
        let mut used = vec![false; self.exclusions.len()];
        for &dtype in dtypes {
            let column = column(dtype);
            if !computes(device, dtype) {
                report.notes.push(format!("the device does not compute {column}"));
                continue;
            }
            let bench = Bench { device, dtype };
            let tolerance = Tolerance::of(dtype);
            for topic in TOPICS.iter().chain(self.upstream.then_some(&UPSTREAM)) {
                let mut check = |name: &str, run: &dyn Fn(&mut Compare) -> Step| {
                    let excluded = self.exclusions.iter().zip(&mut used).find(|(e, _)| e.fits(name, dtype)).map(|(exclusion, used)| {
                        *used = true;
                        exclusion
                    });
                    let outcome = match excluded {
                        Some(e) if e.fate == Fate::NotRun => Outcome::Skipped(e.reason.to_owned()),
                        Some(e) => excused(judge(tolerance.value, run).0, e.reason),
                        None => judge(tolerance.value, run).0,
                    };
                    report.checks.push(Checked { file: topic.name.to_owned(), name: name.to_owned(), column, outcome });
                };
                for op in topic.ops.iter().filter(|op| op.is_for(dtype)) {
                    check(op.name, &|seen| op.check(&bench, tolerance.gradient, seen));
                }
                for behaviour in topic.behaviours.iter().filter(|behaviour| behaviour.of.has(dtype)) {
                    check(behaviour.name, &|seen| (behaviour.run)(&bench, seen));
                }
            }
        }
        let about = |exclusion: &&Exclusion| exclusion.dtypes.is_empty() || exclusion.dtypes.iter().any(|d| dtypes.contains(d));
        for (exclusion, _) in self.exclusions.iter().zip(used).filter(|(e, used)| !used && about(e)) {
            let outcome = Outcome::Broken("an exclusion of no case".to_owned());
            report.checks.push(Checked { file: "exclusions".to_owned(), name: exclusion.case.to_owned(), column: Column::Host, outcome });
        }
        report
    }
}

impl Exclusion {
    fn fits(&self, name: &str, dtype: DType) -> bool {
        name == self.case && (self.dtypes.is_empty() || self.dtypes.contains(&dtype))
    }
}

fn excused(outcome: Outcome, reason: &str) -> Outcome {
    match outcome {
        Outcome::Mismatched(_) | Outcome::Broken(_) => Outcome::Skipped(reason.to_owned()),
        _ => Outcome::Broken(format!("passes, though it is excluded: take the exclusion out, and the way around it ({reason})")),
    }
}

fn column(dtype: DType) -> Column {
    match dtype {
        DType::F64 => Column::F64,
        DType::F16 => Column::F16,
        DType::BF16 => Column::BF16,
        _ => Column::F32,
    }
}
