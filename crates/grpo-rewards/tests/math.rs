//! Properties of the check of mathematical answers.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)] // Helpers of tests, too, say what they expect.

mod common;

use common::{Dice, Expression};
use grpo_core::{Completion, FinishReason, LogProbKind, Reward, RewardFn, Sample};
use grpo_rewards::math::{How, MathAnswer, Outcome, Search};
use proptest::prelude::*;

fn outcome(gold: &str, answer: &str) -> Outcome {
    MathAnswer::new(Search::Whole).check(gold, answer).outcome
}

fn equal(gold: &str, answer: &str) -> bool {
    outcome(gold, answer) == Outcome::Equal
}

#[test]
fn spellings_of_one_expression_are_equal_both_ways_round() {
    let mut dice = Dice(20_260_101);
    let mut tried = 0;
    while tried < 3000 {
        let expression = Expression::random(&mut dice, 3);
        let (a, b) = (expression.spelt(&mut dice), expression.spelt(&mut dice));
        let found = outcome(&a, &b);
        // 1/(x − x) has no value to compare.
        if found == Outcome::GoldUnreadable {
            assert_eq!(outcome(&b, &a), Outcome::GoldUnreadable, "{a} and {b}");
            continue;
        }
        assert_eq!(found, Outcome::Equal, "{a} and {b}");
        assert!(equal(&b, &a), "{b} and {a}");
        tried += 1;
    }
}

#[test]
fn verdicts_are_symmetric() {
    let mut dice = Dice(77);
    for _ in 0..3000 {
        let (a, b) = (Expression::random(&mut dice, 2).spelt(&mut dice), Expression::random(&mut dice, 2).spelt(&mut dice));
        let (there, back) = (outcome(&a, &b), outcome(&b, &a));
        if there != Outcome::GoldUnreadable && back != Outcome::GoldUnreadable {
            assert_eq!(there, back, "{a} and {b}");
        }
    }
}

#[test]
fn near_misses_are_never_equal() {
    let mut dice = Dice(31_337);
    for round in 0..10_000 {
        let (n, m) = (1 + dice.next() % 100_000, 1 + dice.next() % 100_000);
        let k = 2 + dice.next() % 30;
        let (a, b) = match round % 10 {
            0 => (format!("\\frac{{{n}}}{{{m}}}"), format!("\\frac{{{}}}{{{m}}}", n + 1)),
            1 => (format!("{n}/{m}"), format!("{}/{}", n * m + 1, m * m)),
            2 => (format!("{k}^{{{}}}", 100 + k), format!("{k}^{{{}}}+1", 100 + k)),
            3 => (format!("{k}^{{{n}}}"), format!("{k}^{{{}}}", n + 1)),
            4 => (format!("{}!", 150 + k), format!("{}!+1", 150 + k)),
            5 => (format!("\\frac{{1}}{{{}!}}", 500 + k), format!("\\frac{{1}}{{{}!}}", 501 + k)),
            6 => (format!("{n}"), format!("{n}+10^{{-{}}}", 20 + k)),
            7 => (format!("10^{{{k}}}"), format!("\\sqrt{{10^{{{}}}+1}}", 2 * k)),
            8 => (format!("\\pi+{n}"), format!("\\pi+{n}+10^{{-{}}}\\sin(1)", 20 + k)),
            _ => (format!("{n}.{m}"), format!("{n}.{m}1")),
        };
        let found = outcome(&a, &b);
        assert_ne!(found, Outcome::Equal, "{a} and {b}");
        assert_ne!(outcome(&b, &a), Outcome::Equal, "{b} and {a}");
    }
}

#[test]
fn constants_that_nearly_agree_do_not() {
    for (a, b) in [
        // Ramanujan's constant is an integer to twelve decimals.
        ("e^{\\pi\\sqrt{163}}", "262537412640768744"),
        ("3.14159265358979323846264338327950288419716939937510", "\\pi"),
        ("\\sin(10^{-40})", "10^{-40}"),
        ("\\sqrt{10^{60}+1}", "10^{30}"),
        ("\\ln(1+10^{-50})", "10^{-50}"),
        ("9^{9^9}", "9^{9^9}+1"),
        ("2^{1000000}", "2^{1000001}"),
        ("\\infty", "171!"),
        ("2^{\\sqrt{2}}", "2.6651441426902251886502972498731398482742113137146594928"),
        ("\\cos(\\pi/4)", "0.7071067811865475244008443621048490392848359376884740"),
    ] {
        assert!(!equal(a, b), "{a} and {b}");
        assert!(!equal(b, a), "{b} and {a}");
    }
}

