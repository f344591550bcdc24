//! Products, and the form they are brought into.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};

use super::algebra::{Algebra, MAX_EXPONENT, integer_power};
use super::poly::{Atom, Exponent, Poly, Product, Scalar, Stop};
use crate::answer::ratio;

impl Algebra {
    pub(super) fn times_poly(&mut self, a: &Poly, b: &Poly) -> Result<Scalar, Stop> {
        let mut plain: Poly = Vec::with_capacity(a.len() * b.len().min(64));
        let mut odd: Vec<Scalar> = Vec::new();
        for (left, c) in a {
            for (right, d) in b {
                let words = (c.numer().bits() + c.denom().bits() + d.numer().bits() + d.denom().bits()) / 64;
                self.spend(1 + words + words * words / 2)?;
                let coefficient = ratio::product(c, d);
                if left.is_empty() || right.is_empty() {
                    plain.push((if left.is_empty() { right } else { left }.clone(), coefficient));
                } else {
                    let both = joined(left, right)?;
                    if self.is_settled(&both) {
                        plain.push((both, coefficient));
                        continue;
                    }
                    let term = self.product(both, coefficient)?;
                    if term.has_denominator() || term.num.len() != 1 { odd.push(term) } else { plain.extend(term.num) }
                }
            }
        }
        plain.sort_by(|a, b| a.0.cmp(&b.0));
        let mut merged: Poly = Vec::with_capacity(plain.len());
        for (product, coefficient) in plain {
            match merged.last_mut() {
                Some((last, sum)) if *last == product => *sum += coefficient,
                _ => merged.push((product, coefficient)),
            }
        }
        merged.retain(|(_, c)| !c.is_zero());
        let mut total = Scalar::poly(merged);
        for term in odd {
            total = self.add(&total, &term)?;
        }
        Ok(total)
    }

    /// Whether a product has its form already: see [`product`](Self::product).
    fn is_settled(&self, exponents: &Product) -> bool {
        exponents.iter().all(|(id, exponent)| {
            exponent.numer().abs() <= MAX_EXPONENT
                && *exponent.denom() <= MAX_EXPONENT
                && !matches!(self.atoms().get(*id as usize), Some(Atom::I | Atom::Prime(_) | Atom::Base(_)))
        })
    }

    /// A product brought into its form: i² = -1, whole powers of primes go into the coefficient, whole powers of bases are multiplied out.
    pub(super) fn product(&mut self, exponents: Product, mut coefficient: BigRational) -> Result<Scalar, Stop> {
        let mut kept: Product = Vec::with_capacity(exponents.len());
        let mut factors: Vec<(Scalar, i64)> = Vec::new();
        for (id, exponent) in exponents {
            if exponent.is_zero() {
                continue;
            }
            if exponent.numer().abs() > MAX_EXPONENT || *exponent.denom() > MAX_EXPONENT {
                return Err(Stop::TooBig);
            }
            match self.atoms().get(id as usize) {
                Some(Atom::I) if exponent.is_integer() => {
                    let quarter = exponent.to_integer().rem_euclid(4);
                    if quarter >= 2 {
                        coefficient = -coefficient;
                    }
                    if quarter % 2 == 1 {
                        kept.push((id, Exponent::one()));
                    }
                }
                Some(Atom::Prime(prime)) => {
                    let whole = exponent.floor().to_integer();
                    let factor = integer_power(&BigInt::from(*prime), whole.unsigned_abs())?;
                    coefficient = if whole >= 0 { coefficient * factor } else { coefficient / factor };
                    keep(&mut kept, id, exponent - Exponent::from(whole));
                }
                Some(Atom::Base(base)) => {
                    let whole = exponent.floor().to_integer();
                    if whole != 0 {
                        factors.push((base.clone(), whole));
                    }
                    keep(&mut kept, id, exponent - Exponent::from(whole));
                }
                _ => kept.push((id, exponent)),
            }
        }
        let mut value = Scalar::poly(vec![(kept, coefficient)]);
        self.nested(|algebra| {
            for (base, power) in factors {
                let factor = algebra.power_integer(&base, power)?;
                value = algebra.mul(&value, &factor)?;
            }
            Ok(value)
        })
    }
}

fn keep(kept: &mut Product, id: u32, exponent: Exponent) {
    if !exponent.is_zero() {
        kept.push((id, exponent));
    }
}

/// The product of two products: exponents add up.
fn joined(a: &Product, b: &Product) -> Result<Product, Stop> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (Some(l), Some(r)) if l.0 == r.0 => {
                let exponent = num_traits::CheckedAdd::checked_add(&l.1, &r.1).ok_or(Stop::TooBig)?;
                keep(&mut out, l.0, exponent);
                left.next();
                right.next();
            }
            (Some(l), Some(r)) if l.0 > r.0 => out.extend(right.next().copied()),
            (Some(_), _) => out.extend(left.next().copied()),
            (None, Some(_)) => out.extend(right.next().copied()),
            (None, None) => return Ok(out),
        }
    }
}
