//! What an answer says: a number, a list, an interval, a matrix, an equation, a word.

use num_bigint::BigInt;
use num_traits::Signed;

use super::compare::same_scalar;
use super::eval::{Choice, Value, Values, evaluate, without_degrees};
use super::poly::{Algebra, Atom, Scalar};
use super::tree::{Bracket, Function, Id, Node, Op, Tree};
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

struct Reader<'a> {
    tree: &'a Tree,
    upper: Values,
    lower: Option<Values>,
}

impl Reader<'_> {
    // Lists nest no deeper than the parser's brackets.
    fn read(&self, id: Id, algebra: &mut Algebra) -> Option<Answer> {
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

    fn scalar(&self, id: Id) -> Option<&Scalar> {
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
    fn quantity(&self, mut id: Id, values: &Values, algebra: &mut Algebra) -> Option<Quantity> {
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

    fn relation(&self, first: Id, rest: &[(Op, Id)], algebra: &mut Algebra) -> Option<Answer> {
        // What follows ≈ only illustrates what stands before it.
        let exact = rest.iter().position(|(op, _)| *op == Op::About).filter(|at| *at > 0).unwrap_or(rest.len());
        let rest = &rest[..exact];
        let is = |op: Op| matches!(op, Op::Equal | Op::About);
        match rest {
            [(Op::In, set)] if self.is_name(first) => {
                let value = Box::new(self.read(*set, algebra)?);
                Some(Answer::Named { name: self.scalar(first).cloned(), value, equation: None })
            }
            _ if rest.iter().all(|(op, _)| is(*op)) => self.equality(first, rest, algebra),
            _ if rest.iter().all(|(op, _)| matches!(op, Op::Less | Op::AtMost | Op::Greater | Op::AtLeast | Op::NotEqual)) => {
                self.inequality(first, rest, algebra)
            }
            _ => None,
        }
    }

    fn equality(&self, first: Id, rest: &[(Op, Id)], algebra: &mut Algebra) -> Option<Answer> {
        let members: Vec<Id> = std::iter::once(first).chain(rest.iter().map(|(_, id)| *id)).collect();
        let (last, others) = members.split_last()?;
        let names = others.iter().take_while(|id| self.is_name(**id)).count();
        // Members that are numbers must agree: a chain with a false link earns nothing, wherever it ends.
        let mut holds = true;
        for pair in members[names..].windows(2) {
            // `1 h = 60 min`: what has a unit is not compared with what has another.
            let (Some(a), Some(b)) = (self.scalar(pair[0]).cloned(), self.scalar(pair[1]).cloned()) else {
                if [pair[0], pair[1]].iter().all(|id| self.scalar(*id).is_some() || self.quantity(*id, &self.upper, algebra).is_some()) {
                    continue;
                }
                return None;
            };
            if same_scalar(&a, &b, algebra).is_none() {
                if is_constant(&a, algebra) && is_constant(&b, algebra) {
                    return None;
                }
                holds = false;
            }
        }
        let difference = |a: Id, b: Id, algebra: &mut Algebra| match (self.scalar(a).cloned(), self.scalar(b).cloned()) {
            (Some(a), Some(b)) => algebra.sub(&a, &b).ok(),
            _ => None,
        };
        if !holds {
            let what = if members.len() == 2 { difference(members[0], members[1], algebra)? } else { return None };
            return Some(Answer::Conditions { all: vec![Condition { kind: ConditionKind::Zero, what }], as_set: None });
        }
        if names == 0 {
            return self.read(*last, algebra);
        }
        let equation = if self.upper.has_both_signs(*last) { None } else { difference(first, *last, algebra) };
        let value = Box::new(self.read(*last, algebra)?);
        Some(Answer::Named { name: self.scalar(first).cloned(), value, equation })
    }

    fn inequality(&self, first: Id, rest: &[(Op, Id)], algebra: &mut Algebra) -> Option<Answer> {
        let mut all = Vec::with_capacity(rest.len());
        let mut left = first;
        for (op, right) in rest {
            let (a, b) = (self.scalar(left)?.clone(), self.scalar(*right)?.clone());
            let (kind, what) = match op {
                Op::Less => (ConditionKind::Positive, algebra.sub(&b, &a)),
                Op::AtMost => (ConditionKind::NotNegative, algebra.sub(&b, &a)),
                Op::Greater => (ConditionKind::Positive, algebra.sub(&a, &b)),
                Op::AtLeast => (ConditionKind::NotNegative, algebra.sub(&a, &b)),
                _ => (ConditionKind::NotZero, algebra.sub(&a, &b)),
            };
            all.push(Condition { kind, what: what.ok()? });
            left = *right;
        }
        let as_set = self.as_set(first, rest, algebra).map(Box::new);
        Some(Answer::Conditions { all, as_set })
    }

    /// The values of a name that inequalities allow: `x > 5`, `0 ≤ x < 1`, `1 ≤ |x| ≤ 2`.
    fn as_set(&self, first: Id, rest: &[(Op, Id)], algebra: &mut Algebra) -> Option<Answer> {
        let infinity = algebra.atom(Atom::Infinity);
        let low_end = |op: Op| matches!(op, Op::Greater | Op::AtLeast);
        let strict = |op: Op| matches!(op, Op::Less | Op::Greater);
        let interval = |low: Scalar, high: Scalar, open_round: bool, close_round: bool| Answer::Items {
            holder: Holder::Brackets { open_round, close_round },
            items: vec![plain(low), plain(high)],
        };
        match rest {
            [(op, right)] if *op != Op::NotEqual => {
                let (bound, name_left) = if self.is_name(first) { (*right, true) } else { (first, false) };
                if !name_left && !self.is_name(*right) {
                    return None;
                }
                let bound = self.scalar(bound)?.clone();
                if low_end(*op) == name_left {
                    Some(interval(bound, infinity, strict(*op), true))
                } else {
                    let low = algebra.neg(&infinity);
                    Some(interval(low, bound, true, strict(*op)))
                }
            }
            [(one, middle), (two, last)] if *one != Op::NotEqual && *two != Op::NotEqual && low_end(*one) == low_end(*two) => {
                let (mut low, mut high) = ((self.scalar(first)?.clone(), strict(*one)), (self.scalar(*last)?.clone(), strict(*two)));
                if low_end(*one) {
                    std::mem::swap(&mut low, &mut high);
                }
                if self.is_name(*middle) {
                    return Some(interval(low.0, high.0, low.1, high.1));
                }
                let Node::Function(Function::Abs, inner) = self.tree.node(*middle) else { return None };
                if !self.is_name(*inner) || low.0.as_rational()?.is_negative() {
                    return None;
                }
                let mirrored = interval(algebra.neg(&high.0), algebra.neg(&low.0), high.1, low.1);
                Some(Answer::Pieces(vec![mirrored, interval(low.0, high.0, low.1, high.1)]))
            }
            _ => None,
        }
    }

    /// Whether a node only names what is asked for: `x`, `f(x)`, `AB`, `|AB|`, `NO/BO`, `A : B`, `(p, q)`.
    fn is_name(&self, id: Id) -> bool {
        match self.tree.node(id) {
            Node::Symbol(_) | Node::Apply(..) | Node::Text(_) | Node::Big(..) => true,
            Node::Times(..) => self.is_points(id),
            Node::Function(Function::Abs, inner) => self.is_points(*inner),
            Node::Divide(a, b) => self.is_points(*a) && self.is_points(*b),
            Node::Ratio(items) | Node::List { open: Bracket::Round, items, .. } => items.iter().all(|id| self.is_name(*id)),
            _ => false,
        }
    }

    /// Two or more capitals, as segments and triangles are named.
    fn is_points(&self, mut id: Id) -> bool {
        let capital = |id: Id| matches!(self.tree.node(id), Node::Symbol(name) if name.starts_with(|c: char| c.is_uppercase()) || name.starts_with("over "));
        let mut count = 1;
        while let Node::Times(left, right) = self.tree.node(id) {
            if !capital(*right) {
                return false;
            }
            count += 1;
            id = *left;
        }
        capital(id) && (count > 1 || matches!(self.tree.node(id), Node::Symbol(name) if name.starts_with("over ")))
    }
}

fn plain(value: Scalar) -> Answer {
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