#[test]
fn identities_are_found() {
    for (a, b) in [
        ("\\sin^2 x+\\cos^2 x", "1"),
        ("\\tan^2(y)+1", "\\sec^2 y"),
        ("\\sin(2x)", "2\\sin x\\cos x"),
        ("\\frac{x^2-1}{x-1}", "x+1"),
        ("(a+b)^3", "a^3+3a^2b+3ab^2+b^3"),
        ("\\sqrt{3+2\\sqrt{2}}", "1+\\sqrt{2}"),
        ("\\frac{1}{1+\\sqrt2}", "\\sqrt2-1"),
        ("\\sqrt[3]{-8}", "-2"),
        ("\\sqrt{-3}", "i\\sqrt3"),
        ("(1+i)^4", "-4"),
        ("e^{i\\pi}", "-1"),
        ("\\log_2 8", "3"),
        ("\\ln 8", "3\\ln 2"),
        ("4^{n}", "2^{2n}"),
        ("2^{n+1}", "2\\cdot 2^n"),
        ("\\arctan 1", "\\frac{\\pi}{4}"),
        ("\\cos(\\pi/2)", "0"),
        ("\\sqrt{\\sin^2 1+\\cos^2 1-1}+2", "2"),
        ("\\cos 60^\\circ", "\\frac12"),
        ("0.\\overline{3}", "\\frac13"),
        ("3\\frac12", "3.5"),
        ("\\binom{5}{2}", "10"),
        ("\\lfloor \\pi \\rfloor", "3"),
        ("|{-3}|", "3"),
        ("\\frac{1}{2}x", "x/2"),
        ("1/2 x", "\\frac{x}{2}"),
        ("\\begin{vmatrix}1&2\\\\3&4\\end{vmatrix}", "-2"),
        ("x^2/4 + y^2/3 = 1", "3x^2+4y^2=12"),
        ("2x<4", "x<2"),
        ("x \\in (2, 3]", "2 < x \\le 3"),
    ] {
        assert!(equal(a, b), "{a} and {b}: {:?}", MathAnswer::new(Search::Whole).check(a, b));
        assert!(equal(b, a), "{b} and {a}");
    }
}

#[test]
fn what_differs_only_in_sign_order_or_ends_is_not_equal() {
    for (a, b) in [
        ("1-\\frac1e", "1+\\frac1e"),
        ("a-b", "b-a"),
        ("(1,2)", "(2,1)"),
        ("(0,1]", "[0,1)"),
        ("2x<4", "x>2"),
        ("3+4i", "3-4i"),
        ("\\sqrt{x^2}", "x"),
        ("|x|/x", "1"),
        ("|xy|", "xy"),
        ("|abc|", "abc"),
        ("\\lfloor |x|/1000 \\rfloor", "0"),
        ("\\sqrt{a}\\sqrt{b}", "\\sqrt{ab}"),
        ("x=1", "x=-1"),
        ("\\{1,2\\}", "\\{1,2,3\\}"),
        ("12:00", "1:00"),
        ("101_2", "101"),
        ("10\\text{ cm}", "10\\text{ m}"),
        ("x \\ge 5", "x > 5"),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1&2\\end{pmatrix}"),
    ] {
        assert!(!equal(a, b), "{a} and {b}");
        assert!(!equal(b, a), "{b} and {a}");
    }
}

#[test]
fn a_function_close_to_its_limit_is_not_its_limit() {
    for (limit, near) in [
        ("1", "\\tanh(400)"),
        ("1", "\\tanh(10^5)"),
        ("-1", "\\tanh(-1000)"),
        ("2", "1+\\tanh(6!)"),
        ("x", "x\\tanh(1000)"),
        ("1", "\\tanh(1000+x^2)"),
        ("i", "\\tan(1000i)"),
        ("\\frac{\\pi}{2}", "\\arctan(e^{1000})"),
        ("1", "\\frac{e^{1000}}{e^{1000}+1}"),
        ("1", "\\cos(e^{-1000})"),
        ("\\sinh(400)", "\\cosh(400)"),
    ] {
        assert!(!equal(limit, near), "{limit} and {near}");
        assert!(!equal(near, limit), "{near} and {limit}");
    }
    assert!(equal("\\tanh(3)", "\\frac{e^6-1}{e^6+1}"));
}

#[test]
fn a_value_that_is_denied_or_named_among_others_is_no_answer() {
    let anywhere = MathAnswer::new(Search::Anywhere);
    let said = |text| anywhere.judge("42", text) == Reward::Outcome(1.0);
    for text in [
        "It is not 42",
        "It is not $42$.",
        "So 42 is wrong.",
        "42 is not the answer",
        "The answer is either 41 or 42",
        "The answer is between 41 and 42",
        "Neither 41 nor 42",
        "It could be 41 or 42",
        "The answers are 1, 2, 42",
        "We find 1, 2, 42",
    ] {
        assert!(!said(text), "{text}");
    }
    for text in ["It is not 41 but 42", "It is not 41. It is 42.", "Of 41 apples one is added: 42", "The total was 1,042 - 1,000 = 42"] {
        assert!(said(text), "{text}");
    }
}

