//! What commands and words mean.

use super::tree::{Bracket, Constant, Function, Op};

/// The meaning of a command, a word or a sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Meaning {
    Symbol(&'static str),
    Constant(Constant),
    Op(Op),
    Function(Function),
    /// A sum, a product, an integral, a limit.
    Big(&'static str),
    Fraction,
    Binomial,
    Root,
    Log,
    /// Draws over or under its argument, or sets it in another type: the argument alone counts.
    Style,
    /// A line or an arrow over its argument makes a name of it.
    Overline,
    Open(Bracket),
    Close(Bracket),
    Percent,
    Degree,
    EmptySet,
    Reals,
    /// `\\mathbb`: the letter after it names a set of numbers.
    Blackboard,
    Dots,
    Nothing,
}

/// Whether a name is a command that LaTeX answers contain.
pub(crate) fn is_command(name: &str) -> bool {
    command(name).is_some()
        || matches!(
            name,
            "left" | "right" | "boxed" | "text" | "textbf" | "mathrm" | "mbox" | "quad" | "qquad" | "begin" | "end" | "big" | "textnormal"
        )
}

/// The meaning of `\name`.
pub(crate) fn command(name: &str) -> Option<Meaning> {
    use Meaning as M;
    if let Some(function) = function(name) {
        return Some(M::Function(function));
    }
    if let Some(symbol) = GREEK.iter().find(|g| **g == name) {
        return Some(M::Symbol(symbol));
    }
    Some(match name {
        "frac" | "dfrac" | "tfrac" | "cfrac" => M::Fraction,
        "binom" | "dbinom" | "tbinom" => M::Binomial,
        "sqrt" => M::Root,
        "log" | "lg" => M::Log,
        "pi" => M::Constant(Constant::Pi),
        "infty" | "infinity" => M::Constant(Constant::Infinity),
        "imath" => M::Constant(Constant::I),
        "cdot" | "times" | "ast" | "bullet" => M::Op(Op::Times),
        "div" => M::Op(Op::Divide),
        "pm" => M::Op(Op::PlusMinus),
        "mp" => M::Op(Op::MinusPlus),
        "le" | "leq" | "leqslant" | "leqq" => M::Op(Op::AtMost),
        "ge" | "geq" | "geqslant" | "geqq" => M::Op(Op::AtLeast),
        "lt" => M::Op(Op::Less),
        "gt" => M::Op(Op::Greater),
        "ne" | "neq" => M::Op(Op::NotEqual),
        "approx" | "simeq" | "sim" | "doteq" => M::Op(Op::About),
        "in" => M::Op(Op::In),
        "equiv" | "to" | "rightarrow" | "mapsto" | "subset" | "subseteq" | "notin" | "parallel" | "perp" | "cong" | "mid" | "implies"
        | "iff" | "Rightarrow" | "Leftrightarrow" => M::Op(Op::OtherRelation),
        "cup" | "bigcup" | "lor" | "vee" => M::Op(Op::Union),
        "cap" | "setminus" | "backslash" => M::Op(Op::OtherSet),
        "bmod" | "mod" => M::Op(Op::Mod),
        "colon" => M::Op(Op::Ratio),
        "land" | "wedge" => M::Op(Op::Comma),
        "sum" => M::Big("sum"),
        "prod" => M::Big("prod"),
        "int" => M::Big("int"),
        "lim" => M::Big("lim"),
        "max" => M::Big("max"),
        "min" => M::Big("min"),
        "gcd" => M::Big("gcd"),
        "vec" | "mathbf" | "boldsymbol" | "bm" | "mathcal" | "mathit" | "hat" | "tilde" | "underline" | "mathop" | "boxed" | "fbox"
        | "phantom" => M::Style,
        "overline" | "overrightarrow" | "bar" | "widehat" | "overset" => M::Overline,
        "lfloor" => M::Open(Bracket::Floor),
        "rfloor" => M::Close(Bracket::Floor),
        "lceil" => M::Open(Bracket::Ceiling),
        "rceil" => M::Close(Bracket::Ceiling),
        "langle" => M::Open(Bracket::Round),
        "rangle" => M::Close(Bracket::Round),
        "lbrack" => M::Open(Bracket::Square),
        "rbrack" => M::Close(Bracket::Square),
        "lvert" => M::Open(Bracket::Bar),
        "rvert" => M::Close(Bracket::Bar),
        "circ" | "degree" => M::Degree,
        "emptyset" | "varnothing" => M::EmptySet,
        "R" => M::Reals,
        "mathbb" | "mathds" | "Bbb" => M::Blackboard,
        "dots" | "ldots" | "cdots" | "vdots" | "dotsc" | "dotsm" | "dotsb" => M::Dots,
        "angle" | "triangle" | "prime" | "pounds" | "euro" => M::Nothing,
        _ => return None,
    })
}

const GREEK: [&str; 33] = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "varepsilon",
    "zeta",
    "eta",
    "theta",
    "vartheta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "upsilon",
    "phi",
    "varphi",
    "chi",
    "psi",
    "omega",
    "Gamma",
    "Delta",
    "Theta",
    "Lambda",
    "Omega",
    "Phi",
    "Psi",
    "ell",
];

