//! Numbers as they are written.

use num_bigint::BigInt;

use super::tree::Node;
use crate::answer::{MAX_EXPONENT, decimal, plain, ratio};

/// The fraction that one sign stands for.
pub(super) fn vulgar(c: char) -> Node {
    let (top, bottom) = match c {
        '⅓' => (1, 3),
        '¼' => (1, 4),
        '¾' => (3, 4),
        '⅔' => (2, 3),
        '⅕' => (1, 5),
        '⅛' => (1, 8),
        _ => (1, 2),
    };
    Node::Number { value: ratio::reduced(top, bottom), decimals: None, integer_literal: false }
}

/// A number as a node.
pub(super) fn number_node(text: &str) -> Option<Node> {
    // Plain digits, the usual case.
    if text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit()) {
        let value = BigInt::from(text.parse::<i64>().ok()?);
        return Some(Node::Number { value: value.into(), decimals: None, integer_literal: true });
    }
    let (mut digits, mut decimals, mut exponent) = (String::with_capacity(text.len()), None, String::new());
    let mut in_exponent = false;
    for c in text.chars().map(plain) {
        match c {
            '0'..='9' | '-' | '+' if in_exponent => exponent.push(c),
            '0'..='9' => {
                digits.push(c);
                decimals = decimals.map(|d: u32| d + 1);
            }
            '.' => decimals = Some(0),
            'e' | 'E' => in_exponent = true,
            ',' | ' ' | '\\' | '!' | '{' | '}' => {}
            _ => return None,
        }
    }
    if digits.is_empty() {
        return None;
    }
    let integer_literal = decimals.is_none() && !in_exponent;
    let exponent = if in_exponent { exponent.parse::<i64>().ok().filter(|e| e.unsigned_abs() <= u64::from(MAX_EXPONENT)) } else { Some(0) };
    let value = decimal(&digits, decimals.unwrap_or(0) as usize, exponent)?;
    Some(Node::Number { value, decimals: if in_exponent { None } else { decimals }, integer_literal })
}
