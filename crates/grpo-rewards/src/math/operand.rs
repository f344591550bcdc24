//! The parser where an operand may stand: numbers, names, brackets, and commands that wait for arguments.

use super::literal::{number_node, vulgar};
use super::parse::{Entry, Need, Parser, Prefix};
use super::token::{Lexer, Tok};
use super::tree::{Bracket, Constant, Function, Id, Node, Op};
use super::words::{Meaning, Word, command, function, word};
use crate::answer::plain;

impl<'t> Parser<'t> {
    /// A token where an operand may stand.
    pub(super) fn operand(&mut self, token: Tok<'t>) -> Option<()> {
        match token {
            Tok::Number(text) => {
                let mut text = text;
                // `\frac12` is one half: a fraction takes digits one by one.
                if matches!(self.stack.last(), Some(Entry::Need(Need::Top { .. } | Need::Bottom { .. }))) {
                    text = self.lexer.unread_after_first(text);
                }
                let number = number_node(text)?;
                let id = self.add(number);
                self.literal_fraction(id);
            }
            Tok::Letter(c) => self.letter(c),
            Tok::Word(text) => self.word(text)?,
            Tok::Command(name) => self.meaning(command(name)?)?,
            Tok::Text(text) => self.text(text)?,
            Tok::Begin(environment) => self.begin(environment)?,
            Tok::SetOpen => self.open(Bracket::Set),
            Tok::SetClose => self.close(Bracket::Set)?,
            Tok::Row => self.cell(true)?,
            Tok::End(_) => self.end_matrix()?,
            Tok::Sign(c) => self.operand_sign(c)?,
        }
        Some(())
    }

    fn operand_sign(&mut self, c: char) -> Option<()> {
        match c {
            '-' | '+' => {
                let in_exponent = matches!(self.stack.last(), Some(Entry::Infix(Op::Power)));
                let prefix = match c {
                    '-' if in_exponent => Prefix::Tight,
                    '-' => Prefix::Negative,
                    _ => Prefix::Positive,
                };
                if matches!(self.stack.last(), Some(Entry::Need(_))) {
                    return None;
                }
                self.stack.push(Entry::Prefix(prefix));
            }
            '(' => self.open(Bracket::Round),
            '[' => self.open(Bracket::Square),
            '{' => self.open(Bracket::Brace),
            '|' => self.open(Bracket::Bar),
            ')' => self.close(Bracket::Round)?,
            ']' => self.close(Bracket::Square)?,
            '}' => self.close(Bracket::Brace)?,
            '&' => self.cell(false)?,
            '€' | '£' | '¥' | '$' => {}
            '½' | '⅓' | '¼' | '¾' | '⅔' | '⅕' | '⅛' => {
                let id = self.add(vulgar(c));
                self.deliver(id);
            }
            _ => self.meaning(sign(c)?)?,
        }
        Some(())
    }

    fn letter(&mut self, c: char) {
        let node = match c {
            'e' => Node::Constant(Constant::E),
            'i' => Node::Constant(Constant::I),
            _ => Node::Symbol(c.to_string()),
        };
        let id = self.add(node);
        self.deliver(id);
    }

    fn word(&mut self, text: &'t str) -> Option<()> {
        match word(text) {
            Word::Known(meaning) => self.meaning(meaning)?,
            // `1, 2, and 3`
            Word::Joins => matches!(self.stack.last(), Some(Entry::Infix(Op::Comma))).then_some(())?,
            Word::Scale(_) => return None,
            Word::Noun => {
                let id = self.add(Node::Text(text.to_owned()));
                self.deliver(id);
            }
            Word::Letters => {
                if matches!(self.stack.last(), Some(Entry::Need(_))) {
                    self.lexer.unread_after_first(text);
                    self.letter(text.chars().next()?);
                    return Some(());
                }
                for (index, c) in text.chars().enumerate() {
                    if index > 0 {
                        self.infix(Op::Juxtapose)?;
                    }
                    self.letter(c);
                }
            }
        }
        Some(())
    }

