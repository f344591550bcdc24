//! The parser where an operator may stand: infix signs, what follows an operand, products without a sign.

use num_bigint::BigInt;
use num_rational::BigRational;

use super::literal::number_node;
use super::operand::sign;
use super::parse::{Entry, Parser};
use super::token::Tok;
use super::tree::{Bracket, Function, Node, Op};
use super::words::{Meaning, Word, command, word};

/// Letters that name functions rather than factors before a bracket.
const FUNCTION_LETTERS: &str = "fghFGH";

impl<'t> Parser<'t> {
    /// A token where an operator may stand.
    pub(super) fn operator(&mut self, token: Tok<'t>) -> Option<()> {
        match token {
            Tok::Number(text) => self.second_number(token, text),
            Tok::Letter('U') if self.lexer.blank_before && matches!(self.top_node(), Some(Node::List { .. })) => self.infix(Op::Union),
            Tok::Word(text) => match word(text) {
                Word::Known(meaning) => self.meaning_after(meaning, token),
                Word::Joins => self.join(),
                Word::Scale(power) => self.scale(power),
                Word::Noun | Word::Letters => self.juxtapose(token),
            },
            Tok::Command(name) => self.meaning_after(command(name)?, token),
            Tok::Text(text) => match word(text.trim()) {
                Word::Joins => self.join(),
                Word::Scale(power) => self.scale(power),
                Word::Known(meaning) => self.meaning_after(meaning, token),
                _ if text.trim().is_empty() => Some(()),
                _ => self.juxtapose(token),
            },
            Tok::SetClose => self.close(Bracket::Set),
            Tok::Row => self.cell(true),
            Tok::End(_) => self.end_matrix(),
            Tok::Sign(c) => self.operator_sign(c, token),
            Tok::Letter(_) | Tok::Begin(_) | Tok::SetOpen => self.juxtapose(token),
        }
    }

    fn operator_sign(&mut self, c: char, token: Tok<'t>) -> Option<()> {
        let op = match c {
            '+' => Op::Plus,
            '-' => Op::Minus,
            '±' => Op::PlusMinus,
            '∓' => Op::MinusPlus,
            '*' if self.followed_by('*') => {
                self.lexer.next();
                Op::Power
            }
            '*' | '×' | '·' | '⋅' | '∙' | '•' => Op::Times,
            '/' | '÷' | '∕' => Op::Divide,
            '^' => return self.power(),
            '_' => return self.subscript(),
            '=' => {
                if self.followed_by('=') {
                    self.lexer.next();
                }
                Op::Equal
            }
            '<' | '>' => {
                let or_equal = self.followed_by('=');
                if or_equal {
                    self.lexer.next();
                }
                match (c, or_equal) {
                    ('<', false) => Op::Less,
                    ('<', true) => Op::AtMost,
                    (_, false) => Op::Greater,
                    (_, true) => Op::AtLeast,
                }
            }
            // `x != 3`, but `5!=120`
            '!' if self.lexer.blank_before && self.followed_by('=') => {
                self.lexer.next();
                Op::NotEqual
            }
            '!' => {
                let top = self.top()?;
                self.replace_top(Node::Function(Function::Factorial, top));
                return Some(());
            }
            '≤' | '⩽' => Op::AtMost,
            '≥' | '⩾' => Op::AtLeast,
            '≠' => Op::NotEqual,
            '≈' | '≃' => Op::About,
            '∈' => Op::In,
            '≡' | '→' | '⇒' => Op::OtherRelation,
            '∪' => Op::Union,
            '∩' => Op::OtherSet,
            ':' => Op::Ratio,
            ',' | '、' => Op::Comma,
            ';' => Op::Semicolon,
            ')' => return self.close(Bracket::Round),
            ']' => return self.close(Bracket::Square),
            '}' => return self.close(Bracket::Brace),
            '|' => return self.bar(token),
            '&' => return self.cell(false),
            '%' => return self.meaning_after(Meaning::Percent, token),
            '°' => return self.meaning_after(Meaning::Degree, token),
            '²' | '³' => {
                let top = self.top()?;
                let exponent = self.small_number(if c == '²' { 2 } else { 3 });
                self.replace_top(Node::Power(top, exponent));
                return Some(());
            }
            '\'' | '′' => {
                let Some(Node::Symbol(name)) = self.top_node() else { return None };
                let primed = format!("{name}'");
                self.replace_top(Node::Symbol(primed));
                return Some(());
            }
            // The end of a sentence, or the repeating digits of a decimal.
            '.' if self.lexer.rest().trim().is_empty() => return Some(()),
            '.' => return matches!(self.lexer.peek(), Some(Tok::Command("overline" | "bar"))).then_some(()),
            // `\$`: only the escaped sign comes here.
            '$' | '€' | '£' | '¥' => {
                self.infix(Op::Juxtapose)?;
                let id = self.add(Node::Text("currency".to_owned()));
                self.deliver(id);
                return Some(());
            }
            '(' | '[' | '{' => return self.juxtapose(token),
            _ => return self.meaning_after(sign(c)?, token),
        };
        self.infix(op)
    }

