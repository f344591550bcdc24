//! Which characters mean the same as a plain one.

/// The zeros of the decimal digits that are read: ASCII, Arabic-Indic, extended Arabic-Indic, Devanagari, Bengali, Thai, full-width.
const ZEROS: [u32; 7] = [0x30, 0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50, 0xFF10];
/// Mathematical digits (bold, double-struck, sans-serif, …): five runs of ten in one block.
const MATHEMATICAL_DIGITS: std::ops::RangeInclusive<u32> = 0x1D7CE..=0x1D7FF;

/// The plain character that `c` stands for: decimal digits of other scripts become ASCII digits, the minus signs U+2212, U+2013 and
/// U+FE63 a hyphen, full-width forms their ASCII twins, exotic blanks a blank. Everything else stays as it is: Greek Α is not A.
pub(crate) fn plain(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    let code = u32::from(c);
    let digit = |value: u32| char::from_digit(value, 10).unwrap_or(c);
    if let Some(zero) = ZEROS.iter().find(|&&zero| (zero..zero + 10).contains(&code)) {
        return digit(code - zero);
    }
    if MATHEMATICAL_DIGITS.contains(&code) {
        return digit((code - MATHEMATICAL_DIGITS.start()) % 10);
    }
    match c {
        '\u{2212}' | '\u{2013}' | '\u{FE63}' => '-',
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(code - 0xFEE0).unwrap_or(c),
        '\u{00A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn digits_of_other_scripts_and_minus_signs_are_plain_and_letters_are_kept() {
        let read = |text: &str| text.chars().map(plain).collect::<String>();
        assert_eq!(read("٤٢ 𝟒𝟐 𝟦𝟤 ４２ ๔๒"), "42 42 42 42 42");
        assert_eq!(read("−5 –5 （１）"), "-5 -5 (1)");
        assert_eq!(read("Αé四"), "Αé四");
    }
}
