//! LaTeX and plain text as tokens, one at a time, without allocation.

use crate::answer::plain;

/// One token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tok<'t> {
    /// A number as it is written: digits with separators, a point, an exponent.
    Number(&'t str),
    /// A letter of any alphabet.
    Letter(char),
    /// Two or more ASCII letters in a row.
    Word(&'t str),
    /// A backslash command without the backslash.
    Command(&'t str),
    /// What stands in `\text{…}` and its kin.
    Text(&'t str),
    /// The start and the end of an environment.
    Begin(&'t str),
    End(&'t str),
    /// `\\`, the end of a row.
    Row,
    /// Any other character, and the two that a backslash keeps: `{` and `}` as set braces.
    Sign(char),
    SetOpen,
    SetClose,
}

/// Reads tokens. `Copy`, so that looking ahead is reading with a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Whether blanks stood before the last token.
    pub blank_before: bool,
    /// How deep in brackets the next character is: there, commas separate items and never group thousands.
    depth: usize,
}

/// Whether a command shows its argument as text.
fn shows_text(name: &str) -> bool {
    matches!(
        name,
        "text"
            | "textbf"
            | "textit"
            | "textrm"
            | "textsf"
            | "texttt"
            | "textnormal"
            | "textup"
            | "mathrm"
            | "mathbf"
            | "mathsf"
            | "mbox"
            | "hbox"
            | "operatorname"
    )
}

/// How much of a command's name has no meaning of its own: all of it, none of it, or the `quad` that a letter was written next to.
fn silent(name: &str) -> usize {
    match name {
        "left" | "right" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr" | "biggl" | "biggr" | "middle"
        | "displaystyle" | "textstyle" | "limits" | "qquad" | "thinspace" | "n" | "r" | "t" | "nonumber" | "hfill" => name.len(),
        _ if name.starts_with("quad") => "quad".len(),
        _ => 0,
    }
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0, blank_before: false, depth: 0 }
    }

    /// What is left, from the next character on.
    pub(crate) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn peek_char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek_char()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// The token after this one.
    pub(crate) fn peek(&self) -> Option<Tok<'t>> {
        let mut ahead = *self;
        ahead.next()
    }

    /// Past blanks and commands that only set.
    pub(crate) fn skip_blank(&mut self) {
        loop {
            // Most tokens stand right after each other.
            if self.byte().is_some_and(|b| b.is_ascii_graphic() && !matches!(b, b'\\' | b'$' | b'~')) {
                return;
            }
            let rest = self.rest();
            let Some(c) = rest.chars().next() else { return };
            // Dollar signs and directional marks show nothing.
            if plain(c).is_whitespace() || c == '~' || c == '$' || c == '\u{200B}' || c == '\u{FEFF}' {
                self.at += c.len_utf8();
            } else if c == '\\' {
                let next = rest.get(1..).and_then(|r| r.chars().next());
                match next {
                    Some(' ' | ',' | '!' | ':' | ';' | '>' | '(' | ')' | '[' | ']' | '\n') => self.at += 2,
                    Some(c) if c.is_ascii_alphabetic() => {
                        let name = letters(&rest[1..]);
                        let length = silent(name);
                        if length == 0 {
                            return;
                        }
                        self.at += 1 + length;
                        // `\left.` and `\right.` draw nothing.
                        if matches!(name, "left" | "right") && self.rest().starts_with('.') {
                            self.at += 1;
                        }
                    }
                    _ => return,
                }
            } else {
                return;
            }
            self.blank_before = true;
        }
    }

    /// What stands in braces here, or the next token's text; braces nest. For subscripts and names, which are compared as text.
    pub(crate) fn raw_argument(&mut self) -> Option<&'t str> {
        self.skip_blank();
        let start = self.at;
        if self.peek_char() != Some('{') {
            self.next()?;
            return self.text.get(start..self.at);
        }
        let mut depth = 0_usize;
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        loop {
            match bytes.get(at)? {
                b'\\' => at += 1,
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                self.at = at;
                return self.text.get(start + 1..at - 1);
            }
        }
    }

    /// Gives back all but the first character of the token that was read last.
    pub(crate) fn unread_after_first(&mut self, token: &'t str) -> &'t str {
        let first = token.chars().next().map_or(0, char::len_utf8);
        self.at -= token.len() - first;
        &token[..first]
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Option<Tok<'t>> {
        self.blank_before = false;
        self.skip_blank();
        let rest = self.rest();
        let first = rest.chars().next()?;
        let c = plain(first);
        if c.is_ascii_digit() || (c == '.' && second(rest).is_some_and(|d| d.is_ascii_digit())) {
            return Some(Tok::Number(self.number()));
        }
        if c.is_ascii_alphabetic() && c == first {
            let word = letters(rest);
            self.at += word.len();
            return Some(if word.len() == 1 { Tok::Letter(c) } else { Tok::Word(word) });
        }
        if c == '\\' {
            return self.command();
        }
        self.bump();
        match c {
            '(' | '[' => self.depth += 1,
            ')' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        // Letters of scripts without blanks are words, not variables.
        Some(if c.is_alphabetic() && u32::from(c) < 0x2E80 { Tok::Letter(c) } else { Tok::Sign(c) })
    }

    fn command(&mut self) -> Option<Tok<'t>> {
        let rest = self.rest();
        let body = &rest[1..];
        let next = body.chars().next();
        if next == Some('\\') {
            // A doubled backslash before a command comes from text that was escaped twice; else it ends a row.
            let name = letters(&body[1..]);
            let twice = name.len() >= 2 && super::words::is_command(name);
            let brace = body[1..].starts_with(['{', '}']);
            self.at += if twice || brace { 1 } else { 2 };
            return if twice || brace { self.next_after_fold() } else { Some(Tok::Row) };
        }
        let name = letters(body);
        if name.is_empty() {
            self.at += 1 + next.map_or(0, char::len_utf8);
            return Some(match next {
                Some('{') => {
                    self.depth += 1;
                    Tok::SetOpen
                }
                Some('}') => {
                    self.depth = self.depth.saturating_sub(1);
                    Tok::SetClose
                }
                Some('|') => Tok::Sign('‖'),
                Some(c) => Tok::Sign(c),
                None => Tok::Sign('\\'),
            });
        }
        self.at += 1 + name.len();
        match name {
            "begin" => self.raw_argument().map(|environment| {
                self.depth += 1;
                Tok::Begin(environment)
            }),
            "end" => self.raw_argument().map(|environment| {
                self.depth = self.depth.saturating_sub(1);
                Tok::End(environment)
            }),
            _ if shows_text(name) => self.raw_argument().map(Tok::Text),
            "lbrace" => Some(Tok::SetOpen),
            "rbrace" => Some(Tok::SetClose),
            _ => Some(Tok::Command(name)),
        }
    }

    /// The token after a doubled backslash was read as one.
    fn next_after_fold(&mut self) -> Option<Tok<'t>> {
        let blank = self.blank_before;
        let token = self.next();
        self.blank_before |= blank;
        token
    }

    /// Digits with thousands groups, a decimal point and an exponent.
    fn number(&mut self) -> &'t str {
        let start = self.at;
        let first = self.digits();
        let leading_zero = plain(self.text[start..].chars().next().unwrap_or(' ')) == '0';
        if (1..=3).contains(&first) && !leading_zero {
            while let Some(separator) = self.separator() {
                let mut ahead = *self;
                ahead.at += separator;
                if ahead.digits() != 3 {
                    break;
                }
                *self = ahead;
            }
        }
        if self.peek_char().map(plain) == Some('.') && second(self.rest()).is_some_and(|c| c.is_ascii_digit()) {
            self.bump();
            self.digits();
        }
        if matches!(self.peek_char(), Some('e' | 'E')) {
            let mut ahead = *self;
            ahead.bump();
            if matches!(ahead.peek_char().map(plain), Some('+' | '-')) {
                ahead.bump();
            }
            if ahead.digits() > 0 {
                *self = ahead;
            }
        }
        &self.text[start..self.at]
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.byte().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        let mut count = self.at - start;
        if self.byte().is_none_or(|b| b.is_ascii()) {
            return count;
        }
        while self.peek_char().map(plain).is_some_and(|c| c.is_ascii_digit()) {
            self.bump();
            count += 1;
        }
        count
    }

    /// How long the thousands separator here is.
    fn separator(&self) -> Option<usize> {
        let rest = self.rest();
        for mark in ["{,}", ",\\!", "\\,", "\\!"] {
            if let Some(after) = rest.strip_prefix(mark) {
                // `,\! 111`: the blank after the command shows nothing.
                let blank = if mark.ends_with('!') { after.len() - after.trim_start_matches(' ').len() } else { 0 };
                return Some(mark.len() + blank);
            }
        }
        let c = rest.chars().next()?;
        let mark = (c == ',' && self.depth == 0) || plain(c) == ' ';
        mark.then(|| c.len_utf8())
    }
}