    fn followed_by(&self, c: char) -> bool {
        self.lexer.rest().starts_with(c)
    }

    /// What a word or a command means after an operand.
    fn meaning_after(&mut self, meaning: Meaning, token: Tok<'t>) -> Option<()> {
        match meaning {
            Meaning::Op(op) => self.infix(op),
            Meaning::Close(bracket) => self.close(bracket),
            Meaning::Percent => {
                let top = self.top()?;
                self.replace_top(Node::Percent(top));
                Some(())
            }
            Meaning::Degree => {
                let top = self.top()?;
                self.replace_top(Node::Degrees(top));
                Some(())
            }
            Meaning::Nothing => Some(()),
            Meaning::Dots => None,
            Meaning::Overline => match self.repeating() {
                Some(number) => {
                    self.replace_top(number);
                    Some(())
                }
                None => self.juxtapose(token),
            },
            // A function ends the argument of the one before it.
            Meaning::Function(_) | Meaning::Log | Meaning::Big(_) => {
                self.infix(Op::Times)?;
                self.operand(token)
            }
            _ => self.juxtapose(token),
        }
    }

    /// A product without a sign, or `f` of a bracket.
    fn juxtapose(&mut self, token: Tok<'t>) -> Option<()> {
        let applied = match (token, self.top_node()) {
            (Tok::Sign('('), Some(Node::Symbol(name))) => {
                let letter = name.chars().next().unwrap_or(' ');
                let plain_name = name.chars().count() == 1 || name.contains(['_', '\'']);
                plain_name && (FUNCTION_LETTERS.contains(letter) || (letter.is_uppercase() && self.single_argument()))
            }
            _ => false,
        };
        self.infix(if applied { Op::Apply } else { Op::Juxtapose })?;
        self.operand(token)
    }

    /// Whether one letter or number and a bracket follow: P(x), W(1).
    fn single_argument(&self) -> bool {
        let mut ahead = self.lexer;
        matches!(ahead.next(), Some(Tok::Letter(_) | Tok::Number(_))) && ahead.next() == Some(Tok::Sign(')'))
    }

    /// A number after an operand: `x2`, `3 1/2`; two bare numbers in a row mean nothing.
    fn second_number(&mut self, token: Tok<'t>, text: &'t str) -> Option<()> {
        let Some(Node::Number { value, integer_literal, .. }) = self.top_node() else { return self.juxtapose(token) };
        let (whole, integer) = (value.clone(), *integer_literal);
        let mut ahead = self.lexer;
        if !(integer && self.lexer.blank_before && ahead.next() == Some(Tok::Sign('/'))) {
            return None;
        }
        let Some(Tok::Number(bottom)) = ahead.next() else { return None };
        let (Node::Number { value: top, integer_literal: true, .. }, Node::Number { value: bottom, integer_literal: true, .. }) =
            (number_node(text)?, number_node(bottom)?)
        else {
            return None;
        };
        if top >= bottom {
            return None;
        }
        self.lexer = ahead;
        self.replace_top(Node::Number { value: whole + top / bottom, decimals: None, integer_literal: false });
        Some(())
    }

