//! Real numbers to a stated number of bits, and the elementary functions of them.

use num_bigint::{BigInt, Sign};
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// mantissa · 2^exponent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Real {
    mantissa: BigInt,
    exponent: i64,
}

/// The working precision, with the constants that functions need.
#[derive(Debug)]
pub(crate) struct Precision {
    /// How many bits a mantissa keeps.
    pub bits: u64,
    /// π and ln 2 with this many bits after the point.
    fixed_bits: u64,
    pi: BigInt,
    ln2: BigInt,
}

/// Bits beyond the precision within functions.
const GUARD: u64 = 64;
/// Magnitudes beyond 2^±(bits / this) are out of range.
const RANGE: u64 = 4;

impl Precision {
    pub(crate) fn new(bits: u64) -> Self {
        // Magnitudes down to 2^-(bits / RANGE) keep all their bits.
        let fixed_bits = bits + bits / 2 + GUARD;
        let one = BigInt::one() << fixed_bits;
        // Machin: π = 16 atan(1/5) − 4 atan(1/239); ln 2 = 18 artanh(1/26) − 2 artanh(1/4801) + 8 artanh(1/8749).
        let pi = inverse_series(&one, 5, true) * 16 - inverse_series(&one, 239, true) * 4;
        let ln2 = inverse_series(&one, 26, false) * 18 - inverse_series(&one, 4801, false) * 2 + inverse_series(&one, 8749, false) * 8;
        Self { bits, fixed_bits, pi, ln2 }
    }

    fn round(&self, mantissa: BigInt, exponent: i64) -> Real {
        let surplus = mantissa.bits().saturating_sub(self.bits);
        if mantissa.is_zero() {
            return Real { mantissa, exponent: 0 };
        }
        Real { mantissa: mantissa >> surplus, exponent: exponent.saturating_add(i64::try_from(surplus).unwrap_or(i64::MAX)) }
    }

    /// Whether a value is neither too large nor too small to be told from others.
    pub(crate) fn in_range(&self, value: &Real) -> bool {
        value.is_zero() || value.magnitude().unsigned_abs() <= self.bits / RANGE
    }

    pub(crate) fn integer(&self, value: i64) -> Real {
        self.round(BigInt::from(value), 0)
    }

    pub(crate) fn rational(&self, value: &BigRational) -> Real {
        let shift = (self.bits + value.denom().bits()).saturating_sub(value.numer().bits().saturating_sub(1));
        self.round((value.numer() << shift) / value.denom(), -i64::try_from(shift).unwrap_or(0))
    }

    pub(crate) fn pi(&self) -> Real {
        self.round(self.pi.clone(), -(self.fixed_bits as i64))
    }

    pub(crate) fn add(&self, a: &Real, b: &Real) -> Real {
        if a.is_zero() {
            return b.clone();
        }
        if b.is_zero() {
            return a.clone();
        }
        let (high, low) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
        let gap = high.exponent - low.exponent;
        // What is smaller than the last bit changes nothing.
        if gap > (2 * self.bits + GUARD) as i64 {
            return if high.magnitude() > low.magnitude() { high.clone() } else { low.clone() };
        }
        self.round((&high.mantissa << gap) + &low.mantissa, low.exponent)
    }

    pub(crate) fn sub(&self, a: &Real, b: &Real) -> Real {
        self.add(a, &b.neg())
    }

    pub(crate) fn mul(&self, a: &Real, b: &Real) -> Real {
        self.round(&a.mantissa * &b.mantissa, a.exponent.saturating_add(b.exponent))
    }

    pub(crate) fn div(&self, a: &Real, b: &Real) -> Option<Real> {
        if b.is_zero() {
            return None;
        }
        let shift = self.bits + b.mantissa.bits();
        Some(self.round((&a.mantissa << shift) / &b.mantissa, a.exponent.saturating_sub(b.exponent).saturating_sub(shift as i64)))
    }

    pub(crate) fn sqrt(&self, a: &Real) -> Option<Real> {
        if a.mantissa.is_negative() {
            return None;
        }
        let mut shift = (2 * self.bits).saturating_sub(a.mantissa.bits()) as i64;
        if (a.exponent - shift) % 2 != 0 {
            shift += 1;
        }
        Some(self.round((&a.mantissa << shift).sqrt(), (a.exponent - shift) / 2))
    }

    /// The integer nearest to value · 2^bits from below.
    fn fixed(&self, value: &Real) -> Option<BigInt> {
        if !self.in_range(value) && value.magnitude() > 0 {
            return None;
        }
        let shift = value.exponent + self.fixed_bits as i64;
        Some(if shift >= 0 { &value.mantissa << shift } else { &value.mantissa >> -shift })
    }

