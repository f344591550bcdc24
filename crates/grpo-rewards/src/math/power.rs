//! Powers, roots and functions in normal form.

use num_bigint::{BigInt, Sign};
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::poly::{Algebra, Atom, Exponent, Scalar, Stop, integer_power};
use super::tree::Function;

/// Factorials up to this one are worked out.
const MAX_FACTORIAL: u32 = 3000;
/// Primes up to this one are looked for.
const MAX_TRIAL: u64 = 4096;
/// The largest upper number of a binomial coefficient that is worked out.
const MAX_BINOMIAL: u64 = 10_000;

impl Algebra {
    /// base^exponent. Principal values, but odd roots of negative reals are real.
    pub(crate) fn power(&mut self, base: &Scalar, exponent: &Scalar) -> Result<Scalar, Stop> {
        match exponent.as_rational() {
            Some(exponent) => self.power_rational(base, &exponent),
            None => self.power_symbolic(base, exponent),
        }
    }

    fn power_rational(&mut self, base: &Scalar, exponent: &BigRational) -> Result<Scalar, Stop> {
        if base.is_zero() {
            return if exponent.is_positive() { Ok(Scalar::zero()) } else { Err(Stop::Undefined) };
        }
        if exponent.is_zero() {
            return Ok(Scalar::integer(1));
        }
        let small = exponent.numer().to_i64().zip(exponent.denom().to_i64()).filter(|(_, below)| *below <= 1000);
        let Some((above, below)) = small else {
            // 9^(9^9): canonical over the primes of the base, but never worked out.
            return self.power_symbolic(base, &Scalar::rational(exponent.clone()));
        };
        if below == 1 {
            return match self.power_integer(base, above) {
                Err(Stop::TooBig) if base.as_rational().is_some() => self.power_symbolic(base, &Scalar::integer(above)),
                result => result,
            };
        }
        if let Some(value) = base.as_rational() {
            return self.root_of_rational(&value, above, below);
        }
        // c·a with c > 0: c^e · a^e.
        let content = base.num.first().map_or_else(BigRational::one, |(_, c)| c.abs());
        let unit = self.div(base, &Scalar::rational(content.clone()))?;
        let outside = self.root_of_rational(&content, above, below)?;
        let exponent = Exponent::new(above, below);
        let inside = match unit.as_term() {
            Some((product, sign)) if sign.is_positive() && self.splits(product) => {
                let mut value = Scalar::integer(1);
                for (id, power) in product.clone() {
                    let factor = self.atom_power(id, num_traits::CheckedMul::checked_mul(&power, &exponent).ok_or(Stop::TooBig)?)?;
                    value = self.mul(&value, &factor)?;
                }
                value
            }
            _ => {
                let id = self.id(Atom::Base(unit));
                self.atom_power(id, exponent)?
            }
        };
        self.mul(&outside, &inside)
    }

    /// Whether (Π aᵢ^pᵢ)^e = Π aᵢ^(pᵢ·e) whatever the symbols' signs: all factors positive, but for one with an exponent in (-1, 1].
    fn splits(&self, product: &[(u32, Exponent)]) -> bool {
        let mut free = 0;
        product.iter().all(|(id, power)| match self.atoms().get(*id as usize) {
            Some(Atom::Pi | Atom::E | Atom::Prime(_)) => true,
            Some(Atom::Symbol(_)) => {
                free += 1;
                free == 1 && *power <= Exponent::one() && *power > -Exponent::one()
            }
            _ => false,
        })
    }

    /// (n/d)^(above/below)
    fn root_of_rational(&mut self, value: &BigRational, above: i64, below: i64) -> Result<Scalar, Stop> {
        if value.is_negative() {
            let positive = self.root_of_rational(&-value, above, below)?;
            if below % 2 == 1 {
                return Ok(if above % 2 == 0 { positive } else { self.neg(&positive) });
            }
            if below == 2 {
                let i = self.id(Atom::I);
                let unit = self.atom_power(i, Exponent::from(above))?;
                return self.mul(&positive, &unit);
            }
            let id = self.id(Atom::Base(Scalar::rational(value.clone())));
            return self.atom_power(id, Exponent::new(above, below));
        }
        let top = self.root_of_integer(value.numer(), above, below)?;
        let bottom = self.root_of_integer(value.denom(), above, below)?;
        self.div(&top, &bottom)
    }

    /// n^(above/below) for n > 0, as powers of primes; what cannot be factored soon stays a base of its own.
    fn root_of_integer(&mut self, n: &BigInt, above: i64, below: i64) -> Result<Scalar, Stop> {
        self.spend(n.bits() / 16)?;
        let (primes, rest) = factored(n);
        let mut value = Scalar::integer(1);
        for (prime, count) in primes {
            let exponent = i64::from(count).checked_mul(above).ok_or(Stop::TooBig)?;
            let id = self.id(Atom::Prime(prime));
            let factor = self.atom_power(id, Exponent::new(exponent, below))?;
            value = self.mul(&value, &factor)?;
        }
        if rest.is_one() {
            return Ok(value);
        }
        let degree = u32::try_from(below).map_err(|_| Stop::TooBig)?;
        let root = rest.nth_root(degree);
        let factor = if integer_power(&root, u64::from(degree))? == rest {
            self.power_integer(&Scalar::rational(BigRational::from(root)), above)?
        } else {
            let id = self.id(Atom::Base(Scalar::rational(BigRational::from(rest))));
            self.atom_power(id, Exponent::new(above, below))?
        };
        self.mul(&value, &factor)
    }