    /// `0.1\overline{6}`: the digits under the line repeat for ever.
    fn repeating(&mut self) -> Option<Node> {
        let Some(Node::Number { value, decimals, integer_literal }) = self.top_node() else { return None };
        let decimals = decimals.or(integer_literal.then_some(0))?;
        let value = value.clone();
        let mut ahead = self.lexer;
        let digits = ahead.raw_argument()?.trim();
        if digits.is_empty() || digits.len() > 64 || decimals > 64 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        self.lexer = ahead;
        let ten = BigInt::from(10);
        let period = num_traits::pow(ten.clone(), digits.len()) - 1;
        let shift = num_traits::pow(ten, decimals as usize);
        let tail = BigRational::new(BigInt::parse_bytes(digits.as_bytes(), 10)?, period * shift);
        Some(Node::Number { value: value + tail, decimals: None, integer_literal: false })
    }

    fn join(&mut self) -> Option<()> {
        // `1, 2, and 3` has its comma already; `a and b` has not.
        self.infix(Op::Comma)
    }

    fn scale(&mut self, power: u32) -> Option<()> {
        let Some(Node::Number { value, .. }) = self.top_node() else { return None };
        let value = value.clone() * BigRational::from(num_traits::pow(BigInt::from(10), power as usize));
        self.replace_top(Node::Number { value, decimals: None, integer_literal: false });
        Some(())
    }

    fn small_number(&mut self, value: u8) -> u32 {
        self.add(Node::Number { value: BigRational::from(BigInt::from(value)), decimals: None, integer_literal: true })
    }

    fn bar(&mut self, token: Tok<'t>) -> Option<()> {
        let innermost = self.stack.iter().rev().find_map(|entry| match entry {
            Entry::Open { bracket, .. } => Some(*bracket),
            _ => None,
        });
        match innermost {
            Some(Bracket::Bar) => self.close(Bracket::Bar),
            // `\{x | x > 0\}` describes a set; it is not evaluated.
            Some(Bracket::Set) => None,
            _ => self.juxtapose(token),
        }
    }

    /// `^`: degrees, a braced exponent, or whatever operand follows.
    fn power(&mut self) -> Option<()> {
        let mut ahead = self.lexer;
        match ahead.raw_argument().map(str::trim) {
            Some("\\circ" | "°" | "\\degree" | "{\\circ}") => {
                self.lexer = ahead;
                let top = self.top()?;
                self.replace_top(Node::Degrees(top));
                return Some(());
            }
            Some("\\prime") => {
                self.lexer = ahead;
                return self.operator_sign('\'', Tok::Sign('\''));
            }
            _ => {}
        }
        self.lexer.skip_blank();
        if self.lexer.rest().starts_with('{') {
            let base = self.pop_value()?;
            self.need_power(base);
            return Some(());
        }
        self.infix(Op::Power)
    }

    /// `_`: part of a name, or the base of a number.
    fn subscript(&mut self) -> Option<()> {
        let raw: String = self.lexer.raw_argument()?.chars().filter(|c| !c.is_whitespace()).collect();
        let node = match self.top_node()? {
            Node::Symbol(name) => Node::Symbol(format!("{name}_{raw}")),
            Node::Constant(_) => Node::Symbol(format!("constant_{raw}")),
            Node::Number { value, integer_literal: true, .. } => {
                let base = raw.parse::<u32>().ok().filter(|b| (2..=36).contains(b))?;
                Node::Based(value.to_integer().to_string(), base)
            }
            Node::Text(name) => Node::Text(format!("{name}_{raw}")),
            _ => return None,
        };
        self.replace_top(node);
        Some(())
    }
}