    fn unfixed(&self, value: BigInt) -> Real {
        self.round(value, -(self.fixed_bits as i64))
    }

    fn fixed_mul(&self, a: &BigInt, b: &BigInt) -> BigInt {
        (a * b) >> self.fixed_bits
    }

    /// e^a
    pub(crate) fn exp(&self, a: &Real) -> Option<Real> {
        if a.magnitude() > 24 {
            return None;
        }
        let x = self.fixed(a)?;
        let times = &x / &self.ln2;
        let rest = x - &times * &self.ln2;
        const HALVINGS: u64 = 12;
        let small = rest >> HALVINGS;
        let (mut sum, mut term, mut k) = (BigInt::one() << self.fixed_bits, BigInt::one() << self.fixed_bits, 1);
        loop {
            term = self.fixed_mul(&term, &small) / k;
            if term.is_zero() || term == BigInt::from(-1) {
                break;
            }
            sum += &term;
            k += 1;
        }
        for _ in 0..HALVINGS {
            sum = self.fixed_mul(&sum, &sum);
        }
        let mut value = self.unfixed(sum);
        value.exponent = value.exponent.saturating_add(times.to_i64()?);
        Some(value)
    }

    /// ln a for a > 0.
    pub(crate) fn ln(&self, a: &Real) -> Option<Real> {
        if !a.mantissa.is_positive() {
            return None;
        }
        // a = f · 2^k with f in [1/2, 1), and y ← y + 2 (f − e^y) / (f + e^y), which triples the digits each time.
        let k = a.magnitude();
        let f = Real { mantissa: a.mantissa.clone(), exponent: a.exponent - k };
        let mut y = self.near_f64(f.to_f64().ln());
        let mut digits = 48;
        loop {
            let power = self.exp(&y)?;
            let step = self.div(&self.sub(&f, &power), &self.add(&f, &power))?;
            y = self.add(&y, &self.add(&step, &step));
            if digits > self.bits + GUARD {
                break;
            }
            digits *= 3;
        }
        let shift = self.unfixed(&self.ln2 * k);
        Some(self.add(&y, &shift))
    }

    /// (sin a, cos a)
    pub(crate) fn sin_cos(&self, a: &Real) -> Option<(Real, Real)> {
        let x = self.fixed(a)?;
        let turn: BigInt = &self.pi << 1;
        let rest = &x - (&x / &turn) * &turn;
        const HALVINGS: u64 = 8;
        let small = rest >> HALVINGS;
        let square = self.fixed_mul(&small, &small);
        let series = |first: BigInt, start: u64| {
            let (mut sum, mut term, mut k) = (first.clone(), first, start);
            loop {
                term = -self.fixed_mul(&term, &square) / (k * (k + 1));
                if term.is_zero() || term == BigInt::from(-1) {
                    return sum;
                }
                sum += &term;
                k += 2;
            }
        };
        let mut sin = series(small.clone(), 2);
        let mut cos = series(BigInt::one() << self.fixed_bits, 1);
        for _ in 0..HALVINGS {
            let next = self.fixed_mul(&sin, &cos) << 1;
            cos = self.fixed_mul(&cos, &cos) - self.fixed_mul(&sin, &sin);
            sin = next;
        }
        Some((self.unfixed(sin), self.unfixed(cos)))
    }

    /// The angle of the point (a, b), in (−π, π].
    pub(crate) fn angle(&self, a: &Real, b: &Real) -> Option<Real> {
        if b.is_zero() {
            return Some(if a.mantissa.is_negative() { self.pi() } else { Real::zero() });
        }
        let scale = a.magnitude_or_low().max(b.magnitude_or_low());
        let scaled = |r: &Real| Real { mantissa: r.mantissa.clone(), exponent: r.exponent - scale };
        let (a, b) = (scaled(a), scaled(b));
        let mut y = self.near_f64(b.to_f64().atan2(a.to_f64()));
        let mut digits = 48;
        loop {
            let (sin, cos) = self.sin_cos(&y)?;
            let across = self.sub(&self.mul(&b, &cos), &self.mul(&a, &sin));
            let along = self.add(&self.mul(&a, &cos), &self.mul(&b, &sin));
            y = self.add(&y, &self.div(&across, &along)?);
            if digits > self.bits + GUARD {
                return Some(y);
            }
            digits *= 3;
        }
    }

    fn near_f64(&self, value: f64) -> Real {
        // Up to π, so that 60 bits after the point fit.
        self.round(BigInt::from((value * 2_f64.powi(60)) as i64), -60)
    }

    /// The largest integer at most a, as it stands.
    pub(crate) fn whole_floor(&self, a: &Real) -> BigInt {
        if a.exponent >= 0 { &a.mantissa << a.exponent } else { &a.mantissa >> a.exponent.unsigned_abs() }
    }

