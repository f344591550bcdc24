//! The parser: one loop over tokens with a stack of its own, so that no input can overflow the program's.

use super::token::Lexer;
use super::tree::{Bracket, Function, Id, Node, Op, Tree};

/// The longest text that is parsed, in bytes.
pub(crate) const MAX_LENGTH: usize = 8192;
/// How deep brackets, fractions, roots, powers and prefixes may nest, all together.
const MAX_DEPTH: usize = 128;

/// Reads a text as mathematics; `None` where it is not, or is out of bounds.
pub(crate) fn parse(text: &str) -> Option<Tree> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let mut parser = Parser { lexer: Lexer::new(text), nodes: Vec::with_capacity(8), stack: Vec::with_capacity(8), operand_next: true };
    while let Some(token) = parser.lexer.next() {
        if parser.stack.len() > 3 * MAX_DEPTH {
            return None;
        }
        if parser.operand_next { parser.operand(token)? } else { parser.operator(token)? }
    }
    parser.finish()
}

/// What waits on the stack.
#[derive(Debug)]
pub(super) enum Entry {
    Value(Id),
    Infix(Op),
    Prefix(Prefix),
    Open { bracket: Bracket, rows: Vec<Vec<Id>> },
    Need(Need),
}

/// Operators before their operand.
#[derive(Debug)]
pub(super) enum Prefix {
    Negative,
    /// A sign within an exponent binds before anything else.
    Tight,
    Positive,
    PlusMinus {
        minus_first: bool,
    },
    Function {
        function: Function,
        power: Option<Id>,
        inverse: bool,
    },
    Log {
        base: Option<Id>,
    },
    Big(String),
}

impl Prefix {
    fn tightness(&self) -> u8 {
        match self {
            Self::Tight => 13,
            Self::Function { .. } | Self::Log { .. } => 9,
            _ => 7,
        }
    }
}

/// Arguments that a command waits for.
#[derive(Debug)]
pub(super) enum Need {
    Top { binomial: bool },
    Bottom { top: Id, binomial: bool },
    Root(Option<Id>),
    Power(Id),
}

pub(super) struct Parser<'t> {
    pub(super) lexer: Lexer<'t>,
    pub(super) nodes: Vec<Node>,
    pub(super) stack: Vec<Entry>,
    pub(super) operand_next: bool,
}

