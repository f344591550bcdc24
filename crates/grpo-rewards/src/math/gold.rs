//! The gold answer: found in its text, and read once.

use std::borrow::Cow;

use super::algebra::Algebra;
use super::find::boxed;
use super::text::{Spelling, spelling};
use super::tree::{Node, Tree};
use super::value::{Answer, answer};
use super::{Compare, Names, parse};
use crate::answer::Extract;

/// The gold answer, parsed when it is first needed.
pub(super) struct Gold {
    pub(super) spelt: Spelling,
    pub(super) algebra: Algebra,
    pub(super) answer: Option<Answer>,
    /// How many atoms the gold answer itself is made of.
    pub(super) atoms: usize,
}

impl Gold {
    pub(super) fn new(gold: &str) -> Self {
        Self { spelt: spelling(gold), algebra: Algebra::new(), answer: None, atoms: 0 }
    }

    /// Whether it can be compared: as mathematics, or as a word.
    pub(super) fn is_readable(&mut self, gold: &str, compare: &Compare) -> bool {
        if self.answer.is_none() {
            let tree = parse::parse(gold).map(|tree| renamed(tree, compare.names));
            self.answer = tree.and_then(|tree| answer(&tree, &mut self.algebra));
            self.atoms = self.algebra.atoms().len();
        }
        self.answer.is_some() || self.spelt.worded
    }
}

/// The answer within a gold text: what follows `####`, the boxes, or all of it.
pub(super) fn gold_piece(gold: &str) -> Cow<'_, str> {
    if let Some(after) = Extract::Hash.from(gold) {
        return Cow::Borrowed(after);
    }
    boxed(gold).map_or(Cow::Borrowed(gold.trim()), |(content, _)| content)
}

/// Variables numbered in the order in which they occur, where their letters do not matter.
pub(super) fn renamed(mut tree: Tree, names: Names) -> Tree {
    if names == Names::MayDiffer {
        let mut seen: Vec<String> = Vec::new();
        for node in &mut tree.nodes {
            if let Node::Symbol(name) = node {
                let at = seen.iter().position(|s| s == name).unwrap_or_else(|| {
                    seen.push(name.clone());
                    seen.len() - 1
                });
                *name = format!("variable {at}");
            }
        }
    }
    tree
}
