//! A text's tokens in one spelling each, for comparing texts before, and where, they are not mathematics.

use super::parse::MAX_LENGTH;
use super::token::{Lexer, Tok};
use super::words::{self, Word};

/// A text in normal spelling.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Spelling {
    pub text: String,
    /// Whether any of it is set as text, or is a word.
    pub worded: bool,
    /// Whether it begins with two words in a row: a sentence, which no gold answer is.
    pub prose: bool,
    /// Whether it has a letter, a digit or a command at all.
    pub something: bool,
}

/// The normal spelling: without blanks, sizes and delimiters; one spelling for fractions; text and letters alike.
pub(crate) fn spelling(text: &str) -> Spelling {
    if text.len() > MAX_LENGTH {
        // Too long to be read as mathematics: only the same text is equal.
        return Spelling { text: text.split_whitespace().collect(), something: true, ..Spelling::default() };
    }
    let mut out = Spelling { text: String::with_capacity(text.len()), ..Spelling::default() };
    let mut lexer = Lexer::new(text);
    let (mut words, mut tokens, mut number_before) = (0, 0, false);
    while let Some(token) = lexer.next() {
        let number = matches!(token, Tok::Number(_));
        if number && number_before {
            out.text.push(' ');
        }
        number_before = number;
        let blank = lexer.blank_before;
        match token {
            Tok::Number(t) => out.text.extend(t.chars().filter(|c| !matches!(c, ' ' | '\\' | '!' | '{' | '}' | ','))),
            Tok::Letter(c) => out.text.push(c),
            Tok::Word(t) => {
                out.worded |= t.len() > 3;
                let plain = matches!(words::word(t), Word::Noun | Word::Letters);
                words += usize::from(plain && (tokens == 0 || (blank && words == tokens)));
                out.text.push_str(t);
            }
            Tok::Command(name) => {
                out.text.push('\\');
                out.text.push_str(match name {
                    "dfrac" | "tfrac" | "cfrac" => "frac",
                    "leq" | "leqslant" => "le",
                    "geq" | "geqslant" => "ge",
                    "neq" => "ne",
                    "times" => "cdot",
                    "varnothing" => "emptyset",
                    name => name,
                });
                // So that `\pi x` and `\pix` differ.
                out.text.push(' ');
            }
            Tok::Text(t) => {
                out.worded = true;
                out.text.extend(t.chars().filter(|c| !c.is_whitespace()));
            }
            Tok::Begin(t) | Tok::End(t) => {
                out.text.push('#');
                out.text.push_str(t);
            }
            Tok::Row => out.text.push_str("\\\\"),
            Tok::SetOpen => out.text.push_str("\\{"),
            Tok::SetClose => out.text.push_str("\\}"),
            Tok::Sign('.') if lexer.rest().trim_matches(['$', ' ', '\n']).is_empty() => {}
            Tok::Sign(c) => out.text.push(c),
        }
        out.something |= !matches!(token, Tok::Sign(c) if c.is_ascii());
        tokens += 1;
    }
    out.prose = words >= 2;
    // (C) is C.
    let inner = out.text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).filter(|t| t.chars().count() == 1);
    if let Some(letter) = inner.map(str::to_owned) {
        out.text = letter;
    }
    out
}

/// Whether a gold text in normal spelling stands for nothing: no value, and no word either.
pub(crate) fn is_void(spelling: &Spelling) -> bool {
    const NOTHING: [&str; 4] = ["null", "none", "undefined", "n/a"];
    !spelling.something || spelling.prose || NOTHING.iter().any(|word| word.eq_ignore_ascii_case(&spelling.text))
}
