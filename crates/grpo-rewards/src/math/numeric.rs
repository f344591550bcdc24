//! Whether a difference in normal form is zero, by its value at several points.
//!
//! The precision grows with the numbers that occur, values far from 1 are refused, and the difference is weighed against its own terms: so
//! only an identity, or a near miss by less than 2^-300 of numbers of moderate size, counts as zero.

use std::sync::{Arc, OnceLock};

use num_bigint::BigInt;
use num_rational::BigRational;

use super::algebra::Algebra;
use super::float::{Precision, Real};
use super::poly::{Atom, Exponent, Poly, Product, Scalar};
use super::tree::Function;

/// What the points say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zero {
    Yes,
    No,
    /// Values too large, too small or undefined at all points.
    Unknown,
}

const BASE_BITS: u64 = 512;
const MAX_BITS: u64 = 4096;
/// How many of the kept bits a sum of zero may still show.
const SLACK: u64 = 160;
/// Points where symbols stand for numbers: two with positive ones only, one with negative ones only, four that tell symbols apart by sign.
const POINTS: u64 = 7;

/// A complex number.
#[derive(Debug, Clone)]
pub(super) struct Complex {
    pub(super) re: Real,
    pub(super) im: Real,
}

/// The size of a number's larger part as a power of two; none for zero.
fn size_of(value: &Complex) -> Option<i64> {
    [&value.re, &value.im].into_iter().filter(|part| !part.is_zero()).map(Real::magnitude).max()
}

/// Whether `sum` is zero wherever it is defined.
pub(crate) fn is_zero(algebra: &Algebra, sum: &Poly) -> Zero {
    let atoms = algebra.atoms();
    let needed = needed(atoms, sum);
    let mut bits = size(sum);
    let mut free = false;
    for (id, _) in needed.iter().enumerate().filter(|(_, n)| **n) {
        match &atoms[id] {
            Atom::Symbol(_) | Atom::Opaque(..) => free = true,
            // n! is as good as a symbol; a factorial too large to work out is not.
            Atom::Function(Function::Factorial, a) if a.as_rational().is_some() => return Zero::Unknown,
            Atom::Function(Function::Factorial, _) => free = true,
            Atom::Base(a) | Atom::Function(_, a) => bits += size(&a.num) + size(&a.den),
            Atom::Power(a, b) => bits += size(&a.num) + size(&a.den) + size(&b.num) + size(&b.den),
            Atom::Infinity => return Zero::Unknown,
            _ => {}
        }
    }
    let bits = BASE_BITS + 4 * bits;
    if bits > MAX_BITS {
        return Zero::Unknown;
    }
    let at = At { p: precision(bits), atoms, free: free_atoms(atoms) };
    let (mut zeros, mut tried) = (0, 0);
    for point in 0..if free { POINTS } else { 1 } {
        tried += 1;
        match at.sum_is_zero(sum, &needed, point) {
            Some(true) => zeros += 1,
            Some(false) => return Zero::No,
            None => {}
        }
    }
    if zeros > 0 && 2 * zeros > tried { Zero::Yes } else { Zero::Unknown }
}

/// Which atoms a sum is made of, all the way down.
fn needed(atoms: &[Atom], sum: &Poly) -> Vec<bool> {
    let mut needed = vec![false; atoms.len()];
    let mark = |needed: &mut Vec<bool>, poly: &Poly| {
        for (id, _) in poly.iter().flat_map(|(product, _)| product) {
            if let Some(slot) = needed.get_mut(*id as usize) {
                *slot = true;
            }
        }
    };
    mark(&mut needed, sum);
    for id in (0..atoms.len()).rev().filter(|id| *id < atoms.len()) {
        if !needed[id] {
            continue;
        }
        let parts: Vec<&Scalar> = match &atoms[id] {
            Atom::Base(a) | Atom::Function(_, a) => vec![a],
            Atom::Power(a, b) => vec![a, b],
            _ => continue,
        };
        for part in parts {
            mark(&mut needed, &part.num);
            mark(&mut needed, &part.den);
        }
    }
    needed
}

