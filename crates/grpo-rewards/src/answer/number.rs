//! Plain numbers in running text, as exact rationals.

use std::ops::Range;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};

use super::chars::plain;
use super::ratio;

/// The most digits a number may have; longer ones are not read as numbers.
pub(crate) const MAX_DIGITS: usize = 4096;
/// The largest decimal exponent that is read, either way.
pub(crate) const MAX_EXPONENT: u32 = 1024;

/// A number and where it stands.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    start: usize,
    end: usize,
    /// `None` where it has too many digits, too large an exponent or a zero below the line, or was not asked for.
    value: Option<BigRational>,
}

/// What is wanted of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Value,
    Place,
}

/// The one value in `text`, exactly: `None` where there is no number, an unreadable one, or several that differ.
///
/// A sign belongs to its number unless an operand stands before it; commas group thousands only where every group has three digits;
/// `a/b` and `\frac{a}{b}` are fractions; currency signs, units and a per cent sign are left aside. Digits of several scripts are read.
///
/// ```
/// use grpo_rewards::answer::only_number;
/// assert_eq!(only_number("$1,250.50 dollars"), only_number("2501/2"));
/// assert_eq!(only_number("41 or 42"), None); // a hedge is no answer
/// assert_ne!(only_number("0.1"), only_number("0.10000000000000001")); // equal only as 64-bit floats
/// ```
pub fn only_number(text: &str) -> Option<BigRational> {
    let mut value: Option<BigRational> = None;
    let mut at = 0;
    while let Some(found) = next_number(text, at, Wanted::Value) {
        at = found.end;
        let this = found.value?;
        match &value {
            Some(first) if *first != this => return None,
            _ => value = Some(this),
        }
    }
    value
}

/// Where the last number stands.
pub(crate) fn last_number(text: &str) -> Option<Range<usize>> {
    let (mut at, mut last) = (0, None);
    while let Some(found) = next_number(text, at, Wanted::Place) {
        at = found.end;
        last = Some(found.start..found.end);
    }
    last
}

/// The first number at or after byte `from`.
fn next_number(text: &str, from: usize, wanted: Wanted) -> Option<Found> {
    let mut cursor = Cursor { text, at: from, wanted };
    let mut before = text.get(..from).and_then(|t| t.chars().next_back()).map(plain);
    while let Some(c) = cursor.peek() {
        let start = cursor.at;
        // A digit that ends a word (x2, AZ2) names something.
        let in_word = before.is_some_and(|b| in_a_word(b) && !b.is_ascii_digit());
        let operand = before.is_some_and(|b| b.is_alphanumeric() || matches!(b, ')' | ']' | '}'));
        let mut probe = Cursor { text, at: start, wanted };
        let mut negative = false;
        if !operand && matches!(c, '-' | '+') {
            negative = c == '-';
            probe.bump();
            probe.skip_currency();
        }
        if !in_word && let Some((numerator, end)) = probe.fraction() {
            // 1.2.3 and 0x2A are no numbers at all.
            let mut after = Cursor { text, at: end, wanted };
            if after.continues() {
                after.skip_word();
                before = after.before();
                cursor.at = after.at;
                continue;
            }
            return Some(Found { start, end, value: numerator.map(|v| if negative { -v } else { v }) });
        }
        if in_a_word(c) {
            cursor.skip_word();
        } else {
            cursor.bump();
        }
        before = cursor.before();
    }
    None
}

/// Whether `c` can stand in a word; scripts written without blanks have no such words.
fn in_a_word(c: char) -> bool {
    c == '_' || (c.is_alphanumeric() && u32::from(c) < 0x2E80)
}

/// A place in a text, read as plain characters.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    wanted: Wanted,
}