    /// a^(Σ cᵢ·tᵢ) = Π (a^(tᵢ/qᵢ))^pᵢ for cᵢ = pᵢ/qᵢ, over the primes of a where a is a positive rational.
    fn power_symbolic(&mut self, base: &Scalar, exponent: &Scalar) -> Result<Scalar, Stop> {
        if let Some(value) = base.as_rational() {
            if value.is_zero() {
                return Err(Stop::Undefined);
            }
            if value.is_one() {
                return Ok(Scalar::integer(1));
            }
            if value.is_positive() && !is_unfactorable(&value) {
                return self.power_over_primes(&value, exponent);
            }
        }
        let plain = exponent.as_rational();
        if exponent.has_denominator() || plain.is_some() {
            // Signs apart, so that a^(-x) and 1/a^x agree.
            let negative = exponent.num.first().is_some_and(|(_, c)| c.is_negative());
            let magnitude = if negative { self.neg(exponent) } else { exponent.clone() };
            let id = self.id(Atom::Power(base.clone(), magnitude));
            return self.atom_power(id, Exponent::from(if negative { -1 } else { 1 }));
        }
        let mut value = Scalar::integer(1);
        for (product, coefficient) in exponent.num.clone() {
            let factor = if product.is_empty() {
                self.power_rational(base, &coefficient)?
            } else {
                let above = coefficient.numer().to_i64().ok_or(Stop::TooBig)?;
                let term = Scalar {
                    num: vec![(product, BigRational::new(BigInt::one(), coefficient.denom().clone()))],
                    den: Scalar::integer(1).den,
                };
                let id = self.id(Atom::Power(base.clone(), term));
                self.atom_power(id, Exponent::from(above))?
            };
            value = self.mul(&value, &factor)?;
        }
        Ok(value)
    }

    fn power_over_primes(&mut self, base: &BigRational, exponent: &Scalar) -> Result<Scalar, Stop> {
        let mut value = Scalar::integer(1);
        for (number, sign) in [(base.numer(), 1), (base.denom(), -1)] {
            let (primes, rest) = factored(number);
            let bases =
                primes.into_iter().map(|(p, count)| (BigInt::from(p), i64::from(count))).chain((!rest.is_one()).then_some((rest, 1)));
            for (prime, count) in bases.collect::<Vec<_>>() {
                let scaled = self.mul(exponent, &Scalar::integer(count * sign))?;
                let base = Scalar::rational(BigRational::from(prime));
                let factor = match scaled.as_rational() {
                    Some(power) => {
                        let negative = power.is_negative();
                        let id = self.id(Atom::Power(base, Scalar::rational(power.abs())));
                        self.atom_power(id, Exponent::from(if negative { -1 } else { 1 }))?
                    }
                    None => self.power_symbolic(&base, &scaled)?,
                };
                value = self.mul(&value, &factor)?;
            }
        }
        Ok(value)
    }

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

/// Whether a number is a prime, or has no factor that is found.
fn is_unfactorable(value: &BigRational) -> bool {
    let (primes, rest) = factored(value.numer());
    let one_prime = matches!(primes.as_slice(), [(_, 1)]) && rest.is_one();
    value.is_integer() && (primes.is_empty() || one_prime)
}

/// The prime factors of n > 0 with their counts, and what is left: 1, or a number whose factors are all large.
fn factored(n: &BigInt) -> (Vec<(u64, u32)>, BigInt) {
    let mut primes = Vec::new();
    let mut rest = n.clone();
    let divide = |rest: &mut BigInt, prime: u64| {
        let mut count = 0;
        if let Some(mut small) = rest.to_u64() {
            while small != 0 && small % prime == 0 {
                small /= prime;
                count += 1;
            }
            if count > 0 {
                *rest = BigInt::from(small);
            }
            return count;
        }
        while (&*rest % prime).is_zero() {
            *rest /= prime;
            count += 1;
        }
        count
    };
    let mut candidate = 2;
    // Larger numbers are only tried against the first primes.
    let limit = if n.bits() > 256 { 64 } else { MAX_TRIAL };
    while candidate <= limit {
        if rest.is_one() {
            break;
        }
        if rest.to_u64().is_some_and(|r| candidate * candidate > r) {
            break;
        }
        let count = divide(&mut rest, candidate);
        if count > 0 {
            primes.push((candidate, count));
        }
        candidate += if candidate == 2 { 1 } else { 2 };
    }
    // Without a factor up to its root, what is left is a prime.
    if let Some(small) = rest.to_u64().filter(|r| *r > 1 && candidate.saturating_mul(candidate) > *r) {
        primes.push((small, 1));
        rest = BigInt::one();
    }
    (primes, rest)
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;

    use super::factored;

    #[test]
    fn numbers_fall_into_primes_and_a_rest_without_small_factors() {
        let parts = |n: u64| factored(&BigInt::from(n));
        assert_eq!(parts(360), (vec![(2, 3), (3, 2), (5, 1)], BigInt::from(1)));
        assert_eq!(parts(1), (vec![], BigInt::from(1)));
        assert_eq!(parts(97), (vec![(97, 1)], BigInt::from(1)));
        let (primes, rest) = parts(4_294_967_291 * 4);
        assert_eq!((primes, rest), (vec![(2, 2)], BigInt::from(4_294_967_291_u64)));
    }
}
