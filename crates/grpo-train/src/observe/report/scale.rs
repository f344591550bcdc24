//! Axes: where they begin and end, where their marks stand, and how numbers are written.

/// An axis: its ends, and its marks between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    pub marks: Vec<f64>,
}

impl Scale {
    /// Round ends that hold all of `low` to `high`, with about five marks.
    pub fn round(low: f64, high: f64) -> Self {
        let (low, high) = if low < high { (low, high) } else { (low - spread(low), high + spread(high)) };
        let step = round_step((high - low) / 5.0);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        // Counted in whole steps: sums of steps would drift.
        let marks = (0..=(last - first) as usize).map(|n| (first + n as f64) * step).collect();
        Self { low: first * step, high: last * step, marks }
    }

    /// The steps of a run, with whole marks inside.
    pub fn steps(first: u64, last: u64) -> Self {
        let (low, high) = (first as f64, last.max(first + 1) as f64);
        let step = round_step((high - low) / 5.0).max(1.0).round();
        let begin = (low / step).ceil();
        let marks = (0..=((high / step).floor() - begin).max(0.0) as usize).map(|n| (begin + n as f64) * step).collect();
        Self { low, high, marks }
    }

    /// Where a value stands between the ends, from 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// What stands on both sides of a lone value.
fn spread(value: f64) -> f64 {
    if value == 0.0 { 1.0 } else { value.abs() * 0.1 }
}

/// The next of 1, 2, 2.5, 5, 10, 20, …, at any power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let digit = step / power;
    power * [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|round| digit <= *round + 1e-9).unwrap_or(10.0)
}

/// A number with three digits that count: `0.0312`, `1.5`, `12,300`, `1.2e-6`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "not finite" } else { "infinite" }.to_owned();
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&size) {
        let text = format!("{value:.2e}");
        return match text.split_once('e') {
            Some((digits, power)) => format!("{}e{power}", trimmed(digits)),
            None => text,
        };
    }
    let decimals = (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.decimals$}");
    if decimals > 0 { trimmed(&text).to_owned() } else { grouped(&text) }
}

/// Without zeros at the end.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Whole numbers with a comma at each thousand.
pub fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let count = digits.len();
    let mut out = sign.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (count - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_hold_the_values() {
        assert_eq!(Scale::round(0.0, 0.93), Scale { low: 0.0, high: 1.0, marks: vec![0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0] });
        assert_eq!(Scale::round(0.0, 4.0).marks, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(Scale::round(-0.05, 1.1).marks, [-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
        let lone = Scale::round(5.0, 5.0);
        assert!(lone.low < 5.0 && lone.high > 5.0 && lone.marks.len() > 2, "{lone:?}");
        assert!(Scale::round(0.0, 0.0).marks.contains(&0.0));
    }

    #[test]
    fn steps_are_whole() {
        assert_eq!(Scale::steps(0, 59).marks, [0.0, 20.0, 40.0]);
        assert_eq!(Scale::steps(0, 2).marks, [0.0, 1.0, 2.0]);
        assert_eq!(Scale::steps(7, 7).marks, [7.0, 8.0]);
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.03126, "0.0313"),
            (1.5, "1.5"),
            (12.34, "12.3"),
            (123.4, "123"),
            (12345.0, "12,345"),
            (-1234567.0, "-1,234,567"),
            (1e-6, "1e-6"),
            (1.234e-5, "1.23e-5"),
            (3.2e9, "3.2e9"),
            (100.0, "100"),
            (0.5, "0.5"),
            (-0.25, "-0.25"),
            (f64::NAN, "not finite"),
        ];
        cases.iter().for_each(|(value, text)| assert_eq!(number(*value), *text));
    }
}
