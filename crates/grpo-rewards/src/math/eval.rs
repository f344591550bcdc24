//! From nodes to values: one pass over the list, children first.

use num_rational::BigRational;

use super::algebra::Algebra;
use super::poly::{Atom, Scalar, Stop};
use super::tree::{Constant, Function, Id, Node, Tree};

/// The name of the atom that stands for one degree of angle.
pub(crate) const DEGREE: &str = "\u{b0}";

/// What a node is worth, where it has a worth of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Scalar(Scalar),
    Matrix(Vec<Vec<Scalar>>),
    Failed(Stop),
    /// A list, a relation, a word: no value by itself.
    None,
}

/// The values of all nodes, with one choice for every ±.
#[derive(Debug)]
pub(crate) struct Values {
    values: Vec<Value>,
    /// Which nodes hold a ±.
    pub both_signs: Vec<bool>,
}

impl Values {
    pub(crate) fn get(&self, id: Id) -> &Value {
        self.values.get(id as usize).unwrap_or(&Value::None)
    }
    pub(crate) fn has_both_signs(&self, id: Id) -> bool {
        self.both_signs.get(id as usize).copied().unwrap_or(false)
    }
}

/// The sign that ± takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Upper,
    Lower,
}

/// Works out every node.
pub(crate) fn evaluate(tree: &Tree, algebra: &mut Algebra, choice: Choice) -> Values {
    let mut out = Values { values: Vec::with_capacity(tree.nodes.len()), both_signs: Vec::with_capacity(tree.nodes.len()) };
    for node in &tree.nodes {
        let signs = children(node).any(|id| out.has_both_signs(id)) || matches!(node, Node::PlusMinus { .. });
        let value = one(node, &out, algebra, choice).unwrap_or_else(Value::Failed);
        out.values.push(value);
        out.both_signs.push(signs);
    }
    out
}

/// The operands of a node that has a value: at most two.
fn children(node: &Node) -> impl Iterator<Item = Id> + use<> {
    let both = match node {
        Node::Negative(a) | Node::Function(_, a) | Node::Apply(_, a) | Node::Big(_, a) | Node::Percent(a) | Node::Degrees(a) => {
            [Some(*a), None]
        }
        Node::Plus(a, b)
        | Node::Minus(a, b)
        | Node::Times(a, b)
        | Node::Divide(a, b)
        | Node::Power(a, b)
        | Node::Binomial(a, b)
        | Node::Mod(a, b) => [Some(*a), Some(*b)],
        Node::Root(index, a) | Node::Log(index, a) => [*index, Some(*a)],
        Node::PlusMinus { left, right, .. } => [*left, Some(*right)],
        _ => [None, None],
    };
    both.into_iter().flatten()
}

