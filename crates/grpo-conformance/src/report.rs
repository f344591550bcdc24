//! What ran, and what came of it.

use std::collections::BTreeMap;
use std::fmt;

use crate::compare::Mismatch;

/// Where a check ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Column {
    /// On the plain f64 reference, without tensors.
    Reference,
    /// In the library's host arithmetic, f64.
    Host,
    /// On tensors of 32 bits.
    F32,
    /// On tensors of 64 bits.
    F64,
    /// On tensors of 16 bits, 10 of them for digits.
    F16,
    /// On tensors of 16 bits, 7 of them for digits.
    BF16,
}

impl Column {
    /// All of them, in the order they are printed.
    pub const ALL: [Self; 6] = [Self::Reference, Self::Host, Self::F32, Self::F64, Self::F16, Self::BF16];
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reference => "reference",
            Self::Host => "host",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        })
    }
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Every number is right.
    Passed,
    /// Some number is wrong.
    Mismatched(Vec<Mismatch>),
    /// It could not be carried through.
    Broken(String),
    /// It was not run; why, as a name.
    Skipped(String),
}

/// One check: one expected result of one case, in one column.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Checked {
    /// The file it is from.
    pub file: String,
    /// The case and, where a case has several results, the variant.
    pub name: String,
    /// Where it ran.
    pub column: Column,
    /// What came of it.
    pub outcome: Outcome,
}

/// Every check of a run.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Report {
    /// In the order they ran.
    pub checks: Vec<Checked>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
}

/// Passed, failed and skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Every number was right.
    pub passed: usize,
    /// Some number was wrong, or the check broke.
    pub failed: usize,
    /// Not run.
    pub skipped: usize,
}

impl Report {
    /// How many passed.
    pub fn passed(&self) -> usize {
        self.tally(|_| true).passed
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.tally(|_| true).failed
    }

    /// How many were skipped.
    pub fn skipped(&self) -> usize {
        self.tally(|_| true).skipped
    }

    /// Whether something ran and nothing failed.
    pub fn is_green(&self) -> bool {
        self.failed() == 0 && self.passed() > 0
    }

    /// Counts the checks that `which` picks.
    pub fn tally(&self, which: impl Fn(&Checked) -> bool) -> Tally {
        self.checks.iter().filter(|c| which(c)).fold(Tally::default(), |mut tally, check| {
            match check.outcome {
                Outcome::Passed => tally.passed += 1,
                Outcome::Mismatched(_) | Outcome::Broken(_) => tally.failed += 1,
                Outcome::Skipped(_) => tally.skipped += 1,
            }
            tally
        })
    }

    /// What was skipped, by file, name and column, with how many checks.
    pub fn skips(&self) -> BTreeMap<(&str, &str, Column), usize> {
        let mut skips = BTreeMap::new();
        for check in &self.checks {
            if let Outcome::Skipped(why) = &check.outcome {
                *skips.entry((check.file.as_str(), why.as_str(), check.column)).or_insert(0) += 1;
            }
        }
        skips
    }

    fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = Vec::new();
        for check in &self.checks {
            if !files.contains(&check.file.as_str()) {
                files.push(&check.file);
            }
        }
        files
    }
}

/// How many wrong numbers of a check are printed.
const SHOWN: usize = 5;

impl fmt::Display for Report {
    /// A table, the failures, what was skipped, and a closing line `N passed, N failed, N skipped`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24}", "passed/failed/skipped")?;
        // Few runs have 16-bit columns; the others are always shown, so that a missing one is seen.
        let wide = |column: &Column| !matches!(column, Column::F16 | Column::BF16);
        let columns: Vec<Column> =
            Column::ALL.into_iter().filter(|column| wide(column) || self.checks.iter().any(|check| check.column == *column)).collect();
        for column in &columns {
            write!(f, "{column:>16}")?;
        }
        writeln!(f)?;
        for file in self.files() {
            write!(f, "{file:<24}")?;
            for &column in &columns {
                let tally = self.tally(|c| c.file == file && c.column == column);
                let cell =
                    if tally == Tally::default() { "-".into() } else { format!("{}/{}/{}", tally.passed, tally.failed, tally.skipped) };
                write!(f, "{cell:>16}")?;
            }
            writeln!(f)?;
        }
        for check in &self.checks {
            let at = format!("{} {} {}", check.file, check.column, check.name);
            match &check.outcome {
                Outcome::Mismatched(wrong) => {
                    wrong.iter().take(SHOWN).try_for_each(|mismatch| writeln!(f, "FAILED {at}: {mismatch}"))?;
                    if wrong.len() > SHOWN {
                        writeln!(f, "FAILED {at}: and {} more", wrong.len() - SHOWN)?;
                    }
                }
                Outcome::Broken(why) => writeln!(f, "FAILED {at}: {why}")?,
                Outcome::Passed | Outcome::Skipped(_) => {}
            }
        }
        for ((file, why, column), count) in self.skips() {
            writeln!(f, "skipped {file} {column}: {why} ({count})")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        write!(f, "{} passed, {} failed, {} skipped", self.passed(), self.failed(), self.skipped())
    }
}
