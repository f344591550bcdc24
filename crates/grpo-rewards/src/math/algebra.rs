//! Sums and products of scalars, within bounds on work.

use std::collections::HashMap;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};

use super::poly::{Atom, Exponent, Poly, Scalar, Stop};
use crate::answer::ratio;

/// The largest numerator or denominator of an exponent.
pub(super) const MAX_EXPONENT: i64 = 1_000_000;

/// The atoms of one comparison, and how much work it may still do.
#[derive(Debug)]
pub(crate) struct Algebra {
    atoms: Vec<Atom>,
    ids: HashMap<Atom, u32>,
    left: u64,
    nesting: u32,
}

/// The work that one comparison may do, in multiplications of machine words or so.
const WORK: u64 = 60_000;
/// How deep sums and products may call each other, through roots of sums.
const MAX_NESTING: u32 = 48;
/// The most bits that a number worked out exactly may have.
pub(crate) const MAX_BITS: u64 = 1 << 16;

impl Algebra {
    pub(crate) fn new() -> Self {
        Self { atoms: Vec::new(), ids: HashMap::new(), left: WORK, nesting: 0 }
    }

    /// As many atoms as there were, and all the work to do again: for the next comparison with the same gold answer.
    pub(crate) fn reset(&mut self, atoms: usize) {
        for atom in self.atoms.drain(atoms.min(self.atoms.len())..) {
            self.ids.remove(&atom);
        }
        self.left = WORK;
    }

    pub(crate) fn spend(&mut self, work: u64) -> Result<(), Stop> {
        self.left = self.left.checked_sub(work).ok_or(Stop::TooBig)?;
        Ok(())
    }

    pub(super) fn nested<R>(&mut self, work: impl FnOnce(&mut Self) -> Result<R, Stop>) -> Result<R, Stop> {
        if self.nesting >= MAX_NESTING {
            return Err(Stop::TooBig);
        }
        self.nesting += 1;
        let result = work(self);
        self.nesting -= 1;
        result
    }

    pub(crate) fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    pub(crate) fn id(&mut self, atom: Atom) -> u32 {
        if let Some(&id) = self.ids.get(&atom) {
            return id;
        }
        let id = u32::try_from(self.atoms.len()).unwrap_or(u32::MAX);
        self.atoms.push(atom.clone());
        self.ids.insert(atom, id);
        id
    }

    pub(crate) fn atom(&mut self, atom: Atom) -> Scalar {
        let id = self.id(atom);
        Scalar::poly(vec![(vec![(id, Exponent::one())], BigRational::one())])
    }

    pub(crate) fn symbol(&mut self, name: &str) -> Scalar {
        self.atom(Atom::Symbol(name.to_owned()))
    }

    /// One atom to a power, brought into the form that `Atom` promises.
    pub(crate) fn atom_power(&mut self, id: u32, exponent: Exponent) -> Result<Scalar, Stop> {
        self.product(vec![(id, exponent)], BigRational::one())
    }