/// The function of this name, with or without a backslash.
pub(crate) fn function(name: &str) -> Option<Function> {
    use Function as F;
    Some(match name {
        "sin" => F::Sin,
        "cos" => F::Cos,
        "tan" | "tg" => F::Tan,
        "cot" | "ctg" => F::Cot,
        "sec" => F::Sec,
        "csc" => F::Csc,
        "arcsin" | "asin" => F::Asin,
        "arccos" | "acos" => F::Acos,
        "arctan" | "atan" | "arctg" => F::Atan,
        "sinh" => F::Sinh,
        "cosh" => F::Cosh,
        "tanh" => F::Tanh,
        "ln" => F::Ln,
        "exp" => F::Exp,
        _ => return None,
    })
}

/// What a word without a backslash means within a formula.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Word {
    Known(Meaning),
    /// `and`, `or`: between items of a list.
    Joins,
    /// Scales what stands before it by 10 to this power.
    Scale(u32),
    /// A unit or a noun: it may follow a number and is compared where both sides have one.
    Noun,
    /// Letters that stand for a product of variables.
    Letters,
}

/// The meaning of a run of letters.
pub(crate) fn word(word: &str) -> Word {
    if let Some(function) = function(word) {
        return Word::Known(Meaning::Function(function));
    }
    match word {
        "sqrt" => Word::Known(Meaning::Root),
        "log" => Word::Known(Meaning::Log),
        "pi" => Word::Known(Meaning::Constant(Constant::Pi)),
        "inf" | "infty" | "infinity" => Word::Known(Meaning::Constant(Constant::Infinity)),
        "in" => Word::Known(Meaning::Op(Op::In)),
        "mod" => Word::Known(Meaning::Op(Op::Mod)),
        "pct" | "percent" | "percentage" => Word::Known(Meaning::Percent),
        "deg" | "degree" | "degrees" => Word::Known(Meaning::Degree),
        "and" | "or" | "And" | "Or" | "OR" | "AND" => Word::Joins,
        "hundred" => Word::Scale(2),
        "thousand" => Word::Scale(3),
        "million" => Word::Scale(6),
        "billion" => Word::Scale(9),
        "trillion" => Word::Scale(12),
        "cm" | "mm" | "km" | "dm" | "nm" | "kg" | "mg" | "ml" | "mL" | "ft" | "yd" | "mi" | "lb" | "lbs" | "oz" | "min" | "sec" | "hr"
        | "hrs" | "mph" | "kmh" | "am" | "pm" | "Hz" | "kJ" | "kW" | "kN" | "Pa" | "eV" | "sq" | "cu" => Word::Noun,
        _ if word.len() > 3 => Word::Noun,
        _ => Word::Letters,
    }
}

/// Words that deny or qualify: a phrase with one is no unit.
const DENIALS: [&str; 26] = [
    "is",
    "isn",
    "are",
    "was",
    "not",
    "no",
    "never",
    "wrong",
    "incorrect",
    "false",
    "or",
    "and",
    "but",
    "maybe",
    "if",
    "then",
    "right",
    "correct",
    "true",
    "nor",
    "answer",
    "either",
    "instead",
    "except",
    "between",
    "than",
];

/// Whether a phrase can stand after a number as what is counted: up to four words, none of which denies or joins.
pub(crate) fn is_unit(phrase: &str) -> bool {
    let mut words = 0;
    phrase.split(|c: char| !c.is_alphabetic()).filter(|w| !w.is_empty()).all(|word| {
        words += 1;
        words <= 4 && !DENIALS.iter().any(|d| d.eq_ignore_ascii_case(word))
    }) && words > 0
}
