//! The parser at brackets: lists, intervals, absolute values, and the cells of matrices.

use super::parse::{Entry, Parser, Prefix};
use super::tree::{Bracket, Function, Node};

impl Parser<'_> {
    pub(super) fn open(&mut self, bracket: Bracket) {
        self.stack.push(Entry::Open { bracket, rows: Vec::new() });
        self.operand_next = true;
    }

    /// Ends the innermost bracket.
    pub(super) fn close(&mut self, close: Bracket) -> Option<()> {
        self.settle()?;
        let content = if self.operand_next { None } else { self.pop_value() };
        let Some(Entry::Open { bracket: open, .. }) = self.stack.pop() else { return None };
        let interval = |b| matches!(b, Bracket::Round | Bracket::Square);
        if open != close && !(interval(open) && interval(close)) {
            return None;
        }
        let Some(content) = content else {
            let empty = (open == Bracket::Set).then_some(Node::EmptySet)?;
            let id = self.add(empty);
            self.deliver(id);
            return Some(());
        };
        let items = match self.nodes.get_mut(content as usize) {
            Some(Node::Sequence { items, .. }) => Some(std::mem::take(items)),
            _ => None,
        };
        let id = match (open, items) {
            (Bracket::Bar, None) => self.add(Node::Function(Function::Abs, content)),
            (Bracket::Floor, None) => self.add(Node::Function(Function::Floor, content)),
            (Bracket::Ceiling, None) => self.add(Node::Function(Function::Ceiling, content)),
            (Bracket::Set, None) => self.add(Node::List { open, close, items: vec![content] }),
            (Bracket::Round | Bracket::Square | Bracket::Brace, None) if open == close => content,
            (Bracket::Round | Bracket::Square | Bracket::Brace | Bracket::Set, Some(items)) => self.add(Node::List { open, close, items }),
            _ => return None,
        };
        // f(x) y is f(x) times y: brackets right after a function hold its whole argument.
        if matches!(self.stack.last(), Some(Entry::Prefix(Prefix::Function { .. } | Prefix::Log { .. }))) {
            let Some(Entry::Prefix(prefix)) = self.stack.pop() else { return None };
            let applied = self.prefixed(prefix, id);
            self.deliver(applied);
        } else {
            self.deliver(id);
        }
        Some(())
    }

    /// Ends a cell of a matrix, and its row if `row_ends`.
    pub(super) fn cell(&mut self, row_ends: bool) -> Option<()> {
        self.settle()?;
        let cell = if self.operand_next { None } else { Some(self.pop_value()?) };
        let Some(Entry::Open { bracket: Bracket::Matrix | Bracket::Determinant, rows }) = self.stack.last_mut() else { return None };
        if rows.is_empty() {
            rows.push(Vec::new());
        }
        let row = rows.last_mut()?;
        match cell {
            Some(cell) => row.push(cell),
            None if row_ends && row.is_empty() => {}
            None => return None,
        }
        if row_ends {
            rows.push(Vec::new());
        }
        self.operand_next = true;
        Some(())
    }

    pub(super) fn end_matrix(&mut self) -> Option<()> {
        self.cell(true)?;
        let Some(Entry::Open { bracket, mut rows }) = self.stack.pop() else { return None };
        rows.retain(|row| !row.is_empty());
        let width = rows.first()?.len();
        if rows.iter().any(|row| row.len() != width) {
            return None;
        }
        let id = self.add(Node::Matrix { rows, determinant: bracket == Bracket::Determinant });
        self.deliver(id);
        Some(())
    }
}
