//! Whether two answers say the same.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero as _};

use super::algebra::Algebra;
use super::numeric::{self, Zero};
use super::poly::{Atom, Scalar};
use super::value::{Answer, Condition, ConditionKind, Holder, Quantity};
use super::{Compare, Lists, Names, Relations, Tolerance};
use crate::answer::ratio;

/// The most pairs of items that two lists are compared by.
const MAX_PAIRS: usize = 4096;
/// From so many decimals on, a decimal may stand for a fraction that it rounds.
const ROUNDED_FROM: u32 = 8;

/// How two values were found equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Equal {
    Exactly,
    ByNormalForm,
    ByRounding,
    AtPoints,
}

/// Compares answers under settings. What is `None` is not equal, or cannot be decided within bounds.
pub(crate) struct Comparison<'a> {
    pub algebra: &'a mut Algebra,
    pub settings: &'a Compare,
}

impl Comparison<'_> {
    /// Whether `answer` says what `gold` says.
    pub(crate) fn equal(&mut self, gold: &Answer, answer: &Answer) -> Option<Equal> {
        // Alone, `x = 5` and `y = 5` and `5` answer the same question.
        if let (Answer::Named { value: a, equation: left, .. }, Answer::Named { value: b, equation: right, .. }) = (gold, answer) {
            return self.equal(a, b).or_else(|| self.same_equation(left.as_ref()?, right.as_ref()?));
        }
        self.within(gold, answer)
    }

    /// As [`equal`](Self::equal), within a list: there, names tell items apart.
    fn within(&mut self, gold: &Answer, answer: &Answer) -> Option<Equal> {
        use Answer as A;
        match (gold, answer) {
            (A::Named { name: n, value: a, .. }, A::Named { name: m, value: b, .. }) => {
                let names_agree = match (n, m) {
                    (Some(n), Some(m)) => n == m || self.settings.names == Names::MayDiffer,
                    _ => true,
                };
                if names_agree { self.within(a, b) } else { None }
            }
            (A::Named { equation: Some(what), .. }, A::Conditions { all, .. })
            | (A::Conditions { all, .. }, A::Named { equation: Some(what), .. })
                if matches!(all.as_slice(), [Condition { kind: ConditionKind::Zero, .. }]) =>
            {
                let what = what.clone();
                self.same_equation(&what, &all.first()?.what.clone())
            }
            (A::Named { value, .. }, other) => self.within(value, other),
            (other, A::Named { value, .. }) => self.within(other, value),
            (A::Quantity(a), A::Quantity(b)) => self.quantities(a, b),
            (A::Matrix(a), A::Matrix(b)) => {
                if a.len() != b.len() || a.iter().zip(b).any(|(x, y)| x.len() != y.len()) {
                    return None;
                }
                a.iter().flatten().zip(b.iter().flatten()).try_fold(Equal::Exactly, |how, (x, y)| Some(how.max(self.quantities(x, y)?)))
            }
            (A::Items { holder, items }, A::Items { holder: other, items: others }) => self.items(*holder, items, *other, others),
            (A::Items { holder: Holder::Set | Holder::Bare, items }, other) if items.len() == 1 => self.within(items.first()?, other),
            // The same said twice is said once: `\boxed{42}, \boxed{42}`.
            (other, A::Items { holder: Holder::Set | Holder::Bare, items }) if !items.is_empty() && items.len() <= MAX_PAIRS => {
                items.iter().try_fold(Equal::Exactly, |how, item| Some(how.max(self.within(other, item)?)))
            }
            (A::Pieces(a), A::Pieces(b)) => self.unordered(a, b),
            (A::Conditions { all: a, .. }, A::Conditions { all: b, .. }) => self.conditions(a, b),
            (A::Conditions { as_set: Some(set), .. }, other @ (A::Items { .. } | A::Pieces(_))) => self.within(set, other),
            (gold @ (A::Items { .. } | A::Pieces(_)), A::Conditions { as_set: Some(set), .. })
                if self.settings.relations == Relations::AsSets =>
            {
                self.within(gold, set)
            }
            (A::Ratio(a), A::Ratio(b)) => self.ratios(a, b),
            (A::Based(a, base), A::Based(b, other)) => {
                if a != b {
                    return None;
                }
                Some(if base == other { Equal::Exactly } else { Equal::ByNormalForm })
            }
            (A::Text(a), A::Text(b)) => (a.to_lowercase() == b.to_lowercase()).then_some(Equal::Exactly),
            (A::Empty, A::Empty) => Some(Equal::Exactly),
            _ => None,
        }
    }

    fn quantities(&mut self, a: &Quantity, b: &Quantity) -> Option<Equal> {
        if let (Some(one), Some(other)) = (&a.unit, &b.unit)
            && one != other
        {
            return None;
        }
        self.values(a, b).or_else(|| {
            // 25 % is 0.25, and 25 where the sign was left out.
            let (percent, plain) = match (a.percent, b.percent) {
                (true, false) => (a, b),
                (false, true) => (b, a),
                _ => return None,
            };
            let hundredth = self.algebra.div(&percent.value, &Scalar::integer(100)).ok()?;
            same_scalar(&hundredth, &plain.value, self.algebra)
        })
    }

    fn values(&mut self, a: &Quantity, b: &Quantity) -> Option<Equal> {
        if let Some(how) = same_scalar(&a.value, &b.value, self.algebra) {
            return Some(how);
        }
        match self.settings.tolerance {
            Tolerance::Exact => self.is_rounded(a, b).then_some(Equal::ByRounding),
            Tolerance::Decimals(decimals) => {
                let (left, right) = (self.rounded(&a.value, decimals)?, self.rounded(&b.value, decimals)?);
                (left == right).then_some(Equal::ByRounding)
            }
        }
    }

    /// Whether one is a decimal of at least eight places that rounds the other, a fraction without an end in decimals.
    fn is_rounded(&self, a: &Quantity, b: &Quantity) -> bool {
        let (decimal, fraction) = match (a.decimals, b.decimals) {
            (Some(_), None) => (a, b),
            (None, Some(_)) => (b, a),
            _ => return false,
        };
        let (Some(places), Some(value), Some(exact)) = (decimal.decimals, decimal.value.as_rational(), fraction.value.as_rational()) else {
            return false;
        };
        if places < ROUNDED_FROM || has_end(&exact) {
            return false;
        }
        let scale = BigRational::from(num_traits::pow(BigInt::from(10), places as usize));
        let scaled = exact * &scale;
        let shown = value * scale;
        shown == scaled.round() || shown == scaled.trunc()
    }

    fn rounded(&self, value: &Scalar, decimals: u32) -> Option<BigInt> {
        match value.as_rational() {
            Some(value) => {
                let scale = BigRational::from(num_traits::pow(BigInt::from(10), decimals as usize));
                Some((value * scale + BigRational::new(1.into(), 2.into())).floor().to_integer())
            }
            None => numeric::rounded(self.algebra, value, decimals),
        }
    }

    fn items(&mut self, gold: Holder, a: &[Answer], answer: Holder, b: &[Answer]) -> Option<Equal> {
        match (gold, answer) {
            (Holder::Bare, Holder::Bare) if self.settings.lists == Lists::InOrder => self.ordered(a, b),
            (Holder::Bare | Holder::Set, Holder::Bare | Holder::Set) => self.unordered(a, b),
            (Holder::Brackets { .. }, Holder::Brackets { .. }) => {
                if gold != answer {
                    return None;
                }
                self.ordered(a, b)
            }
            // `{1, 3}` for `(1, 3)`: in order. Square brackets round two numbers are an interval, and no list.
            (Holder::Bare, Holder::Brackets { open_round, close_round }) | (Holder::Brackets { open_round, close_round }, Holder::Bare) => {
                let tuple = open_round && close_round;
                if tuple || (!open_round && !close_round && a.len() != 2) { self.ordered(a, b) } else { None }
            }
            _ => None,
        }
    }

    fn ordered(&mut self, a: &[Answer], b: &[Answer]) -> Option<Equal> {
        if a.len() != b.len() {
            return None;
        }
        a.iter().zip(b).try_fold(Equal::Exactly, |how, (x, y)| Some(how.max(self.within(x, y)?)))
    }

    /// As sets: each has its equal on the other side.
    fn unordered(&mut self, a: &[Answer], b: &[Answer]) -> Option<Equal> {
        if a.len().saturating_mul(b.len()) > MAX_PAIRS {
            return self.ordered(a, b);
        }
        let mut worst = Equal::Exactly;
        let mut matched = vec![false; b.len()];
        for x in a {
            let (at, how) = b.iter().enumerate().find_map(|(at, y)| self.within(x, y).map(|how| (at, how)))?;
            matched[at] = true;
            worst = worst.max(how);
        }
        for (at, y) in b.iter().enumerate() {
            if !matched[at] {
                worst = worst.max(a.iter().find_map(|x| self.within(x, y))?);
            }
        }
        Some(worst)
    }

    fn ratios(&mut self, a: &[Scalar], b: &[Scalar]) -> Option<Equal> {
        if a.len() != b.len() {
            return None;
        }
        // 12:00 is no ratio.
        if a.iter().chain(b).any(Scalar::is_zero) {
            return a.iter().zip(b).all(|(x, y)| same_scalar(x, y, self.algebra).is_some()).then_some(Equal::Exactly);
        }
        let (first, other) = (a.first()?.clone(), b.first()?.clone());
        a.iter().zip(b).try_fold(Equal::Exactly, |how, (x, y)| {
            let (left, right) = (self.algebra.mul(x, &other).ok()?, self.algebra.mul(y, &first).ok()?);
            Some(how.max(same_scalar(&left, &right, self.algebra)?))
        })
    }

    fn conditions(&mut self, a: &[Condition], b: &[Condition]) -> Option<Equal> {
        if a.len() != b.len() || a.len() > 16 {
            return None;
        }
        let mut worst = Equal::Exactly;
        for x in a {
            let how = b.iter().find_map(|y| if x.kind == y.kind { self.same_condition(x, y) } else { None })?;
            worst = worst.max(how);
        }
        for y in b {
            a.iter().find_map(|x| if x.kind == y.kind { self.same_condition(x, y) } else { None })?;
        }
        Some(worst)
    }

    fn same_condition(&mut self, a: &Condition, b: &Condition) -> Option<Equal> {
        match a.kind {
            ConditionKind::Zero | ConditionKind::NotZero => self.same_equation(&a.what, &b.what),
            ConditionKind::Positive | ConditionKind::NotNegative => {
                let factor = self.factor(&a.what, &b.what)?;
                factor.is_positive().then_some(Equal::ByNormalForm)
            }
        }
    }

    /// Whether a = 0 and b = 0 are the same equation: one is a multiple of the other.
    fn same_equation(&mut self, a: &Scalar, b: &Scalar) -> Option<Equal> {
        if a == b {
            return Some(Equal::Exactly);
        }
        self.factor(a, b).map(|_| Equal::ByNormalForm)
    }

    /// The rational c ≠ 0 with a = c·b, if there is one.
    fn factor(&mut self, a: &Scalar, b: &Scalar) -> Option<BigRational> {
        // Denominators that hold symbols exclude points; they are not multiplied away.
        if a.den != b.den || a.num.len() != b.num.len() {
            return None;
        }
        let factor = &a.num.first()?.1 / &b.num.first()?.1;
        a.num.iter().zip(&b.num).all(|(x, y)| x.0 == y.0 && x.1 == &y.1 * &factor).then_some(factor)
    }
}