/// The bits of all numbers in a sum.
fn size(sum: &Poly) -> u64 {
    let exponent = |e: &Exponent| u64::from(64 - (e.numer().unsigned_abs() | e.denom().unsigned_abs()).leading_zeros());
    sum.iter().map(|(product, c)| c.numer().bits() + c.denom().bits() + product.iter().map(|(_, e)| exponent(e)).sum::<u64>()).sum()
}

/// The usual precision is made once.
fn precision(bits: u64) -> Arc<Precision> {
    static USUAL: OnceLock<Arc<Precision>> = OnceLock::new();
    let usual = BASE_BITS + 256;
    if bits <= usual { Arc::clone(USUAL.get_or_init(|| Arc::new(Precision::new(usual)))) } else { Arc::new(Precision::new(bits)) }
}

pub(super) struct At<'a> {
    pub(super) p: Arc<Precision>,
    atoms: &'a [Atom],
    /// Which atoms hold a symbol.
    free: Vec<bool>,
}

/// Which atoms hold a symbol, or something as good as one.
fn free_atoms(atoms: &[Atom]) -> Vec<bool> {
    let mut free: Vec<bool> = Vec::with_capacity(atoms.len());
    for atom in atoms {
        let holds = |part: &Scalar| {
            part.num.iter().chain(&part.den).flat_map(|(product, _)| product).any(|(id, _)| free.get(*id as usize) == Some(&true))
        };
        let one = match atom {
            Atom::Symbol(_) | Atom::Opaque(..) => true,
            Atom::Base(a) | Atom::Function(_, a) => holds(a),
            Atom::Power(a, b) => holds(a) || holds(b),
            _ => false,
        };
        free.push(one);
    }
    free
}