fn one(node: &Node, values: &Values, algebra: &mut Algebra, choice: Choice) -> Result<Value, Stop> {
    use Value as V;
    let scalar = |id: &Id| match values.get(*id) {
        V::Scalar(scalar) => Ok(scalar),
        V::Failed(stop) => Err(*stop),
        _ => Err(Stop::Undefined),
    };
    // What holds a list or a word has no value either, but that is no failure.
    let no_value = |id: Id| matches!(values.get(id), V::None);
    if !matches!(node, Node::Apply(..)) && children(node).any(no_value) {
        return Ok(V::None);
    }
    Ok(V::Scalar(match node {
        Node::Number { value, .. } => Scalar::rational(value.clone()),
        Node::Symbol(name) => algebra.symbol(name),
        Node::Constant(constant) => {
            let atom = match constant {
                Constant::Pi => Atom::Pi,
                Constant::E => Atom::E,
                Constant::I => Atom::I,
                Constant::Infinity => Atom::Infinity,
            };
            algebra.atom(atom)
        }
        Node::Negative(a) => match values.get(*a) {
            V::Matrix(rows) => return Ok(V::Matrix(rows.iter().map(|row| row.iter().map(|x| algebra.neg(x)).collect()).collect())),
            _ => algebra.neg(scalar(a)?),
        },
        Node::Plus(a, b) | Node::Minus(a, b) => {
            let minus = matches!(node, Node::Minus(..));
            if let (V::Matrix(left), V::Matrix(right)) = (values.get(*a), values.get(*b)) {
                return matrix_sum(left, right, minus, algebra).map(V::Matrix);
            }
            if minus { algebra.sub(scalar(a)?, scalar(b)?)? } else { algebra.add(scalar(a)?, scalar(b)?)? }
        }
        Node::PlusMinus { left, right, minus_first } => {
            let right = scalar(right)?;
            let right = if (choice == Choice::Lower) == *minus_first { right.clone() } else { algebra.neg(right) };
            match left {
                Some(left) => algebra.add(scalar(left)?, &right)?,
                None => right,
            }
        }
        Node::Times(a, b) => match (values.get(*a), values.get(*b)) {
            (V::Matrix(left), V::Matrix(right)) => return matrix_product(left, right, algebra).map(V::Matrix),
            (V::Matrix(rows), V::Scalar(factor)) | (V::Scalar(factor), V::Matrix(rows)) => {
                let scaled: Result<Vec<Vec<Scalar>>, Stop> =
                    rows.iter().map(|row| row.iter().map(|x| algebra.mul(x, factor)).collect()).collect();
                return scaled.map(V::Matrix);
            }
            _ => algebra.mul(scalar(a)?, scalar(b)?)?,
        },
        Node::Divide(a, b) => algebra.div(scalar(a)?, scalar(b)?)?,
        Node::Power(a, b) => algebra.power(scalar(a)?, scalar(b)?)?,
        Node::Root(index, a) => {
            let index = match index {
                Some(index) => scalar(index)?.clone(),
                None => Scalar::integer(2),
            };
            let exponent = algebra.div(&Scalar::integer(1), &index)?;
            algebra.power(scalar(a)?, &exponent)?
        }
        Node::Function(function, a) => {
            let argument = scalar(a)?;
            let argument = if is_trigonometric(*function) { in_radians(argument, algebra)? } else { argument.clone() };
            algebra.function(*function, &argument)?
        }
        Node::Log(base, a) => {
            let above = algebra.function(Function::Ln, scalar(a)?)?;
            match base {
                Some(base) => {
                    let below = algebra.function(Function::Ln, scalar(base)?)?;
                    algebra.div(&above, &below)?
                }
                None => above,
            }
        }
        Node::Binomial(a, b) => algebra.binomial(scalar(a)?, scalar(b)?)?,
        Node::Mod(a, b) => algebra.modulo(scalar(a)?, scalar(b)?)?,
        Node::Apply(name, a) => {
            let mut arguments = Vec::new();
            match values.get(*a) {
                V::Scalar(argument) => arguments.push(argument.clone()),
                _ => return Ok(V::None),
            }
            algebra.atom(Atom::Opaque(name.clone(), std::mem::take(&mut arguments)))
        }
        Node::Big(name, a) => algebra.atom(Atom::Opaque(name.clone(), vec![scalar(a)?.clone()])),
        Node::Percent(a) => algebra.div(scalar(a)?, &Scalar::integer(100))?,
        Node::Degrees(a) => {
            let degree = algebra.symbol(DEGREE);
            algebra.mul(scalar(a)?, &degree)?
        }
        Node::Matrix { rows, determinant } => {
            let rows: Result<Vec<Vec<Scalar>>, Stop> = rows
                .iter()
                .map(|row| row.iter().map(|id| if no_value(*id) { Err(Stop::Undefined) } else { scalar(id).cloned() }).collect())
                .collect();
            if !determinant {
                return rows.map(V::Matrix);
            }
            matrix_determinant(&rows?, algebra)?
        }
        Node::Text(_)
        | Node::Based(..)
        | Node::List { .. }
        | Node::Sequence { .. }
        | Node::Relation { .. }
        | Node::Union(_)
        | Node::Ratio(_) => return Ok(V::None),
        Node::EmptySet | Node::Reals | Node::Opaque => return Ok(V::None),
    }))
}

