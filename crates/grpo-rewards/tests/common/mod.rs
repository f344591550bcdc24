//! A small generator of numbers and of expressions in LaTeX.

/// A generator without pattern enough for tests (xorshift).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

/// An expression that can be written in several ways.
pub enum Expression {
    Number(u64),
    Decimal(u64, u64),
    Letter(char),
    Command(&'static str),
    Sum(Box<Expression>, Box<Expression>, bool),
    Product(Box<Expression>, Box<Expression>),
    Fraction(Box<Expression>, Box<Expression>),
    Power(Box<Expression>, u64),
    Root(Box<Expression>),
    Function(&'static str, Box<Expression>),
}

impl Expression {
    pub fn random(dice: &mut Dice, depth: usize) -> Self {
        let inner = |dice: &mut Dice| Box::new(Self::random(dice, depth - 1));
        if depth == 0 || dice.below(5) == 0 {
            return match dice.below(4) {
                0 => Self::Letter(dice.pick(&['x', 'y', 'a', 'n'])),
                1 => Self::Command(dice.pick(&["\\pi", "\\alpha"])),
                2 => Self::Decimal(dice.next() % 20, dice.next() % 10),
                _ => Self::Number(1 + dice.next() % 30),
            };
        }
        match dice.below(7) {
            0 | 1 => Self::Sum(inner(dice), inner(dice), dice.below(2) == 0),
            2 => Self::Product(inner(dice), inner(dice)),
            3 => Self::Fraction(inner(dice), inner(dice)),
            4 => Self::Power(inner(dice), 2 + dice.next() % 3),
            5 => Self::Root(inner(dice)),
            _ => Self::Function(dice.pick(&["sin", "cos", "ln"]), inner(dice)),
        }
    }

    /// The expression in LaTeX, spelt as the dice fall.
    pub fn spelt(&self, dice: &mut Dice) -> String {
        let blank = |dice: &mut Dice| dice.pick(&["", " ", "\\,", " \\; ", "  "]);
        let group = |text: String, dice: &mut Dice| match dice.below(3) {
            0 => format!("({text})"),
            1 => format!("\\left({text}\\right)"),
            _ => format!("\\left( {text} \\right)"),
        };
        match self {
            Self::Number(n) => n.to_string(),
            Self::Decimal(n, d) => format!("{n}.{d}{}", dice.pick(&["", "0"])),
            Self::Letter(c) => c.to_string(),
            Self::Command(name) => format!("{name} "),
            Self::Sum(a, b, minus) => {
                let b = b.spelt(dice);
                let b = if *minus { group(b, dice) } else { b };
                format!("{}{}{}{}{b}", a.spelt(dice), blank(dice), if *minus { "-" } else { "+" }, blank(dice))
            }
            Self::Product(a, b) => {
                let (a, b) = (a.spelt(dice), b.spelt(dice));
                let times = dice.pick(&["\\cdot ", "\\times ", " * "]);
                format!("{}{times}{}", group(a, dice), group(b, dice))
            }
            Self::Fraction(a, b) => {
                let (a, b) = (a.spelt(dice), b.spelt(dice));
                match dice.below(4) {
                    0 => format!("{{{}/{}}}", group(a, dice), group(b, dice)),
                    _ => format!("{}{{{a}}}{{{b}}}", dice.pick(&["\\frac", "\\dfrac", "\\tfrac", "\\\\frac"])),
                }
            }
            Self::Power(a, n) => {
                let a = a.spelt(dice);
                format!("{{{}}}{}", group(a, dice), dice.pick(&[format!("^{n}"), format!("^{{{n}}}"), format!(" ^ {{ {n} }}")]))
            }
            Self::Root(a) => format!("\\sqrt{{{}}}", a.spelt(dice)),
            Self::Function(name, a) => {
                let a = a.spelt(dice);
                format!("\\{name}{}", group(a, dice))
            }
        }
    }
}

/// LaTeX that need not make sense: pieces that break parsers, in any order.
#[allow(dead_code)] // Not every test uses it.
pub fn latex_salad(dice: &mut Dice) -> String {
    const PIECES: [&str; 72] = [
        "\\boxed{",
        "\\frac",
        "\\frac{",
        "\\sqrt",
        "\\sqrt[3]{",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "\\{",
        "\\}",
        "|",
        "\\left",
        "\\right.",
        "$",
        "$$",
        "\\(",
        "\\)",
        "\\[",
        "\\]",
        "^",
        "_",
        "+",
        "-",
        "\\pm",
        "*",
        "/",
        "=",
        "<",
        "\\le ",
        "\\in ",
        "\\cup",
        ",",
        ";",
        "!",
        "%",
        "^\\circ",
        "\\circ",
        "1",
        "2",
        "42",
        "9",
        "0",
        "1,234",
        "0.5",
        ".",
        "1e9",
        "10^{",
        "x",
        "y",
        "e",
        "i",
        "\\pi ",
        "\\infty",
        "\\sin",
        "\\ln",
        "\\log_",
        "\\begin{pmatrix}",
        "\\end{pmatrix}",
        "&",
        "\\\\",
        "\\text{and}",
        "\\text{",
        "\\mathbb{R}",
        "\\overline{",
        "\\binom",
        "\\lfloor",
        "\\rfloor",
        "<think>",
        "</think>",
    ];
    (0..1 + dice.below(24)).map(|_| dice.pick(&PIECES)).collect()
}
