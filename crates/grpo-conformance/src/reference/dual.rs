//! Forward-mode derivatives: a number and its slope along one variable.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// a + a′ε with ε² = 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dual {
    pub value: f64,
    pub slope: f64,
}

impl Dual {
    pub(crate) const ZERO: Self = Self::constant(0.0);

    pub(crate) const fn constant(value: f64) -> Self {
        Self { value, slope: 0.0 }
    }

    /// Held constant: the value without the slope.
    pub(crate) fn held(self) -> Self {
        Self::constant(self.value)
    }

    pub(crate) fn exp(self) -> Self {
        let value = self.value.exp();
        Self { value, slope: value * self.slope }
    }

    pub(crate) fn ln(self) -> Self {
        Self { value: self.value.ln(), slope: self.slope / self.value }
    }

    /// |a|, with slope 0 at 0.
    pub(crate) fn abs(self) -> Self {
        let sign = if self.value == 0.0 { 0.0 } else { self.value.signum() };
        Self { value: self.value.abs(), slope: sign * self.slope }
    }

    /// 1 / (1 + e⁻ᵃ)
    pub(crate) fn sigmoid(self) -> Self {
        Self::constant(1.0) / (Self::constant(1.0) + (-self).exp())
    }

    pub(crate) fn min(self, other: Self) -> Self {
        if other.value < self.value { other } else { self }
    }

    pub(crate) fn max(self, other: Self) -> Self {
        if other.value > self.value { other } else { self }
    }

    /// Within [low, high]; beyond, the slope is 0.
    pub(crate) fn clamp(self, low: f64, high: f64) -> Self {
        self.max(Self::constant(low)).min(Self::constant(high))
    }
}

impl Add for Dual {
    type Output = Self;
    fn add(self, b: Self) -> Self {
        Self { value: self.value + b.value, slope: self.slope + b.slope }
    }
}

impl Sub for Dual {
    type Output = Self;
    fn sub(self, b: Self) -> Self {
        Self { value: self.value - b.value, slope: self.slope - b.slope }
    }
}

impl Mul for Dual {
    type Output = Self;
    fn mul(self, b: Self) -> Self {
        Self { value: self.value * b.value, slope: self.slope * b.value + self.value * b.slope }
    }
}

impl Div for Dual {
    type Output = Self;
    fn div(self, b: Self) -> Self {
        Self { value: self.value / b.value, slope: (self.slope * b.value - self.value * b.slope) / (b.value * b.value) }
    }
}

impl Neg for Dual {
    type Output = Self;
    fn neg(self) -> Self {
        Self { value: -self.value, slope: -self.slope }
    }
}

impl Add<f64> for Dual {
    type Output = Self;
    fn add(self, b: f64) -> Self {
        self + Self::constant(b)
    }
}

impl Sub<f64> for Dual {
    type Output = Self;
    fn sub(self, b: f64) -> Self {
        self - Self::constant(b)
    }
}

impl Mul<f64> for Dual {
    type Output = Self;
    fn mul(self, b: f64) -> Self {
        self * Self::constant(b)
    }
}

impl Div<f64> for Dual {
    type Output = Self;
    fn div(self, b: f64) -> Self {
        self / Self::constant(b)
    }
}

impl std::iter::Sum for Dual {
    fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
        terms.fold(Self::ZERO, Add::add)
    }
}

/// ∂f/∂x_k for every k: one evaluation of f for each.
pub(crate) fn gradient<E>(at: &[f64], f: impl Fn(&[Dual]) -> Result<Dual, E>) -> Result<Vec<f64>, E> {
    let mut x: Vec<Dual> = at.iter().map(|&v| Dual::constant(v)).collect();
    (0..x.len())
        .map(|k| {
            x[k].slope = 1.0;
            let slope = f(&x).map(|y| y.slope);
            x[k].slope = 0.0;
            slope
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_the_slope_of_its_central_difference() {
        let f = |x: Dual| (x * x).exp().ln() * x.sigmoid() - x.abs() / (x + 3.0) + x.clamp(-1.0, 2.0).min(x * 2.0).max(-x);
        for at in [-1.7, -0.4, 0.3, 1.9, 2.5] {
            let slope = gradient(&[at], |x| Ok::<_, ()>(f(x[0]))).unwrap()[0];
            let h = 1e-6;
            let central = (f(Dual::constant(at + h)).value - f(Dual::constant(at - h)).value) / (2.0 * h);
            assert!((slope - central).abs() < 1e-7, "{at}: {slope} {central}");
        }
    }

    #[test]
    fn held_and_clamped_values_have_no_slope() {
        let x = Dual { value: 3.0, slope: 1.0 };
        assert_eq!((x.held().slope, x.clamp(0.0, 2.0).slope, Dual { value: 0.0, slope: 1.0 }.abs().slope), (0.0, 0.0, 0.0));
    }
}