    fn text(&mut self, text: &'t str) -> Option<()> {
        let text = text.trim();
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (None, _) => return Some(()),
            (Some(c), None) if c.is_alphabetic() => {
                self.letter(c);
                return Some(());
            }
            _ => {}
        }
        if let Some(function) = function(text) {
            return self.meaning(Meaning::Function(function));
        }
        if let Word::Joins = word(text) {
            return self.word(text);
        }
        if text.starts_with(|c: char| plain(c).is_ascii_digit()) {
            let mut inner = Lexer::new(text);
            if let Some(Tok::Number(number)) = inner.next() {
                let node = number_node(number)?;
                let id = self.add(node);
                self.deliver(id);
                let rest = inner.rest().trim();
                if !rest.is_empty() {
                    self.infix(Op::Juxtapose)?;
                    let id = self.add(Node::Text(rest.to_owned()));
                    self.deliver(id);
                }
                return Some(());
            }
        }
        let id = self.add(Node::Text(text.to_owned()));
        self.deliver(id);
        Some(())
    }

    fn begin(&mut self, environment: &str) -> Option<()> {
        match environment {
            "pmatrix" | "bmatrix" | "Bmatrix" | "matrix" | "smallmatrix" => self.open(Bracket::Matrix),
            "vmatrix" => self.open(Bracket::Determinant),
            "array" => {
                self.lexer.raw_argument()?;
                self.open(Bracket::Matrix);
            }
            _ => return None,
        }
        Some(())
    }

    /// An operand's meaning.
    fn meaning(&mut self, meaning: Meaning) -> Option<()> {
        let node = match meaning {
            Meaning::Symbol(name) => Node::Symbol(name.to_owned()),
            Meaning::Constant(constant) => Node::Constant(constant),
            Meaning::EmptySet => Node::EmptySet,
            Meaning::Reals => Node::Reals,
            Meaning::Nothing | Meaning::Style => return Some(()),
            Meaning::Function(function) => return self.function(function),
            Meaning::Log => {
                let base = self.subscript_node();
                self.stack.push(Entry::Prefix(Prefix::Log { base }));
                return Some(());
            }
            Meaning::Big(name) => {
                let bounds = self.bounds();
                self.stack.push(Entry::Prefix(Prefix::Big(format!("{name}{bounds}"))));
                return Some(());
            }
            Meaning::Fraction | Meaning::Binomial => {
                self.stack.push(Entry::Need(Need::Top { binomial: meaning == Meaning::Binomial }));
                return Some(());
            }
            Meaning::Root => {
                let index = self.root_index()?;
                self.stack.push(Entry::Need(Need::Root(index)));
                return Some(());
            }
            Meaning::Blackboard => match self.lexer.raw_argument()?.trim() {
                "R" => Node::Reals,
                set => Node::Text(format!("set {set}")),
            },
            Meaning::Overline => Node::Symbol(format!("over {}", self.lexer.raw_argument()?.trim())),
            Meaning::Open(bracket) => {
                self.open(bracket);
                return Some(());
            }
            Meaning::Close(bracket) => return self.close(bracket),
            Meaning::Op(Op::PlusMinus | Op::MinusPlus) => {
                self.stack.push(Entry::Prefix(Prefix::PlusMinus { minus_first: meaning == Meaning::Op(Op::MinusPlus) }));
                return Some(());
            }
            Meaning::Op(_) | Meaning::Percent | Meaning::Degree | Meaning::Dots => return None,
        };
        let id = self.add(node);
        self.deliver(id);
        Some(())
    }

    /// `\sin`, `\sin^2`, `\sin^{-1}`
    fn function(&mut self, function: Function) -> Option<()> {
        let (mut power, mut inverse) = (None, false);
        let mut ahead = self.lexer;
        if ahead.next() == Some(Tok::Sign('^')) {
            let exponent = ahead.raw_argument()?.trim();
            self.lexer = ahead;
            if exponent == "-1" {
                inverse = true;
            } else {
                let node = number_node(exponent)?;
                power = Some(self.add(node));
            }
        }
        self.stack.push(Entry::Prefix(Prefix::Function { function, power, inverse }));
        Some(())
    }

    fn subscript_node(&mut self) -> Option<Id> {
        let mut ahead = self.lexer;
        if ahead.next() != Some(Tok::Sign('_')) {
            return None;
        }
        let raw = ahead.raw_argument()?.trim();
        self.lexer = ahead;
        let node = number_node(raw).unwrap_or_else(|| if raw == "e" { Node::Constant(Constant::E) } else { Node::Symbol(raw.to_owned()) });
        Some(self.add(node))
    }

    /// What stands under and over a sum, as text without blanks.
    fn bounds(&mut self) -> String {
        let mut text = String::new();
        loop {
            let mut ahead = self.lexer;
            let Some(Tok::Sign(mark @ ('_' | '^'))) = ahead.next() else { return text };
            let Some(raw) = ahead.raw_argument() else { return text };
            self.lexer = ahead;
            text.push(mark);
            text.extend(raw.chars().filter(|c| !c.is_whitespace()));
        }
    }

    /// The index in `\sqrt[n]`.
    fn root_index(&mut self) -> Option<Option<Id>> {
        let mut ahead = self.lexer;
        if ahead.next() != Some(Tok::Sign('[')) {
            return Some(None);
        }
        let node = match ahead.next()? {
            Tok::Number(text) => number_node(text)?,
            Tok::Letter(c) => Node::Symbol(c.to_string()),
            _ => return None,
        };
        (ahead.next()? == Tok::Sign(']')).then_some(())?;
        self.lexer = ahead;
        Some(Some(self.add(node)))
    }

    /// Delivers a number; `1/2` of integer literals is a fraction before anything else, so that 1/2 x is half of x.
    fn literal_fraction(&mut self, id: Id) {
        if let [.., Entry::Value(left), Entry::Infix(Op::Divide)] = self.stack.as_slice()
            && let (Some(Node::Number { integer_literal: true, .. }), Some(Node::Number { integer_literal: true, .. })) =
                (self.node(*left), self.node(id))
            && !matches!(self.lexer.peek(), Some(Tok::Sign('^' | '!' | '_')))
        {
            let left = *left;
            self.stack.truncate(self.stack.len() - 2);
            let fraction = self.add(Node::Divide(left, id));
            self.stack.push(Entry::Value(fraction));
            self.operand_next = false;
        } else {
            self.deliver(id);
        }
    }
}

/// What a sign means where an operand may stand.
pub(super) fn sign(c: char) -> Option<Meaning> {
    Some(match c {
        '±' => Meaning::Op(Op::PlusMinus),
        '∓' => Meaning::Op(Op::MinusPlus),
        '√' => Meaning::Root,
        '∞' => Meaning::Constant(Constant::Infinity),
        '∅' => Meaning::EmptySet,
        'ℝ' => Meaning::Reals,
        '⌊' => Meaning::Open(Bracket::Floor),
        '⌋' => Meaning::Close(Bracket::Floor),
        '⌈' => Meaning::Open(Bracket::Ceiling),
        '⌉' => Meaning::Close(Bracket::Ceiling),
        '⟨' => Meaning::Open(Bracket::Round),
        '⟩' => Meaning::Close(Bracket::Round),
        '∠' | '△' | '"' => Meaning::Nothing,
        _ => return None,
    })
}