fn is_trigonometric(function: Function) -> bool {
    matches!(function, Function::Sin | Function::Cos | Function::Tan | Function::Cot | Function::Sec | Function::Csc)
}

/// Degrees as multiples of π/180.
fn in_radians(argument: &Scalar, algebra: &mut Algebra) -> Result<Scalar, Stop> {
    match without_degrees(argument, algebra) {
        Some(degrees) => {
            let pi = algebra.atom(Atom::Pi);
            let factor = algebra.mul(&pi, &Scalar::rational(BigRational::new(1.into(), 180.into())))?;
            algebra.mul(&degrees, &factor)
        }
        None => Ok(argument.clone()),
    }
}

/// The number of degrees, if every term is in degrees.
pub(crate) fn without_degrees(value: &Scalar, algebra: &mut Algebra) -> Option<Scalar> {
    if value.has_denominator() || value.num.iter().all(|(product, _)| product.is_empty()) {
        return None;
    }
    let degree = algebra.id(Atom::Symbol(DEGREE.to_owned()));
    let one = super::poly::Exponent::from(1);
    let mut num = value.num.clone();
    for (product, _) in &mut num {
        let at = product.iter().position(|(id, exponent)| *id == degree && *exponent == one)?;
        product.remove(at);
    }
    num.sort_by(|a, b| a.0.cmp(&b.0));
    Some(Scalar { num, den: value.den.clone() })
}

fn matrix_sum(a: &[Vec<Scalar>], b: &[Vec<Scalar>], minus: bool, algebra: &mut Algebra) -> Result<Vec<Vec<Scalar>>, Stop> {
    if a.len() != b.len() || a.iter().zip(b).any(|(x, y)| x.len() != y.len()) {
        return Err(Stop::Undefined);
    }
    let mut cell = |x: &Scalar, y: &Scalar| if minus { algebra.sub(x, y) } else { algebra.add(x, y) };
    a.iter().zip(b).map(|(left, right)| left.iter().zip(right).map(|(x, y)| cell(x, y)).collect()).collect()
}

fn matrix_product(a: &[Vec<Scalar>], b: &[Vec<Scalar>], algebra: &mut Algebra) -> Result<Vec<Vec<Scalar>>, Stop> {
    let width = b.first().map_or(0, Vec::len);
    if a.iter().any(|row| row.len() != b.len()) {
        return Err(Stop::Undefined);
    }
    let mut cell = |row: &[Scalar], column: usize| {
        let mut sum = Scalar::zero();
        for (x, y) in row.iter().zip(b) {
            let term = algebra.mul(x, &y[column])?;
            sum = algebra.add(&sum, &term)?;
        }
        Ok(sum)
    };
    a.iter().map(|row| (0..width).map(|column| cell(row, column)).collect()).collect()
}

/// Up to three rows.
fn matrix_determinant(rows: &[Vec<Scalar>], algebra: &mut Algebra) -> Result<Scalar, Stop> {
    match rows {
        [a] if a.len() == 1 => Ok(a[0].clone()),
        [a, b] if a.len() == 2 => {
            let (left, right) = (algebra.mul(&a[0], &b[1])?, algebra.mul(&a[1], &b[0])?);
            algebra.sub(&left, &right)
        }
        [a, b, c] if a.len() == 3 => {
            let mut sum = Scalar::zero();
            for (at, (first, second)) in [(1, 2), (2, 0), (0, 1)].into_iter().enumerate() {
                let minor = [vec![b[first].clone(), b[second].clone()], vec![c[first].clone(), c[second].clone()]];
                let minor = matrix_determinant(&minor, algebra)?;
                let term = algebra.mul(&a[at], &minor)?;
                sum = algebra.add(&sum, &term)?;
            }
            Ok(sum)
        }
        _ => Err(Stop::TooBig),
    }
}
