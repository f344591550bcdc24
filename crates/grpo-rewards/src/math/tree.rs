//! What the parser makes: nodes in one list, children before parents, so that no walk over them needs a stack.

use num_rational::BigRational;

/// A node's place in the list.
pub(crate) type Id = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Pi,
    E,
    I,
    Infinity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Function {
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Ln,
    Exp,
    Abs,
    Floor,
    Ceiling,
    Factorial,
}

/// Infix operators, from the loosest to the tightest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Semicolon,
    Comma,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    About,
    In,
    OtherRelation,
    Union,
    OtherSet,
    Ratio,
    Plus,
    Minus,
    PlusMinus,
    MinusPlus,
    Times,
    Divide,
    Mod,
    /// A product without a sign.
    Juxtapose,
    /// `f` of what follows.
    Apply,
    Power,
}

impl Op {
    /// How tightly it binds.
    pub(crate) fn tightness(self) -> u8 {
        match self {
            Self::Semicolon => 1,
            Self::Comma => 2,
            _ if self.is_relation() => 3,
            Self::Union | Self::OtherSet => 4,
            Self::Ratio => 5,
            Self::Plus | Self::Minus | Self::PlusMinus | Self::MinusPlus => 6,
            Self::Times | Self::Divide | Self::Mod => 8,
            Self::Juxtapose => 10,
            Self::Apply => 11,
            _ => 12,
        }
    }

    pub(crate) fn is_relation(self) -> bool {
        matches!(
            self,
            Self::Equal
                | Self::NotEqual
                | Self::Less
                | Self::AtMost
                | Self::Greater
                | Self::AtLeast
                | Self::About
                | Self::In
                | Self::OtherRelation
        )
    }
}

/// Brackets in pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bracket {
    Round,
    Square,
    /// `\{ … \}`
    Set,
    /// `{ … }`, which only groups.
    Brace,
    Bar,
    Floor,
    Ceiling,
    /// A matrix environment; `Determinant` is one with bars.
    Matrix,
    Determinant,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// A number; with how many decimals, if it was written with a point.
    Number {
        value: BigRational,
        decimals: Option<u32>,
        integer_literal: bool,
    },
    Symbol(String),
    Constant(Constant),
    Text(String),
    Negative(Id),
    Plus(Id, Id),
    Minus(Id, Id),
    /// ± and ∓; the flag says which.
    PlusMinus {
        left: Option<Id>,
        right: Id,
        minus_first: bool,
    },
    Times(Id, Id),
    Divide(Id, Id),
    Power(Id, Id),
    /// The index of the root first; none is 2.
    Root(Option<Id>, Id),
    Function(Function, Id),
    /// The base first; none is e.
    Log(Option<Id>, Id),
    Binomial(Id, Id),
    Mod(Id, Id),
    /// A named function of something: f(x).
    Apply(String, Id),
    /// A sum, product, integral or limit: its name with its bounds as text, and what it ranges over.
    Big(String, Id),
    Percent(Id),
    Degrees(Id),
    /// Digits in another base.
    Based(String, u32),
    /// Items in brackets; a single one in round brackets is no list.
    List {
        open: Bracket,
        close: Bracket,
        items: Vec<Id>,
    },
    /// Items without brackets. `grouped` items have lists of their own within (`a, b; c, d`).
    Sequence {
        items: Vec<Id>,
        grouped: bool,
    },
    Relation {
        first: Id,
        rest: Vec<(Op, Id)>,
    },
    Union(Vec<Id>),
    Ratio(Vec<Id>),
    Matrix {
        rows: Vec<Vec<Id>>,
        determinant: bool,
    },
    EmptySet,
    Reals,
    /// Something that can only be compared as text.
    Opaque,
}

/// A parsed text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tree {
    pub nodes: Vec<Node>,
    pub root: Id,
}

impl Tree {
    pub(crate) fn node(&self, id: Id) -> &Node {
        static OPAQUE: Node = Node::Opaque;
        self.nodes.get(id as usize).unwrap_or(&OPAQUE)
    }
}