    /// The largest integer at most a, unless a is too close to one to tell.
    pub(crate) fn floor(&self, a: &Real) -> Option<Real> {
        if a.exponent >= 0 {
            return (a.mantissa.bits() + (a.exponent as u64) < self.bits).then(|| a.clone());
        }
        let shift = a.exponent.unsigned_abs();
        let floor = &a.mantissa >> shift;
        let rest = &a.mantissa - (&floor << shift);
        let nearest = rest.bits().min(((BigInt::one() << shift) - &rest).bits());
        // Fewer than 128 bits between a and an integer, beside the bits that are kept: it may be that integer.
        let certain = !rest.is_zero() && nearest + self.bits / 2 > shift && a.magnitude() < (self.bits / 4) as i64;
        certain.then(|| self.round(floor, 0))
    }
}

/// atan(1/n) or artanh(1/n), times `one`.
fn inverse_series(one: &BigInt, n: u64, alternating: bool) -> BigInt {
    let square = n * n;
    let (mut power, mut sum, mut k) = (one / n, BigInt::zero(), 0_u64);
    while !power.is_zero() {
        let term = &power / (2 * k + 1);
        if alternating && k % 2 == 1 {
            sum -= term
        } else {
            sum += term
        }
        power /= square;
        k += 1;
    }
    sum
}

impl Real {
    pub(crate) fn zero() -> Self {
        Self { mantissa: BigInt::zero(), exponent: 0 }
    }
    pub(crate) fn is_zero(&self) -> bool {
        self.mantissa.is_zero()
    }
    pub(crate) fn is_negative(&self) -> bool {
        self.mantissa.sign() == Sign::Minus
    }
    pub(crate) fn neg(&self) -> Self {
        Self { mantissa: -&self.mantissa, exponent: self.exponent }
    }
    pub(crate) fn abs(&self) -> Self {
        Self { mantissa: self.mantissa.abs(), exponent: self.exponent }
    }
    /// The k with 2^(k−1) ≤ |value| < 2^k.
    pub(crate) fn magnitude(&self) -> i64 {
        if self.is_zero() { 0 } else { self.exponent.saturating_add(i64::try_from(self.mantissa.bits()).unwrap_or(i64::MAX)) }
    }
    fn magnitude_or_low(&self) -> i64 {
        if self.is_zero() { i64::MIN / 2 } else { self.magnitude() }
    }
    fn to_f64(&self) -> f64 {
        let surplus = self.mantissa.bits().saturating_sub(60);
        let mantissa = (&self.mantissa >> surplus).to_f64().unwrap_or(0.0);
        let exponent = self.exponent.saturating_add(surplus as i64).clamp(-2000, 2000);
        mantissa * 2_f64.powi(i32::try_from(exponent).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Precision, Real};

    fn close(p: &Precision, a: &Real, b: &Real) {
        let difference = p.sub(a, b);
        assert!(difference.is_zero() || difference.magnitude() < -240 + a.magnitude().max(0), "{a:?} and {b:?}");
    }

    #[test]
    fn functions_and_their_inverses_agree_to_the_last_bits() {
        let p = Precision::new(256);
        for (top, bottom) in [(1, 3), (7, 2), (99, 100), (1, 1000), (12345, 7)] {
            let x = p.div(&p.integer(top), &p.integer(bottom)).unwrap();
            close(&p, &p.exp(&p.ln(&x).unwrap()).unwrap(), &x);
            let root = p.sqrt(&x).unwrap();
            close(&p, &p.mul(&root, &root), &x);
            let (sin, cos) = p.sin_cos(&x).unwrap();
            close(&p, &p.add(&p.mul(&sin, &sin), &p.mul(&cos, &cos)), &p.integer(1));
            let angle = p.angle(&cos, &sin).unwrap();
            let (again, _) = p.sin_cos(&angle).unwrap();
            close(&p, &again, &sin);
        }
    }

    #[test]
    fn known_values_are_met() {
        let p = Precision::new(256);
        let sixth = p.div(&p.pi(), &p.integer(6)).unwrap();
        close(&p, &p.sin_cos(&sixth).unwrap().0, &p.div(&p.integer(1), &p.integer(2)).unwrap());
        close(&p, &p.angle(&p.integer(1), &p.integer(1)).unwrap(), &p.div(&p.pi(), &p.integer(4)).unwrap());
        close(&p, &p.angle(&p.integer(-1), &Real::zero()).unwrap(), &p.pi());
        assert_eq!((p.exp(&p.integer(1)).unwrap().to_f64() * 1e9).round(), 2_718_281_828.0);
        assert_eq!(p.floor(&p.div(&p.integer(-7), &p.integer(2)).unwrap()).unwrap(), p.integer(-4));
    }
}