impl<'t> Parser<'t> {
    pub(super) fn add(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    pub(super) fn top(&self) -> Option<Id> {
        match self.stack.last() {
            Some(Entry::Value(id)) => Some(*id),
            _ => None,
        }
    }

    pub(super) fn top_node(&self) -> Option<&Node> {
        self.top().and_then(|id| self.node(id))
    }

    pub(super) fn replace_top(&mut self, node: Node) {
        let id = self.add(node);
        self.stack.pop();
        self.stack.push(Entry::Value(id));
    }

    /// Hands an operand to whatever waits for it.
    pub(super) fn deliver(&mut self, mut id: Id) {
        while let Some(Entry::Need(_)) = self.stack.last() {
            let Some(Entry::Need(need)) = self.stack.pop() else { break };
            id = match need {
                Need::Top { binomial } => {
                    self.stack.push(Entry::Need(Need::Bottom { top: id, binomial }));
                    self.operand_next = true;
                    return;
                }
                Need::Bottom { top, binomial: true } => self.add(Node::Binomial(top, id)),
                Need::Bottom { top, binomial: false } => {
                    let fraction = self.add(Node::Divide(top, id));
                    self.mixed(top, id).unwrap_or(fraction)
                }
                Need::Root(index) => self.add(Node::Root(index, id)),
                Need::Power(base) => self.add(Node::Power(base, id)),
            };
        }
        self.stack.push(Entry::Value(id));
        self.operand_next = false;
    }

    /// An integer literal right before a proper fraction of integer literals: a mixed number.
    fn mixed(&mut self, top: Id, bottom: Id) -> Option<Id> {
        let [.., Entry::Value(whole), Entry::Infix(Op::Juxtapose)] = self.stack.as_slice() else { return None };
        let whole = *whole;
        let literal = |id: Id| match self.node(id) {
            Some(Node::Number { value, integer_literal: true, .. }) => Some(value.clone()),
            _ => None,
        };
        let (part, of) = (literal(top)?, literal(bottom)?);
        let number = literal(whole)?;
        if part >= of {
            return None;
        }
        let value = number + part / of;
        self.stack.truncate(self.stack.len() - 2);
        Some(self.add(Node::Number { value, decimals: None, integer_literal: false }))
    }

    /// Builds what binds at least as tightly as `least`.
    pub(super) fn reduce(&mut self, least: u8, from_right: bool) -> Option<()> {
        loop {
            let length = self.stack.len();
            let Some(Entry::Value(value)) = self.stack.last() else { return Some(()) };
            let value = *value;
            match length.checked_sub(2).and_then(|at| self.stack.get(at)) {
                Some(Entry::Prefix(prefix)) if prefix.tightness() >= least => {
                    self.stack.pop();
                    let Some(Entry::Prefix(prefix)) = self.stack.pop() else { return None };
                    let built = self.prefixed(prefix, value);
                    self.stack.push(Entry::Value(built));
                }
                Some(Entry::Infix(op)) if op.tightness() > least || (op.tightness() == least && !from_right) => {
                    let op = *op;
                    self.stack.pop();
                    self.stack.pop();
                    let Some(Entry::Value(left)) = self.stack.pop() else { return None };
                    let built = self.combined(op, left, value)?;
                    self.stack.push(Entry::Value(built));
                }
                _ => return Some(()),
            }
        }
    }

    pub(super) fn prefixed(&mut self, prefix: Prefix, value: Id) -> Id {
        match prefix {
            Prefix::Negative | Prefix::Tight => self.add(Node::Negative(value)),
            Prefix::Positive => value,
            Prefix::PlusMinus { minus_first } => self.add(Node::PlusMinus { left: None, right: value, minus_first }),
            Prefix::Function { function, power, inverse } => {
                let function = if inverse { inverted(function) } else { function };
                let applied = self.add(Node::Function(function, value));
                power.map_or(applied, |power| self.add(Node::Power(applied, power)))
            }
            Prefix::Log { base } => self.add(Node::Log(base, value)),
            Prefix::Big(name) => self.add(Node::Big(name, value)),
        }
    }

    fn combined(&mut self, op: Op, left: Id, right: Id) -> Option<Id> {
        let node = match op {
            Op::Plus => Node::Plus(left, right),
            Op::Minus => Node::Minus(left, right),
            Op::PlusMinus => Node::PlusMinus { left: Some(left), right, minus_first: false },
            Op::MinusPlus => Node::PlusMinus { left: Some(left), right, minus_first: true },
            Op::Times | Op::Juxtapose => Node::Times(left, right),
            Op::Divide => Node::Divide(left, right),
            Op::Mod => Node::Mod(left, right),
            Op::Power => Node::Power(left, right),
            Op::Apply => match self.node(left)? {
                Node::Symbol(name) => Node::Apply(name.clone(), right),
                _ => return None,
            },
            Op::OtherSet => Node::Opaque,
            // Lists grow in place: what they hold was built later, but nothing below a list is evaluated through it.
            Op::Comma | Op::Semicolon => {
                let grouping = op == Op::Semicolon;
                if let Some(Node::Sequence { items, grouped }) = self.nodes.get_mut(left as usize)
                    && *grouped == grouping
                {
                    items.push(right);
                    return Some(left);
                }
                Node::Sequence { items: vec![left, right], grouped: grouping }
            }
            Op::Union => {
                if let Some(Node::Union(items)) = self.nodes.get_mut(left as usize) {
                    items.push(right);
                    return Some(left);
                }
                Node::Union(vec![left, right])
            }
            Op::Ratio => {
                if let Some(Node::Ratio(items)) = self.nodes.get_mut(left as usize) {
                    items.push(right);
                    return Some(left);
                }
                Node::Ratio(vec![left, right])
            }
            _ => {
                if let Some(Node::Relation { rest, .. }) = self.nodes.get_mut(left as usize) {
                    rest.push((op, right));
                    return Some(left);
                }
                Node::Relation { first: left, rest: vec![(op, right)] }
            }
        };
        Some(self.add(node))
    }

    pub(super) fn infix(&mut self, op: Op) -> Option<()> {
        self.reduce(op.tightness(), op == Op::Power)?;
        self.stack.push(Entry::Infix(op));
        self.operand_next = true;
        Some(())
    }

    /// Waits for an exponent in braces.
    pub(super) fn need_power(&mut self, base: Id) {
        self.stack.push(Entry::Need(Need::Power(base)));
        self.operand_next = true;
    }

    /// Builds everything up to the innermost bracket; a separator without an item after it is dropped.
    pub(super) fn settle(&mut self) -> Option<()> {
        if self.operand_next
            && let [.., Entry::Value(_), Entry::Infix(Op::Comma | Op::Semicolon)] = self.stack.as_slice()
        {
            self.stack.pop();
            self.operand_next = false;
        }
        self.reduce(0, false)
    }

    pub(super) fn pop_value(&mut self) -> Option<Id> {
        match self.stack.pop() {
            Some(Entry::Value(id)) => Some(id),
            _ => None,
        }
    }

    fn finish(mut self) -> Option<Tree> {
        self.settle()?;
        if self.operand_next {
            return None;
        }
        let root = self.pop_value()?;
        self.stack.is_empty().then_some(Tree { nodes: self.nodes, root })
    }
}

fn inverted(function: Function) -> Function {
    match function {
        Function::Sin => Function::Asin,
        Function::Cos => Function::Acos,
        Function::Tan => Function::Atan,
        other => other,
    }
}
