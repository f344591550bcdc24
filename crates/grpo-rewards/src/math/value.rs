//! What an answer says: a number, a list, an interval, a matrix, an equation, a word.

use num_bigint::BigInt;

use super::algebra::Algebra;
use super::eval::{Choice, Value, Values, evaluate, without_degrees};
use super::poly::{Atom, Scalar};
use super::tree::{Bracket, Id, Node, Tree};
use super::words::is_unit;

/// A number with what was written beside it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantity {
    pub value: Scalar,
    /// How many decimals it was written with, if it is a decimal.
    pub decimals: Option<u32>,
    pub percent: bool,
    pub unit: Option<String>,
}

/// How items are held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Nothing but separators.
    Bare,
    Set,
    /// Round or square at either end: a tuple, a list or an interval.
    Brackets {
        open_round: bool,
        close_round: bool,
    },
}

/// A condition in normal form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    pub kind: ConditionKind,
    /// What is zero, not zero, positive or not negative.
    pub what: Scalar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionKind {
    Zero,
    NotZero,
    Positive,
    NotNegative,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Quantity(Quantity),
    Items {
        holder: Holder,
        items: Vec<Answer>,
    },
    Pieces(Vec<Answer>),
    Matrix(Vec<Vec<Quantity>>),
    /// `x = …` and `x ∈ …`.
    Named {
        name: Option<Scalar>,
        value: Box<Answer>,
        equation: Option<Scalar>,
    },
    Conditions {
        all: Vec<Condition>,
        as_set: Option<Box<Answer>>,
    },
    Ratio(Vec<Scalar>),
    Based(BigInt, u32),
    Text(String),
    Empty,
}

/// Reads a tree as an answer; `None` where it says nothing definite: 1/0, 41 = 42, a word within a sum.
pub(crate) fn answer(tree: &Tree, algebra: &mut Algebra) -> Option<Answer> {
    let upper = evaluate(tree, algebra, Choice::Upper);
    let lower = if upper.both_signs.contains(&true) { Some(evaluate(tree, algebra, Choice::Lower)) } else { None };
    Reader { tree, upper, lower }.read(tree.root, algebra)
}

pub(super) struct Reader<'a> {
    pub(super) tree: &'a Tree,
    pub(super) upper: Values,
    lower: Option<Values>,
}