/// Whether a fraction's decimals end.
fn has_end(value: &BigRational) -> bool {
    let mut below = value.denom().clone();
    for prime in [2, 5] {
        let prime = BigInt::from(prime);
        while (&below % &prime).is_zero() {
            below /= &prime;
        }
    }
    below.is_one()
}

/// Whether two values are equal wherever they are defined.
pub(crate) fn same_scalar(a: &Scalar, b: &Scalar, algebra: &mut Algebra) -> Option<Equal> {
    if let (Some(x), Some(y)) = (a.plain(), b.plain()) {
        return ratio::same(x, y).then_some(Equal::Exactly);
    }
    if a == b {
        return Some(if a.is_zero() { Equal::Exactly } else { Equal::ByNormalForm });
    }
    if a.is_rational() && b.is_rational() {
        return None;
    }
    let difference = algebra.sub(a, b).ok()?;
    if difference.is_zero() {
        return Some(Equal::ByNormalForm);
    }
    // Sums of these are zero only if nothing is left of them.
    let independent = difference.num.iter().flat_map(|(product, _)| product).all(|(id, _)| {
        matches!(
            algebra.atoms().get(*id as usize),
            Some(Atom::Symbol(_) | Atom::Pi | Atom::E | Atom::I | Atom::Infinity | Atom::Prime(_) | Atom::Opaque(..))
        )
    });
    if independent {
        return None;
    }
    (numeric::is_zero(algebra, &difference.num) == Zero::Yes).then_some(Equal::AtPoints)
}