impl Cursor<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }
    fn peek(&self) -> Option<char> {
        self.rest().chars().next().map(plain)
    }
    fn second(&self) -> Option<char> {
        self.rest().chars().nth(1).map(plain)
    }
    fn before(&self) -> Option<char> {
        self.text.get(..self.at).and_then(|t| t.chars().next_back()).map(plain)
    }
    fn bump(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }
    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.bump();
        }
        found
    }
    fn skip_currency(&mut self) {
        if self.peek() == Some('\\') && self.second() == Some('$') {
            self.bump();
        }
        if matches!(self.peek(), Some('$' | '€' | '£' | '¥')) {
            self.bump();
        }
    }
    /// Past a run of letters, digits and points; at least one character.
    fn skip_word(&mut self) {
        self.bump();
        while self.peek().is_some_and(in_a_word) {
            self.bump();
        }
    }
    /// Whether what follows a number makes it part of something else: a second decimal point, the letter of a radix.
    fn continues(&self) -> bool {
        match self.peek() {
            Some('.') => self.second().is_some_and(|c| c.is_ascii_digit()),
            Some('x' | 'X' | 'b' | 'o') => self.before() == Some('0') && self.second().is_some_and(|c| c.is_ascii_hexdigit()),
            _ => false,
        }
    }

    /// An unsigned number, `a/b` or `\frac{a}{b}` here, with its end; the value is `None` where it is out of bounds.
    fn fraction(&mut self) -> Option<(Option<BigRational>, usize)> {
        if let Some(command) = ["\\frac{", "\\dfrac{", "\\tfrac{"].into_iter().find(|c| self.rest().starts_with(c)) {
            self.at += command.len();
            let top = self.signed()?;
            if !(self.take('}') && self.take('{')) {
                return None;
            }
            let bottom = self.signed()?;
            return self.take('}').then(|| (divide(top, bottom), self.at));
        }
        let top = self.unsigned()?;
        let end = self.at;
        if self.take('/')
            && let Some(bottom) = self.unsigned()
            && self.peek() != Some('/')
        {
            return Some((divide(top, bottom), self.at));
        }
        Some((top, end))
    }

    fn signed(&mut self) -> Option<Option<BigRational>> {
        let negative = self.take('-');
        self.unsigned().map(|value| value.map(|v| if negative { -v } else { v }))
    }

    /// Digits with groups, a decimal point, an exponent. The outer `None`: no number here; the inner: out of bounds.
    fn unsigned(&mut self) -> Option<Option<BigRational>> {
        let mut digits = String::new();
        self.digits(&mut digits);
        // Leading zeros group nothing: 0,111 is no 111, but 0001,000 is 1000.
        if (1..=3).contains(&digits.trim_start_matches('0').len()) {
            while self.peek() == Some(',') && self.group_follows() {
                self.bump();
                self.digits(&mut digits);
            }
        }
        let whole = digits.len();
        if self.peek() == Some('.') && self.second().is_some_and(|c| c.is_ascii_digit()) {
            self.bump();
            self.digits(&mut digits);
        }
        if digits.is_empty() {
            return None;
        }
        let decimals = digits.len() - whole;
        let exponent = self.exponent();
        Some(if self.wanted == Wanted::Value { decimal(&digits, decimals, exponent) } else { None })
    }

    fn digits(&mut self, into: &mut String) {
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            into.push(c);
            self.bump();
        }
    }

    /// Whether exactly three digits follow the character here.
    fn group_follows(&self) -> bool {
        let mut next = self.rest().chars().skip(1).map(plain);
        let three = next.by_ref().take(3).filter(char::is_ascii_digit).count() == 3;
        three && !next.next().is_some_and(|c| c.is_ascii_digit())
    }

    /// `e` and an integer, or 0 where there is none. `None` is out of bounds.
    fn exponent(&mut self) -> Option<i64> {
        let start = self.at;
        if !(self.take('e') || self.take('E')) {
            return Some(0);
        }
        let negative = self.take('-');
        if !negative {
            self.take('+');
        }
        let mut digits = String::new();
        self.digits(&mut digits);
        if digits.is_empty() {
            self.at = start;
            return Some(0);
        }
        let exponent = digits.parse::<i64>().ok().filter(|&e| e <= i64::from(MAX_EXPONENT))?;
        Some(if negative { -exponent } else { exponent })
    }
}

/// digits · 10^(exponent − decimals), unless out of bounds.
pub(crate) fn decimal(digits: &str, decimals: usize, exponent: Option<i64>) -> Option<BigRational> {
    if digits.len() > MAX_DIGITS {
        return None;
    }
    let scale = exponent? - i64::try_from(decimals).ok()?;
    // As a machine word, the usual case: 10^18 is one, too.
    if let (Ok(value), 0..=18) = (digits.parse::<i64>(), -scale) {
        return Some(if scale == 0 {
            BigInt::from(value).into()
        } else {
            ratio::reduced(value.into(), 10_i128.pow(scale.unsigned_abs() as u32))
        });
    }
    let value = BigInt::parse_bytes(digits.as_bytes(), 10)?;
    let power = num_traits::pow(BigInt::from(10), usize::try_from(scale.unsigned_abs()).ok()?);
    Some(if scale >= 0 { BigRational::from(value * power) } else { BigRational::new(value, power) })
}

fn divide(top: Option<BigRational>, bottom: Option<BigRational>) -> Option<BigRational> {
    let (top, bottom) = (top?, bottom?);
    if bottom.is_zero() {
        return None;
    }
    Some(if bottom.is_one() { top } else { ratio::quotient(&top, &bottom) })
}

#[cfg(test)]
mod tests {
    use super::{last_number, only_number};

    fn same(a: &str, b: &str) {
        assert_eq!(only_number(a), only_number(b), "{a} and {b}");
        assert!(only_number(a).is_some(), "{a} is read");
    }

    #[test]
    fn equal_numbers_are_equal_however_they_are_spelt() {
        for (a, b) in [
            ("42", "42.0"),
            ("1,000", "1000"),
            ("-$5", "-5.00"),
            ("0.5", "1/2"),
            ("\\frac{-1}{2}", "-0.5"),
            ("1.5e3", "1500"),
            (".4", "0.4"),
            ("007", "7"),
            ("**42**", "42"),
            ("1,000.99m²", "1000.99"),
            ("−7", "-7"),
            ("答案是42", "42"),
        ] {
            same(a, b);
        }
    }

    #[test]
    fn what_is_no_single_number_is_none() {
        for text in ["", "forty-two", "1.2.3", "0x2A", "1,2,3", "AZYUK2A", "41 or 42", "1e99999", "1/0", "..."] {
            assert_eq!(only_number(text), None, "{text}");
        }
        assert_eq!(only_number(&"9".repeat(5000)), None);
    }

    #[test]
    fn a_sign_belongs_to_its_number_unless_an_operand_stands_before_it() {
        let last = |text| last_number(text).map(|at| &text[at]);
        assert_eq!(last("so it is -3."), Some("-3"));
        assert_eq!(last("5-3"), Some("3"));
        assert_eq!(last("100 - 30 = 70"), Some("70"));
        assert_eq!(last("13/28"), Some("13/28"));
    }
}