impl Reader<'_> {
    // Lists nest no deeper than the parser's brackets.
    pub(super) fn read(&self, id: Id, algebra: &mut Algebra) -> Option<Answer> {
        match self.tree.node(id) {
            Node::List { open, close, items } => {
                let holder = match (open, close) {
                    (Bracket::Brace, _) => Holder::Bare,
                    (Bracket::Set, _) => Holder::Set,
                    (open, close) => Holder::Brackets { open_round: *open == Bracket::Round, close_round: *close == Bracket::Round },
                };
                Some(Answer::Items { holder, items: self.items(items, algebra)? })
            }
            Node::Sequence { items, grouped } => {
                let mut read = self.items(items, algebra)?;
                let has_lists = items.iter().any(|id| matches!(self.tree.node(*id), Node::Sequence { .. }));
                if *grouped && has_lists {
                    // `p = 5, q = 2; p = 7, q = 2`: the inner lists are tuples.
                    for item in &mut read {
                        if let Answer::Items { holder: holder @ Holder::Bare, .. } = item {
                            *holder = Holder::Brackets { open_round: true, close_round: true };
                        }
                    }
                }
                Some(Answer::Items { holder: Holder::Bare, items: read })
            }
            Node::Relation { first, rest } => self.relation(*first, rest, algebra),
            Node::Union(pieces) => {
                let pieces: Option<Vec<Answer>> = pieces.iter().map(|id| self.read(*id, algebra)).collect();
                Some(Answer::Pieces(pieces?))
            }
            Node::Ratio(parts) => {
                let parts: Option<Vec<Scalar>> = parts.iter().map(|id| self.scalar(*id).cloned()).collect();
                parts.map(Answer::Ratio)
            }
            Node::Based(digits, base) => BigInt::parse_bytes(digits.as_bytes(), *base).map(|value| Answer::Based(value, *base)),
            Node::EmptySet => Some(Answer::Empty),
            Node::Reals => {
                let infinity = algebra.atom(Atom::Infinity);
                let ends = [algebra.neg(&infinity), infinity].map(plain).to_vec();
                Some(Answer::Items { holder: Holder::Brackets { open_round: true, close_round: true }, items: ends })
            }
            Node::Text(text) => Some(Answer::Text(text.split_whitespace().collect::<Vec<_>>().join(" "))),
            Node::Opaque => None,
            _ => self.number(id, algebra),
        }
    }

    /// Items in order; a ± among them counts as two.
    fn items(&self, items: &[Id], algebra: &mut Algebra) -> Option<Vec<Answer>> {
        let mut out = Vec::with_capacity(items.len());
        for id in items {
            let signed = self.upper.has_both_signs(*id) || matches!(self.tree.node(*id), Node::Relation { .. });
            match self.read(*id, algebra)? {
                Answer::Items { holder: Holder::Bare, items } if signed => out.extend(items),
                Answer::Named { value, .. } if matches!(&*value, Answer::Items { holder: Holder::Bare, .. }) && signed => match *value {
                    Answer::Items { items, .. } => out.extend(items),
                    other => out.push(other),
                },
                item => out.push(item),
            }
        }
        Some(out)
    }

    pub(super) fn scalar(&self, id: Id) -> Option<&Scalar> {
        match self.upper.get(id) {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    fn number(&self, id: Id, algebra: &mut Algebra) -> Option<Answer> {
        if let Value::Matrix(rows) = self.upper.get(id) {
            let literal = |row: usize, column: usize| match self.tree.node(id) {
                Node::Matrix { rows, .. } => rows.get(row).and_then(|r| r.get(column)).and_then(|id| self.decimals(*id)),
                _ => None,
            };
            let cell =
                |row, column, value: &Scalar| Quantity { value: value.clone(), decimals: literal(row, column), percent: false, unit: None };
            let rows = rows.iter().enumerate().map(|(r, row)| row.iter().enumerate().map(|(c, value)| cell(r, c, value)).collect());
            return Some(Answer::Matrix(rows.collect()));
        }
        let first = self.quantity(id, &self.upper, algebra)?;
        let Some(lower) = self.lower.as_ref().filter(|_| self.upper.has_both_signs(id)) else { return Some(Answer::Quantity(first)) };
        let second = self.quantity(id, lower, algebra)?;
        if first == second {
            return Some(Answer::Quantity(first));
        }
        Some(Answer::Items { holder: Holder::Bare, items: vec![Answer::Quantity(first), Answer::Quantity(second)] })
    }

    fn decimals(&self, id: Id) -> Option<u32> {
        match self.tree.node(id) {
            Node::Number { decimals, .. } => *decimals,
            Node::Negative(inner) => match self.tree.node(*inner) {
                Node::Number { decimals, .. } => *decimals,
                _ => None,
            },
            _ => None,
        }
    }

    /// A number without its sign of percentage and its unit.
    pub(super) fn quantity(&self, mut id: Id, values: &Values, algebra: &mut Algebra) -> Option<Quantity> {
        let (mut percent, mut negative) = (false, false);
        let mut units: Vec<String> = Vec::new();
        loop {
            match self.tree.node(id) {
                Node::Percent(inner) => {
                    percent = true;
                    id = *inner;
                }
                // What the sign stands before may carry a unit.
                Node::Negative(inner) if matches!(values.get(id), Value::None) => {
                    negative = !negative;
                    id = *inner;
                }
                Node::Negative(inner) if matches!(self.tree.node(*inner), Node::Percent(_)) => {
                    negative = !negative;
                    id = *inner;
                }
                Node::Times(left, right) => match self.unit(*right) {
                    Some(unit) => {
                        units.push(unit);
                        id = *left;
                    }
                    None => break,
                },
                Node::Divide(left, right) => match (self.unit(*right), self.tree.node(*left)) {
                    (Some(below), Node::Times(number, above)) => {
                        units.push(format!("{}/{below}", self.unit(*above)?));
                        id = *number;
                    }
                    _ => break,
                },
                _ => break,
            }
        }
        let Value::Scalar(value) = values.get(id) else { return None };
        let mut value = value.clone();
        if negative {
            value = algebra.neg(&value);
        }
        units.reverse();
        let mut unit = (!units.is_empty()).then(|| units.join(" "));
        if unit.is_none()
            && let Some(degrees) = without_degrees(&value, algebra)
        {
            value = degrees;
            unit = Some(super::eval::DEGREE.to_owned());
        }
        Some(Quantity { value, decimals: self.decimals(id), percent, unit })
    }

    /// A unit as text, if the node is one.
    fn unit(&self, id: Id) -> Option<String> {
        match self.tree.node(id) {
            Node::Text(text) if is_unit(text) => {
                let word = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
                Some(word.strip_suffix('s').filter(|w| w.len() > 2).unwrap_or(&word).to_owned())
            }
            Node::Power(unit, power) => match (self.tree.node(*unit), self.tree.node(*power)) {
                (Node::Text(_), Node::Number { value, .. }) => Some(format!("{}^{value}", self.unit(*unit)?)),
                _ => None,
            },
            _ => None,
        }
    }
}

pub(super) fn plain(value: Scalar) -> Answer {
    Answer::Quantity(Quantity { value, decimals: None, percent: false, unit: None })
}

/// Whether a value holds no symbol.
pub(crate) fn is_constant(value: &Scalar, algebra: &Algebra) -> bool {
    let mut ids: Vec<u32> = value.num.iter().chain(&value.den).flat_map(|(product, _)| product.iter().map(|(id, _)| *id)).collect();
    let mut at = 0;
    while let Some(id) = ids.get(at).copied() {
        at += 1;
        match algebra.atoms().get(id as usize) {
            Some(Atom::Symbol(_) | Atom::Opaque(..)) => return false,
            Some(Atom::Base(a) | Atom::Function(_, a)) => extend(&mut ids, &[a]),
            Some(Atom::Power(a, b)) => extend(&mut ids, &[a, b]),
            _ => {}
        }
    }
    true
}

fn extend(ids: &mut Vec<u32>, parts: &[&Scalar]) {
    for (product, _) in parts.iter().flat_map(|part| part.num.iter().chain(&part.den)) {
        for (id, _) in product {
            if !ids.contains(id) {
                ids.push(*id);
            }
        }
    }
}