impl At<'_> {
    fn varies(&self, value: &Scalar) -> bool {
        value.num.iter().chain(&value.den).flat_map(|(product, _)| product).any(|(id, _)| self.free.get(*id as usize) == Some(&true))
    }

    fn sum_is_zero(&self, sum: &Poly, needed: &[bool], point: u64) -> Option<bool> {
        let mut values: Vec<Option<Complex>> = vec![None; self.atoms.len()];
        for id in 0..self.atoms.len() {
            if needed[id] {
                values[id] = Some(self.atom(id, &values, point)?);
            }
        }
        let mut weight = Real::zero();
        let mut total = self.integer(0);
        for (product, coefficient) in sum {
            let term = self.product(product, coefficient, &values)?;
            weight = self.p.add(&weight, &self.p.add(&term.re.abs(), &term.im.abs()));
            total = self.add(&total, &term);
        }
        let left = self.p.add(&total.re.abs(), &total.im.abs());
        Some(left.is_zero() || left.magnitude() <= weight.magnitude() - (self.p.bits - SLACK) as i64)
    }

    fn atom(&self, id: usize, values: &[Option<Complex>], point: u64) -> Option<Complex> {
        let value = match &self.atoms[id] {
            Atom::Pi => self.real(self.p.pi()),
            Atom::E => self.real(self.p.exp(&self.p.integer(1))?),
            Atom::I => Complex { re: Real::zero(), im: self.p.integer(1) },
            Atom::Prime(prime) => self.integer(i64::try_from(*prime).ok()?),
            Atom::Symbol(_) | Atom::Opaque(..) | Atom::Function(Function::Factorial, _) => self.sample(id as u64, point),
            // A step is flat nearly everywhere: points cannot tell it from a constant.
            Atom::Function(Function::Floor | Function::Ceiling, a) if self.varies(a) => self.sample(id as u64, point),
            Atom::Base(a) => self.scalar(a, values)?,
            Atom::Power(a, b) => self.power(&self.scalar(a, values)?, &self.scalar(b, values)?)?,
            Atom::Function(function, a) => self.chopped(self.function(*function, &self.scalar(a, values)?)?, 0),
            Atom::Infinity => return None,
        };
        self.in_range(&value).then_some(value)
    }

    /// A number of moderate size without a pattern: the same for the same atom and point.
    fn sample(&self, id: u64, point: u64) -> Complex {
        let mut mixed = (id + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (point + 1).wrapping_mul(0xD1B5_4A32_D192_ED03);
        mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^= mixed >> 32;
        let negative = match point {
            0 | 1 => false,
            2 => true,
            // |xy| is not xy: two symbols differ in sign at one of these points, if their numbers differ in the last four bits.
            _ => (id + 1) >> (point - 3) & 1 == 1,
        };
        let numerator = 300_007 + i64::try_from(mixed % 2_000_003).unwrap_or(0);
        let value = BigRational::new(BigInt::from(if negative { -numerator } else { numerator }), BigInt::from(1_000_003));
        self.real(self.p.rational(&value))
    }

    fn scalar(&self, a: &Scalar, values: &[Option<Complex>]) -> Option<Complex> {
        let num = self.poly(&a.num, values)?;
        let value = if a.has_denominator() { self.div(&num, &self.poly(&a.den, values)?)? } else { num };
        self.in_range(&value).then_some(value)
    }

    fn poly(&self, sum: &Poly, values: &[Option<Complex>]) -> Option<Complex> {
        let (mut total, mut largest) = (self.integer(0), None);
        for (product, coefficient) in sum {
            let term = self.product(product, coefficient, values)?;
            largest = largest.max(size_of(&term));
            total = self.add(&total, &term);
        }
        Some(self.chopped(total, largest.unwrap_or(0)))
    }

    /// Without parts so far below 2^`size`, the size of what they came from, that they can only be what rounding left of a zero: cos(π/2).
    pub(super) fn chopped(&self, value: Complex, size: i64) -> Complex {
        let chop =
            |part: Real| if !part.is_zero() && part.magnitude() <= size - (self.p.bits - SLACK) as i64 { Real::zero() } else { part };
        Complex { re: chop(value.re), im: chop(value.im) }
    }

    fn product(&self, product: &Product, coefficient: &BigRational, values: &[Option<Complex>]) -> Option<Complex> {
        let mut value = self.real(self.p.rational(coefficient));
        for (id, exponent) in product {
            let base = values.get(*id as usize)?.as_ref()?;
            value = self.mul(&value, &self.power_rational(base, exponent)?);
        }
        self.in_range(&value).then_some(value)
    }
}

/// The value of a real constant rounded to `decimals` places, if it has one: for comparing with decimals to a stated number of places.
pub(crate) fn rounded(algebra: &Algebra, value: &Scalar, decimals: u32) -> Option<BigInt> {
    let atoms = algebra.atoms();
    let mut both = value.num.clone();
    both.extend(value.den.clone());
    let needed = needed(atoms, &both);
    let free = needed.iter().enumerate().any(|(id, n)| *n && matches!(atoms[id], Atom::Symbol(_) | Atom::Opaque(..) | Atom::Infinity));
    if free || decimals > 64 {
        return None;
    }
    let at = At { p: precision(BASE_BITS), atoms, free: free_atoms(atoms) };
    let mut values: Vec<Option<Complex>> = vec![None; atoms.len()];
    for id in 0..atoms.len() {
        if needed[id] {
            values[id] = Some(at.atom(id, &values, 0)?);
        }
    }
    let value = at.scalar(value, &values)?;
    let scale = at.p.rational(&BigRational::from(num_traits::pow(BigInt::from(10), decimals as usize)));
    let scaled = at.p.mul(&value.re, &scale);
    let half = at.p.rational(&BigRational::new(1.into(), 2.into()));
    value.im.is_zero().then(|| at.p.whole_floor(&at.p.add(&scaled, &half)))
}