/// The leading run of ASCII letters.
pub(crate) fn letters(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_alphabetic).count()]
}

fn second(text: &str) -> Option<char> {
    text.chars().nth(1).map(plain)
}

#[cfg(test)]
mod tests {
    use super::{Lexer, Tok};

    fn tokens(text: &str) -> Vec<Tok<'_>> {
        let mut lexer = Lexer::new(text);
        std::iter::from_fn(|| lexer.next()).collect()
    }

    #[test]
    fn numbers_keep_their_groups_and_lists_do_not_become_numbers() {
        for number in ["1,234", "7,425,000.5", "1{,}234", "1\\,234\\,567", "11,\\! 111,\\! 100", "1 000", "6.02e23", "2e-9", ".4", "٤٢"] {
            assert_eq!(tokens(number), [Tok::Number(number)], "{number}");
        }
        assert_eq!(tokens("1,2,3").len(), 5);
        assert_eq!(tokens("32, 349").len(), 3);
        assert_eq!(tokens("(1,234)").len(), 5);
        assert_eq!(tokens("0,111").len(), 3);
    }

    #[test]
    fn text_escaped_twice_reads_as_if_escaped_once() {
        assert_eq!(tokens("\\\\frac{1}{2}"), tokens("\\frac{1}{2}"));
        assert_eq!(tokens("1 \\\\ 2"), [Tok::Number("1"), Tok::Row, Tok::Number("2")]);
    }

    #[test]
    fn what_shows_nothing_is_skipped() {
        assert_eq!(tokens("\\left(\\, x \\right)\\quad y"), tokens("( x ) y"));
        assert_eq!(tokens("\\quadx"), [Tok::Letter('x')]);
    }
}
