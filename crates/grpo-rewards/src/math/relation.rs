//! Equations, inequalities and memberships as answers.

use num_traits::Signed;

use super::algebra::Algebra;
use super::compare::same_scalar;
use super::poly::{Atom, Scalar};
use super::tree::{Bracket, Function, Id, Node, Op};
use super::value::{Answer, Condition, ConditionKind, Holder, Reader, is_constant, plain};

impl Reader<'_> {
    pub(super) fn relation(&self, first: Id, rest: &[(Op, Id)], algebra: &mut Algebra) -> Option<Answer> {
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
