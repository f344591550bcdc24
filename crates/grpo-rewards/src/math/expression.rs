//! Expressions of integers, with what they are made of.

use num_rational::BigRational;

use super::algebra::Algebra;
use super::eval::{Choice, Value, evaluate};
use super::parse::parse;
use super::tree::{Id, Node};

/// The integers of an expression of `+ − × ÷` and brackets, and its exact value; the inner `None`: it has no value (1/0). `None`: something else.
pub(crate) fn exact_expression(text: &str) -> Option<(Vec<BigRational>, Option<BigRational>)> {
    let tree = parse(text.trim())?;
    let mut numbers = Vec::new();
    // Nodes that were folded into others are not reached from the root.
    let mut reached: Vec<Id> = vec![tree.root];
    while let Some(id) = reached.pop() {
        match tree.node(id) {
            Node::Number { value, integer_literal: true, .. } => numbers.push(value.clone()),
            Node::Negative(a) => reached.push(*a),
            Node::Plus(a, b) | Node::Minus(a, b) | Node::Times(a, b) | Node::Divide(a, b) => reached.extend([*a, *b]),
            _ => return None,
        }
    }
    let values = evaluate(&tree, &mut Algebra::new(), Choice::Upper);
    let value = match values.get(tree.root) {
        Value::Scalar(scalar) => scalar.as_rational(),
        _ => None,
    };
    Some((numbers, value))
}
