//! Numbers against numbers.

use std::fmt;

/// One number that is not what it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// Which number: `loss`, `grad_logp[2, 0]`.
    pub what: String,
    /// What was computed.
    pub got: f64,
    /// What was expected.
    pub want: f64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: got {:?}, want {:?}", self.what, self.got, self.want)
    }
}

/// Collects the comparisons of one check: |got − want| ≤ tol · max(1, |want|).
#[derive(Debug)]
pub(crate) struct Compare {
    tolerance: f64,
    pub(crate) mismatches: Vec<Mismatch>,
    pub(crate) compared: usize,
    /// What was there to be compared and was not, by name.
    pub(crate) left_out: Vec<String>,
}

impl Compare {
    pub(crate) fn new(tolerance: f64) -> Self {
        Self { tolerance, mismatches: Vec::new(), compared: 0, left_out: Vec::new() }
    }

    /// For an operation whose precision is known to be less than the file asks for: the reason stands at the call.
    pub(crate) fn loosen(&mut self, tolerance: f64) {
        self.tolerance = self.tolerance.max(tolerance);
    }

    /// Says that something was not compared; the report names it.
    pub(crate) fn leave_out(&mut self, what: &str) {
        self.left_out.push(what.to_owned());
    }

    pub(crate) fn number(&mut self, what: &str, got: f64, want: f64) {
        self.compare(got, want, || what.to_owned());
    }

    /// A vector. Another length is a mismatch.
    pub(crate) fn vector(&mut self, what: &str, got: &[f64], want: &[f64]) {
        self.number(&format!("{what}: length"), got.len() as f64, want.len() as f64);
        for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
            self.compare(g, w, || format!("{what}[{i}]"));
        }
    }

    /// A matrix of `cols` columns, row after row.
    pub(crate) fn matrix(&mut self, what: &str, cols: usize, got: &[f64], want: &[f64]) {
        self.number(&format!("{what}: length"), got.len() as f64, want.len() as f64);
        for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
            self.compare(g, w, || format!("{what}[{}, {}]", i / cols, i % cols));
        }
    }

    fn compare(&mut self, got: f64, want: f64, what: impl FnOnce() -> String) {
        self.compared += 1;
        // Not `>`: a NaN is never close.
        let close = (got - want).abs() <= self.tolerance * want.abs().max(1.0);
        if !close {
            self.mismatches.push(Mismatch { what: what(), got, want });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tolerance_is_relative_above_one_absolute_below_and_nan_is_never_close() {
        let mut seen = Compare::new(1e-3);
        seen.vector("near", &[1000.9, 0.0009], &[1000.0, 0.0]);
        assert_eq!(seen.mismatches, []);
        seen.vector("far", &[1001.1, 0.0011, f64::NAN, f64::INFINITY], &[1000.0, 0.0, 0.0, 0.0]);
        assert_eq!(seen.mismatches.len(), 4);
        seen.vector("short", &[], &[1.0]);
        assert_eq!(seen.mismatches.len(), 5);
    }
}
