//! Powers, roots and functions in normal form.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::algebra::{Algebra, integer_power};
use super::poly::{Atom, Exponent, Scalar, Stop};
use super::value::is_constant;

/// Primes up to this one are looked for.
const MAX_TRIAL: u64 = 4096;
/// The most terms that a power of a sum is multiplied out to.
const MAX_TERMS: u64 = 100;

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
            if base.num.len() > 1 && !is_constant(base, self) && expanded(base.num.len() as u64, above.unsigned_abs()) > MAX_TERMS {
                return self.power_symbolic(base, &Scalar::integer(above));
            }
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
                let term = Scalar { num: vec![(product, BigRational::new(BigInt::one(), coefficient.denom().clone()))], den: Vec::new() };
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
}

/// How many terms the n-th power of a sum of k terms has at most: n + k − 1 over k − 1.
fn expanded(k: u64, n: u64) -> u64 {
    (1..k).try_fold(1_u64, |count, i| count.checked_mul(n + i).map(|c| c / i)).unwrap_or(u64::MAX)
}

/// Whether a number is a prime, or has no factor that is found.
fn is_unfactorable(value: &BigRational) -> bool {
    let (primes, rest) = factored(value.numer());
    let one_prime = matches!(primes.as_slice(), [(_, 1)]) && rest.is_one();
    value.is_integer() && (primes.is_empty() || one_prime)
}

/// The prime factors of n > 0 with their counts, and what is left: 1, or a number whose factors are all large.
pub(super) fn factored(n: &BigInt) -> (Vec<(u64, u32)>, BigInt) {
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
