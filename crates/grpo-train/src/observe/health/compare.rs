//! First against last.

use crate::observe::run::Point;

/// Mean and spread of a stretch of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    pub mean: f64,
    pub median: f64,
    pub max: f64,
    /// Of the mean.
    pub standard_error: f64,
    pub steps: usize,
}

/// The last stretch of a curve: a fifth of its steps, from 5 to 50. `None` without a finite value.
pub fn last(curve: &[Point]) -> Option<Stretch> {
    let values = finite(curve);
    stretch(values.get(values.len().saturating_sub(width(values.len()))..)?)
}

/// The first and the last stretch. `None` below 10 finite values.
pub fn ends(curve: &[Point]) -> Option<(Stretch, Stretch)> {
    let values = finite(curve);
    let width = width(values.len());
    if values.len() < 10 {
        return None;
    }
    Some((stretch(values.get(..width)?)?, stretch(values.get(values.len() - width..)?)?))
}

/// By how many standard errors the second mean lies above the first; infinite where neither varies and they differ.
pub fn rise(first: &Stretch, last: &Stretch) -> f64 {
    let difference = last.mean - first.mean;
    if difference == 0.0 { 0.0 } else { difference / first.standard_error.hypot(last.standard_error) }
}

fn width(values: usize) -> usize {
    (values / 5).clamp(5, 50)
}

fn finite(curve: &[Point]) -> Vec<f64> {
    curve.iter().map(|(_, value)| *value).filter(|value| value.is_finite()).collect()
}

fn stretch(values: &[f64]) -> Option<Stretch> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(Stretch {
        mean,
        median: *sorted.get(sorted.len() / 2)?,
        max: *sorted.last()?,
        standard_error: if values.len() < 2 { 0.0 } else { (squares / (n - 1.0) / n).sqrt() },
        steps: values.len(),
    })
}

/// A number as a sentence has it: three digits.
pub fn show(value: f64) -> String {
    crate::observe::report::number(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_a_fifth_and_leaves_out_what_is_not_finite() {
        let curve: Vec<Point> = (0..100).map(|step| (step, if step == 99 { f64::NAN } else { step as f64 })).collect();
        let (first, last) = ends(&curve).unwrap();
        assert_eq!((first.steps, first.mean, last.mean, last.max), (19, 9.0, 89.0, 98.0));
        // Of 0 .. 18: variance 19 · 20 / 12, divided by 19.
        assert!((first.standard_error - (20.0f64 / 12.0).sqrt()).abs() < 1e-12);
        assert!(rise(&first, &last) > 40.0 && rise(&last, &first) < -40.0 && rise(&first, &first) == 0.0);
        assert_eq!((ends(&curve[..9]), last_of(&curve[..2])), (None, Some((2, 0.5))));
        assert_eq!(super::last(&[]), None);
    }

    fn last_of(curve: &[Point]) -> Option<(usize, f64)> {
        last(curve).map(|stretch| (stretch.steps, stretch.mean))
    }
}
