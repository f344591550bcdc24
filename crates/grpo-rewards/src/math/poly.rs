//! Sums of products with exact rational coefficients over atoms: symbols, constants, roots, functions of something.

use std::borrow::Cow;

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use num_traits::{One, Zero};

use super::tree::Function;

/// An exponent within a product.
pub(crate) type Exponent = Ratio<i64>;

/// Why a value cannot be worked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It has none: 1/0, 0⁰.
    Undefined,
    /// It would take too long or too much room.
    TooBig,
}

/// A thing that products are made of. What an atom is made of has smaller numbers than the atom itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Atom {
    Symbol(String),
    Pi,
    E,
    I,
    Infinity,
    /// The square root of -1 apart, exponents of primes and bases lie between 0 and 1.
    Prime(u64),
    Base(Scalar),
    /// A power whose exponent is no plain rational, or too large to work out.
    Power(Scalar, Scalar),
    Function(Function, Scalar),
    /// Something known only by its name and its arguments.
    Opaque(String, Vec<Scalar>),
}

/// Atoms with their exponents, by atom number.
pub(crate) type Product = Vec<(u32, Exponent)>;
/// Products with their coefficients, none of them 0, in the order of the products.
pub(crate) type Poly = Vec<(Product, BigRational)>;

/// One sum over another. The lower one is empty where it is 1, the usual case, or has at least two terms of which the first has coefficient 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scalar {
    pub num: Poly,
    pub den: Poly,
}

impl Scalar {
    pub(crate) fn zero() -> Self {
        Self { num: Vec::new(), den: Vec::new() }
    }

    pub(crate) fn rational(value: BigRational) -> Self {
        Self { num: constant(value), den: Vec::new() }
    }

    pub(crate) fn integer(value: i64) -> Self {
        Self::rational(BigRational::from(BigInt::from(value)))
    }

    pub(super) fn poly(num: Poly) -> Self {
        Self { num, den: Vec::new() }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.num.is_empty()
    }

    pub(crate) fn has_denominator(&self) -> bool {
        !self.den.is_empty()
    }

    /// The lower sum, written out.
    pub(super) fn below(&self) -> Cow<'_, Poly> {
        if self.den.is_empty() { Cow::Owned(constant(BigRational::one())) } else { Cow::Borrowed(&self.den) }
    }

    /// Its value, if it is a plain rational.
    pub(crate) fn as_rational(&self) -> Option<BigRational> {
        match self.num.as_slice() {
            [] => Some(BigRational::zero()),
            [(product, value)] if product.is_empty() && !self.has_denominator() => Some(value.clone()),
            _ => None,
        }
    }

    pub(crate) fn is_rational(&self) -> bool {
        self.is_zero() || self.plain().is_some()
    }

    /// Its value without a copy, if it is a plain rational other than 0.
    pub(super) fn plain(&self) -> Option<&BigRational> {
        match self.num.as_slice() {
            [(product, value)] if product.is_empty() && !self.has_denominator() => Some(value),
            _ => None,
        }
    }

    pub(crate) fn as_integer(&self) -> Option<BigInt> {
        self.as_rational().filter(BigRational::is_integer).map(|r| r.to_integer())
    }

    /// Its one term, if it has one and no denominator.
    pub(crate) fn as_term(&self) -> Option<&(Product, BigRational)> {
        match self.num.as_slice() {
            [term] if !self.has_denominator() => Some(term),
            _ => None,
        }
    }
}

fn constant(value: BigRational) -> Poly {
    if value.is_zero() { Vec::new() } else { vec![(Vec::new(), value)] }
}
