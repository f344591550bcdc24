//! Whether two mathematical answers are equal.
//!
//! Exact arithmetic first: integers and rationals of any size, sums and products over symbols, roots, π and e in a normal form. Only where
//! that leaves a difference made of functions and nested roots is it evaluated at several points, to hundreds of bits: see [`How::AtPoints`].
//! Everything is bounded in length, depth, size and work.

mod algebra;
mod brackets;
mod check;
mod compare;
mod complex;
mod eval;
mod expression;
mod find;
mod float;
mod functions;
mod gold;
mod infix;
mod literal;
mod numeric;
mod operand;
mod parse;
mod poly;
mod power;
mod product;
mod relation;
mod text;
mod token;
mod tree;
mod value;
mod verdict;
mod words;

pub use check::{MathAnswer, Search};
pub(crate) use expression::exact_expression;
pub use verdict::{How, Outcome, Verdict};

/// How close two numbers must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Tolerance {
    /// Equal; but a decimal of at least eight places may stand for a fraction whose decimals do not end, if it rounds or cuts it: 0.33333333 for 1/3.
    #[default]
    Exact,
    /// Equal when both are rounded to so many decimals.
    Decimals(u32),
}

/// How lists without brackets are compared, and lists in set braces always as sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Lists {
    /// `1, 2` is `2, 1`.
    #[default]
    AsSets,
    /// `1, 2` is not `2, 1`.
    InOrder,
}

/// Whether the letters of variables matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Names {
    /// `f(x)` is not `f(y)`; yet the letter before an equals sign never matters alone: `x = 5` is `y = 5`.
    #[default]
    MustAgree,
    /// Variables are numbered in the order in which they occur.
    MayDiffer,
}

/// Whether an inequality may answer for a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Relations {
    /// For the gold `[-2, 7]`, `-2 ≤ x ≤ 7` is right. An interval for a gold inequality always is.
    #[default]
    AsSets,
    /// It is not.
    Apart,
}

/// The settings of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Compare {
    pub tolerance: Tolerance,
    pub lists: Lists,
    pub names: Names,
    pub relations: Relations,
}