#[test]
fn one_value_said_twice_is_one_answer() {
    let boxed = MathAnswer::new(Search::Boxed);
    for (text, right) in [
        ("\\boxed{42} and \\boxed{42}", true),
        ("\\boxed{42}\\boxed{42.0}", true),
        ("\\boxed{41}, \\boxed{42}", false),
        ("\\boxed{42, 42, 41}", false),
    ] {
        assert_eq!(boxed.judge("42", text) == Reward::Outcome(1.0), right, "{text}");
    }
    // Where two are asked for, one is not enough.
    assert_eq!(boxed.judge("42, 42", "\\boxed{42}"), Reward::Outcome(0.0));
}

#[test]
fn a_verdict_says_how_it_was_reached_and_what_was_read() {
    let how = |gold, text| MathAnswer::new(Search::Boxed).check(gold, text).how;
    assert_eq!(how("\\dfrac12", "\\boxed{\\frac{1}{2}}"), How::Exact);
    assert_eq!(how("x+1", "\\boxed{x + 1}"), How::Text);
    assert_eq!(how("x+1", "\\boxed{1+x}"), How::NormalForm);
    assert_eq!(how("\\sin(\\pi/6)", "\\boxed{\\frac12}"), How::AtPoints);
    assert_eq!(how("1", "no box"), How::NoAnswer);
    assert_eq!(how("1", "\\boxed{+}"), How::Unreadable);
    assert_eq!(how("\\frac13", "\\boxed{0.33333333}"), How::Rounding);
}

#[test]
fn a_group_is_judged_as_its_completions_are_one_by_one() {
    let math = MathAnswer::new(Search::Boxed);
    let texts = [
        "\\boxed{\\sin(\\pi/6)}",
        "\\boxed{y+z}",
        "\\boxed{x+x+1/2-2x}",
        "\\boxed{(a+b+c+d+e)^{40}}",
        "\\boxed{\\frac{2}{4}}",
        "none",
        "\\boxed{0.5}",
    ];
    for gold in ["\\frac12", "x+\\frac12", "it depends"] {
        let group: Vec<Completion> = texts.iter().map(|text| completion(text)).collect();
        let one_by_one: Vec<Reward> = texts.iter().map(|text| math.judge(gold, text)).collect();
        assert_eq!(math.score_group(gold, &group).unwrap(), one_by_one, "{gold}");
    }
}

#[test]
fn answers_and_rewards_stay_in_step_when_one_has_no_answer() {
    let math = MathAnswer::new(Search::Boxed);
    let texts = ["\\boxed{42}", "no answer", "\\boxed{137}"];
    let verdicts = texts.map(|text| math.check("42", text));
    assert_eq!(verdicts.each_ref().map(|v| v.answer.as_deref()), [Some("42"), None, Some("137")]);
    assert_eq!(texts.map(|text| math.judge("42", text)), [1.0, 0.0, 0.0].map(Reward::Outcome));
}

fn completion(text: &str) -> Completion {
    let sample = Sample {
        tokens: vec![1],
        log_probs: vec![0.0],
        log_prob_kind: LogProbKind::Tempered,
        temperature: 1.0,
        finish: FinishReason::EndToken,
        text: text.to_owned(),
        policy_version: None,
    };
    Completion::from_sample(sample, 0).unwrap()
}

proptest! {
    #[test]
    fn different_rationals_are_never_equal(a in -1_000_000_i64..1_000_000, b in 1_i64..10_000, c in -1_000_000_i64..1_000_000, d in 1_i64..10_000) {
        let same = i128::from(a) * i128::from(d) == i128::from(c) * i128::from(b);
        prop_assert_eq!(equal(&format!("\\frac{{{a}}}{{{b}}}"), &format!("{c}/{d}")), same);
    }

    #[test]
    fn blanks_change_nothing(blanks in prop::collection::vec(0_usize..4, 12)) {
        let pieces = ["\\frac", "{3}", "{4}", "x", "^2", "-", "\\sqrt", "{5}", "+", "2", "\\pi", ""];
        let text: String = pieces.iter().zip(&blanks).map(|(p, n)| format!("{p}{}", " ".repeat(*n))).collect();
        prop_assert!(equal("\\frac{3}{4}x^2-\\sqrt{5}+2\\pi", &text), "{}", text);
    }

    #[test]
    fn nothing_panics(gold in ".{0,40}", text in ".{0,200}") {
        for search in [Search::Boxed, Search::Anywhere, Search::Whole, Search::Tag("answer".into())] {
            let _ = MathAnswer::new(search).check(&gold, &text);
        }
    }
}
