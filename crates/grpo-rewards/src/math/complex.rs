//! Complex arithmetic and functions at one precision.

use num_bigint::BigInt;
use num_rational::BigRational;

use super::float::Real;
use super::numeric::{At, Complex};
use super::poly::Exponent;
use super::tree::Function;

impl At<'_> {
    /// By the larger part: the smaller may be what rounding left.
    pub(super) fn in_range(&self, value: &Complex) -> bool {
        let magnitude = |part: &Real| if part.is_zero() { i64::MIN } else { part.magnitude() };
        let larger = if magnitude(&value.re) >= magnitude(&value.im) { &value.re } else { &value.im };
        self.p.in_range(larger)
    }

    pub(super) fn real(&self, re: Real) -> Complex {
        Complex { re, im: Real::zero() }
    }
    pub(super) fn integer(&self, value: i64) -> Complex {
        self.real(self.p.integer(value))
    }
    pub(super) fn add(&self, a: &Complex, b: &Complex) -> Complex {
        Complex { re: self.p.add(&a.re, &b.re), im: self.p.add(&a.im, &b.im) }
    }
    pub(super) fn sub(&self, a: &Complex, b: &Complex) -> Complex {
        Complex { re: self.p.sub(&a.re, &b.re), im: self.p.sub(&a.im, &b.im) }
    }
    pub(super) fn mul(&self, a: &Complex, b: &Complex) -> Complex {
        let p = &self.p;
        if a.im.is_zero() && b.im.is_zero() {
            return self.real(p.mul(&a.re, &b.re));
        }
        Complex { re: p.sub(&p.mul(&a.re, &b.re), &p.mul(&a.im, &b.im)), im: p.add(&p.mul(&a.re, &b.im), &p.mul(&a.im, &b.re)) }
    }
    pub(super) fn div(&self, a: &Complex, b: &Complex) -> Option<Complex> {
        let p = &self.p;
        if b.im.is_zero() {
            return Some(Complex { re: p.div(&a.re, &b.re)?, im: p.div(&a.im, &b.re)? });
        }
        let norm = p.add(&p.mul(&b.re, &b.re), &p.mul(&b.im, &b.im));
        let top = self.mul(a, &Complex { re: b.re.clone(), im: b.im.neg() });
        Some(Complex { re: p.div(&top.re, &norm)?, im: p.div(&top.im, &norm)? })
    }
    pub(super) fn exp(&self, a: &Complex) -> Option<Complex> {
        let size = self.p.exp(&a.re)?;
        if a.im.is_zero() {
            return Some(self.real(size));
        }
        let (sin, cos) = self.p.sin_cos(&a.im)?;
        let turned = self.chopped(Complex { re: cos, im: sin }, 0);
        Some(Complex { re: self.p.mul(&size, &turned.re), im: self.p.mul(&size, &turned.im) })
    }
    pub(super) fn ln(&self, a: &Complex) -> Option<Complex> {
        let p = &self.p;
        if a.im.is_zero() {
            let im = if a.re.is_negative() { p.pi() } else { Real::zero() };
            return Some(Complex { re: p.ln(&a.re.abs())?, im });
        }
        let norm = p.add(&p.mul(&a.re, &a.re), &p.mul(&a.im, &a.im));
        let half = p.div(&p.ln(&norm)?, &p.integer(2))?;
        Some(Complex { re: half, im: p.angle(&a.re, &a.im)? })
    }
    pub(super) fn power(&self, a: &Complex, b: &Complex) -> Option<Complex> {
        self.exp(&self.mul(b, &self.ln(a)?))
    }

    pub(super) fn power_rational(&self, a: &Complex, exponent: &Exponent) -> Option<Complex> {
        let (above, below) = (*exponent.numer(), *exponent.denom());
        if below == 1 {
            return self.power_integer(a, above);
        }
        if a.im.is_zero() {
            if a.re.is_zero() {
                return (above > 0).then(|| self.integer(0));
            }
            // Odd roots of negative numbers are real, as in the normal form.
            if a.re.is_negative() && below % 2 == 1 {
                let root = self.power_rational(&self.real(a.re.abs()), exponent)?;
                return Some(if above % 2 == 0 { root } else { self.sub(&self.integer(0), &root) });
            }
            if below == 2 && !a.re.is_negative() {
                let root = self.real(self.p.sqrt(&a.re)?);
                return self.power_integer(&root, above);
            }
        }
        let exponent = self.real(self.p.rational(&BigRational::new(BigInt::from(above), BigInt::from(below))));
        self.power(a, &exponent)
    }

    pub(super) fn power_integer(&self, a: &Complex, power: i64) -> Option<Complex> {
        let (mut result, mut square, mut rest) = (self.integer(1), a.clone(), power.unsigned_abs());
        while rest > 0 {
            if rest % 2 == 1 {
                result = self.mul(&result, &square);
            }
            rest /= 2;
            square = self.mul(&square, &square);
            if !self.in_range(&result) || (rest > 0 && !self.in_range(&square)) {
                return None;
            }
        }
        if power < 0 { self.div(&self.integer(1), &result) } else { Some(result) }
    }

    pub(super) fn function(&self, function: Function, a: &Complex) -> Option<Complex> {
        use Function as F;
        let one = self.integer(1);
        let inverse = |value: Option<Complex>| value.and_then(|v| self.div(&one, &v));
        // tanh 1000 lies so close to 1 that only what it is made of shows that it is not 1.
        let quotient = |above: Function, below: Function| {
            let (above, below) = (self.function(above, a)?, self.function(below, a)?);
            if self.in_range(&above) && self.in_range(&below) { self.div(&above, &below) } else { None }
        };
        let i = Complex { re: Real::zero(), im: self.p.integer(1) };
        let real = a.im.is_zero();
        match function {
            F::Sin | F::Cos if real => {
                let (sin, cos) = self.p.sin_cos(&a.re)?;
                Some(self.real(if function == F::Sin { sin } else { cos }))
            }
            F::Sin | F::Cos => {
                let turned = self.mul(&i, a);
                let (up, down) = (self.exp(&turned)?, self.exp(&self.sub(&self.integer(0), &turned))?);
                let two = self.integer(2);
                if function == F::Cos {
                    self.div(&self.add(&up, &down), &two)
                } else {
                    self.div(&self.sub(&up, &down), &self.mul(&two, &i))
                }
            }
            F::Tan => quotient(F::Sin, F::Cos),
            F::Cot => quotient(F::Cos, F::Sin),
            F::Sec => inverse(self.function(F::Cos, a)),
            F::Csc => inverse(self.function(F::Sin, a)),
            F::Sinh | F::Cosh => {
                let (up, down) = (self.exp(a)?, self.exp(&self.sub(&self.integer(0), a))?);
                let both = if function == F::Cosh { self.add(&up, &down) } else { self.sub(&up, &down) };
                self.div(&both, &self.integer(2))
            }
            F::Tanh => quotient(F::Sinh, F::Cosh),
            F::Ln => self.ln(a),
            F::Exp => self.exp(a),
            // asin a = −i ln(i a + √(1 − a²)), acos a = π/2 − asin a, atan a = angle of (1, a)
            F::Asin | F::Acos => {
                let root = self.power_rational(&self.sub(&one, &self.mul(a, a)), &Exponent::new(1, 2))?;
                let sine = if real && root.im.is_zero() {
                    self.real(self.p.angle(&root.re, &a.re)?)
                } else {
                    let ln = self.ln(&self.add(&self.mul(&i, a), &root))?;
                    self.mul(&Complex { re: Real::zero(), im: self.p.integer(-1) }, &ln)
                };
                if function == F::Asin {
                    return Some(sine);
                }
                let quarter = self.real(self.p.div(&self.p.pi(), &self.p.integer(2))?);
                Some(self.sub(&quarter, &sine))
            }
            F::Atan if real => Some(self.real(self.p.angle(&self.p.integer(1), &a.re)?)),
            F::Abs if real => Some(self.real(a.re.abs())),
            F::Abs => {
                let norm = self.p.add(&self.p.mul(&a.re, &a.re), &self.p.mul(&a.im, &a.im));
                Some(self.real(self.p.sqrt(&norm)?))
            }
            F::Floor if real => Some(self.real(self.p.floor(&a.re)?)),
            F::Ceiling if real => Some(self.real(self.p.floor(&a.re.neg())?.neg())),
            _ => None,
        }
    }
}