    /// Numbers alone, the usual case, take no detour; those with many digits are left to the functions that count the work.
    fn numbers<'a>(a: &'a Scalar, b: &'a Scalar) -> Option<(&'a BigRational, &'a BigRational)> {
        a.plain().zip(b.plain()).filter(|(x, y)| x.numer().bits() + x.denom().bits() + y.numer().bits() + y.denom().bits() < 512)
    }

    pub(crate) fn add(&mut self, a: &Scalar, b: &Scalar) -> Result<Scalar, Stop> {
        if let Some((x, y)) = Self::numbers(a, b) {
            return Ok(Scalar::rational(ratio::sum(x, y)));
        }
        if a.den == b.den {
            let num = self.sum(&a.num, &b.num)?;
            return self.over(Scalar::poly(num), a.den.clone());
        }
        self.nested(|algebra| {
            let left = algebra.times_poly(&a.num, &b.below())?;
            let right = algebra.times_poly(&b.num, &a.below())?;
            let num = algebra.add(&left, &right)?;
            let den = algebra.times_poly(&a.below(), &b.below())?;
            algebra.div(&num, &den)
        })
    }

    pub(crate) fn neg(&self, a: &Scalar) -> Scalar {
        Scalar { num: a.num.iter().map(|(p, c)| (p.clone(), -c)).collect(), den: a.den.clone() }
    }

    pub(crate) fn sub(&mut self, a: &Scalar, b: &Scalar) -> Result<Scalar, Stop> {
        let negative = self.neg(b);
        self.add(a, &negative)
    }

    pub(crate) fn mul(&mut self, a: &Scalar, b: &Scalar) -> Result<Scalar, Stop> {
        if let Some((x, y)) = Self::numbers(a, b) {
            return Ok(Scalar::rational(ratio::product(x, y)));
        }
        let num = self.times_poly(&a.num, &b.num)?;
        if !a.has_denominator() && !b.has_denominator() {
            return Ok(num);
        }
        let den = self.times_poly(&a.below(), &b.below())?;
        self.nested(|algebra| algebra.div(&num, &den))
    }

    pub(crate) fn div(&mut self, a: &Scalar, b: &Scalar) -> Result<Scalar, Stop> {
        if b.is_zero() {
            return Err(Stop::Undefined);
        }
        if let Some((x, y)) = Self::numbers(a, b) {
            return Ok(Scalar::rational(ratio::quotient(x, y)));
        }
        if let Some((product, coefficient)) = b.as_term() {
            let inverse = self.product(product.iter().map(|(id, e)| (*id, -e)).collect(), coefficient.recip())?;
            return self.nested(|algebra| algebra.mul(a, &inverse));
        }
        // (a/c) / (b/d) = (a·d) / (c·b)
        let num = self.times_poly(&a.num, &b.below())?;
        let den = self.times_poly(&a.below(), &b.num)?;
        let (num_den, den_den) = (num.below().into_owned(), den.below().into_owned());
        let num = self.times_poly(&num.num, &den_den)?;
        let den = self.times_poly(&den.num, &num_den)?;
        if num.has_denominator() || den.has_denominator() {
            return Err(Stop::TooBig);
        }
        self.over(num, den.num)
    }

    /// A sum without denominator over another.
    fn over(&mut self, num: Scalar, mut den: Poly) -> Result<Scalar, Stop> {
        if num.is_zero() {
            return Ok(Scalar::zero());
        }
        if num.has_denominator() {
            return Err(Stop::TooBig);
        }
        match den.len() {
            0 => return Ok(num),
            1 => return self.div(&num, &Scalar::poly(den)),
            _ => {}
        }
        let Some((_, lead)) = den.first() else { return Ok(num) };
        let mut num = num.num;
        if !lead.is_one() {
            let lead = lead.clone();
            for (_, c) in den.iter_mut().chain(&mut num) {
                *c /= &lead;
            }
        }
        // What is a multiple of the denominator loses it.
        if num.len() == den.len() {
            let ratio = &num[0].1 / &den[0].1;
            if num.iter().zip(&den).all(|(n, d)| n.0 == d.0 && n.1 == &d.1 * &ratio) {
                return Ok(Scalar::rational(ratio));
            }
        }
        Ok(Scalar { num, den })
    }

    fn sum(&mut self, a: &Poly, b: &Poly) -> Result<Poly, Stop> {
        self.spend((a.len() + b.len()) as u64)?;
        let mut out = Vec::with_capacity(a.len() + b.len());
        let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(l), Some(r)) => l.0.cmp(&r.0),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return Ok(out),
            };
            match order {
                std::cmp::Ordering::Less => out.extend(left.next().cloned()),
                std::cmp::Ordering::Greater => out.extend(right.next().cloned()),
                std::cmp::Ordering::Equal => {
                    if let (Some((product, l)), Some((_, r))) = (left.next(), right.next()) {
                        let coefficient = l + r;
                        if !coefficient.is_zero() {
                            out.push((product.clone(), coefficient));
                        }
                    }
                }
            }
        }
    }

    /// A whole power by repeated squaring.
    pub(crate) fn power_integer(&mut self, base: &Scalar, power: i64) -> Result<Scalar, Stop> {
        if power < 0 {
            let value = self.power_integer(base, -power)?;
            return self.div(&Scalar::integer(1), &value);
        }
        if let Some((product, coefficient)) = base.as_term() {
            if !product.is_empty() && power > MAX_EXPONENT {
                return Err(Stop::TooBig);
            }
            let exponent = Exponent::from(power);
            let raised = product.iter().map(|(id, e)| (*id, e * exponent)).collect();
            let up = integer_power(coefficient.numer(), power.unsigned_abs())?;
            let down = integer_power(coefficient.denom(), power.unsigned_abs())?;
            return self.product(raised, BigRational::new(up, down));
        }
        let (mut result, mut square, mut rest) = (Scalar::integer(1), base.clone(), power);
        while rest > 0 {
            if rest % 2 == 1 {
                result = self.mul(&result, &square)?;
            }
            rest /= 2;
            if rest > 0 {
                square = self.mul(&square, &square)?;
            }
        }
        Ok(result)
    }
}

/// base^power, unless it would have too many bits.
pub(crate) fn integer_power(base: &BigInt, power: u64) -> Result<BigInt, Stop> {
    if base.bits() > 1 && base.bits().saturating_mul(power) > MAX_BITS {
        return Err(Stop::TooBig);
    }
    // 0, 1 and -1 stay small whatever the power.
    let power = if base.bits() <= 1 { power.min(2 + power % 2) } else { power };
    Ok(num_traits::pow(base.clone(), usize::try_from(power).map_err(|_| Stop::TooBig)?))
}
