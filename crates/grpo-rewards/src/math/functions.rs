//! Functions in normal form.

use num_bigint::{BigInt, Sign};
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::algebra::Algebra;
use super::poly::{Atom, Exponent, Scalar, Stop};
use super::power::factored;
use super::tree::Function;

/// Factorials up to this one are worked out.
const MAX_FACTORIAL: u32 = 3000;
/// The largest upper number of a binomial coefficient that is worked out.
const MAX_BINOMIAL: u64 = 10_000;

impl Algebra {
    /// A function of something.
    pub(crate) fn function(&mut self, function: Function, argument: &Scalar) -> Result<Scalar, Stop> {
        use Function as F;
        let known = argument.as_rational();
        match (function, &known) {
            (F::Exp, _) => {
                let e = self.atom(Atom::E);
                return self.power(&e, argument);
            }
            (F::Abs, Some(value)) => return Ok(Scalar::rational(value.abs())),
            (F::Floor, Some(value)) => return Ok(Scalar::rational(value.floor())),
            (F::Ceiling, Some(value)) => return Ok(Scalar::rational(value.ceil())),
            (F::Factorial, Some(value)) => return self.factorial(value, argument),
            (F::Ln, Some(value)) => return self.logarithm(value),
            (F::Cos | F::Cosh | F::Sec, Some(value)) if value.is_zero() => return Ok(Scalar::integer(1)),
            (F::Sin | F::Tan | F::Sinh | F::Tanh | F::Asin | F::Atan, Some(value)) if value.is_zero() => return Ok(Scalar::zero()),
            (F::Cot | F::Csc, Some(value)) if value.is_zero() => return Err(Stop::Undefined),
            _ => {}
        }
        if function == F::Ln
            && argument
                .as_term()
                .is_some_and(|(p, c)| c.is_one() && matches!(p.as_slice(), [(id, _)] if self.atoms().get(*id as usize) == Some(&Atom::E)))
        {
            let power = argument.as_term().map_or_else(Exponent::one, |(p, _)| p[0].1);
            return Ok(Scalar::rational(BigRational::new((*power.numer()).into(), (*power.denom()).into())));
        }
        let negative = argument.num.first().is_some_and(|(_, c)| c.is_negative());
        let even = matches!(function, F::Cos | F::Sec | F::Cosh | F::Abs);
        let odd = matches!(function, F::Sin | F::Tan | F::Cot | F::Csc | F::Asin | F::Atan | F::Sinh | F::Tanh);
        let inner = if negative && (even || odd) { self.neg(argument) } else { argument.clone() };
        let value = self.atom(Atom::Function(function, inner));
        Ok(if negative && odd { self.neg(&value) } else { value })
    }

    fn factorial(&mut self, value: &BigRational, argument: &Scalar) -> Result<Scalar, Stop> {
        if !value.is_integer() || value.is_negative() {
            return Err(Stop::Undefined);
        }
        match value.to_integer().to_u32().filter(|n| *n <= MAX_FACTORIAL) {
            Some(n) => {
                self.spend(u64::from(n) * u64::from(n) / 512)?;
                let product = (2..=n).fold(BigInt::one(), |product, k| product * k);
                Ok(Scalar::rational(BigRational::from(product)))
            }
            None => Ok(self.atom(Atom::Function(Function::Factorial, argument.clone()))),
        }
    }

    /// ln of a positive rational as a sum over its primes; of a negative one, iπ more.
    fn logarithm(&mut self, value: &BigRational) -> Result<Scalar, Stop> {
        if value.is_zero() {
            return Err(Stop::Undefined);
        }
        let mut sum = Scalar::zero();
        if value.is_negative() {
            let (i, pi) = (self.atom(Atom::I), self.atom(Atom::Pi));
            sum = self.mul(&i, &pi)?;
        }
        for (number, sign) in [(value.numer().magnitude(), 1), (value.denom().magnitude(), -1)] {
            let (primes, rest) = factored(&BigInt::from_biguint(Sign::Plus, number.clone()));
            let parts =
                primes.into_iter().map(|(p, count)| (BigInt::from(p), i64::from(count))).chain((!rest.is_one()).then_some((rest, 1)));
            for (prime, count) in parts.collect::<Vec<_>>() {
                let ln = self.atom(Atom::Function(Function::Ln, Scalar::rational(BigRational::from(prime))));
                let term = self.mul(&ln, &Scalar::integer(count * sign))?;
                sum = self.add(&sum, &term)?;
            }
        }
        Ok(sum)
    }

    /// n over k.
    pub(crate) fn binomial(&mut self, n: &Scalar, k: &Scalar) -> Result<Scalar, Stop> {
        let (Some(upper), Some(lower)) = (n.as_integer(), k.as_integer()) else {
            return Ok(self.atom(Atom::Opaque("binomial".to_owned(), vec![n.clone(), k.clone()])));
        };
        if upper.is_negative() {
            return Err(Stop::Undefined);
        }
        if lower.is_negative() || lower > upper {
            return Ok(Scalar::zero());
        }
        let Some((upper, lower)) = upper.to_u64().filter(|n| *n <= MAX_BINOMIAL).zip(lower.to_u64()) else {
            return Ok(self.atom(Atom::Opaque("binomial".to_owned(), vec![n.clone(), k.clone()])));
        };
        let lower = lower.min(upper - lower);
        self.spend(lower * lower / 512)?;
        let value = (0..lower).fold(BigInt::one(), |value, i| value * (upper - i) / (i + 1));
        Ok(Scalar::rational(BigRational::from(value)))
    }

    /// a mod b, in [0, b).
    pub(crate) fn modulo(&mut self, a: &Scalar, b: &Scalar) -> Result<Scalar, Stop> {
        match (a.as_integer(), b.as_integer()) {
            (Some(_), Some(b)) if b.is_zero() => Err(Stop::Undefined),
            (Some(a), Some(b)) => Ok(Scalar::rational(BigRational::from(((a % &b) + &b) % &b))),
            _ => Ok(self.atom(Atom::Opaque("mod".to_owned(), vec![a.clone(), b.clone()]))),
        }
    }
}
