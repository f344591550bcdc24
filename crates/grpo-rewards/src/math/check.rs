//! The check of a mathematical answer, and the reward made of it.

use std::borrow::Cow;

use grpo_core::{BoxError, Completion, Reward, RewardFn};

use super::compare::Comparison;
use super::find::{announced, boxed, last_said, trimmed, unboxed};
use super::gold::{Gold, gold_piece, renamed};
use super::text::{is_void, spelling};
use super::value::answer;
use super::verdict::{How, Outcome, Verdict};
use super::{Compare, Lists, Names, Relations, Tolerance, parse};
use crate::answer::{Extract, Thoughts};

/// Where a completion's answer is looked for, after its thoughts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Search {
    /// In the last complete box; boxes that commas or `and` join are one answer.
    #[default]
    Boxed,
    /// In the last complete pair of this tag, and in a box within it if there is one.
    Tag(Cow<'static, str>),
    /// The text is the answer.
    Whole,
    /// In a final announcement after the last box, the boxes, the text if it is an answer as it stands, an announcement, the last formula, the last number.
    Anywhere,
}

/// 1 if the answer found in a completion equals the gold one as mathematics, 0 if not; a gold answer that cannot be read does not apply.
///
/// The two arguments do not trade places: the gold answer is what the data set says, and only it can be unreadable.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::math::{How, MathAnswer, Search};
/// let math = MathAnswer::new(Search::Boxed);
/// assert_eq!(math.judge("\\frac{\\sqrt{2}}{2}", "so it is \\boxed{\\sin(\\pi/4)}"), Reward::Outcome(1.0));
/// assert_eq!(math.judge("1-\\frac{1}{e}", "\\boxed{1+\\frac{1}{e}}"), Reward::Outcome(0.0));
/// assert_eq!(math.judge("42", "<think>\\boxed{42}"), Reward::Outcome(0.0)); // cut off in thought
/// assert_eq!(math.judge("42", "\\boxed{41 \\text{ or } 42}"), Reward::Outcome(0.0)); // two answers for one question
/// assert_eq!(math.judge("it depends", "\\boxed{1}"), Reward::NotApplicable);
///
/// let verdict = math.check("4.0", "2 + 2 = \\boxed{\\frac{8}{2}}");
/// assert_eq!((verdict.how, verdict.answer.as_deref()), (How::Exact, Some("\\frac{8}{2}")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MathAnswer {
    search: Search,
    thoughts: Thoughts,
    compare: Compare,
}

impl MathAnswer {
    /// Looks for the answer there, after `<think>…</think>`.
    pub fn new(search: Search) -> Self {
        Self { search, ..Self::default() }
    }

    /// Sets the tags that thoughts stand between.
    pub fn thoughts(mut self, thoughts: Thoughts) -> Self {
        self.thoughts = thoughts;
        self
    }

    /// Sets how close numbers must be.
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.compare.tolerance = tolerance;
        self
    }

    /// Sets how lists without brackets are compared.
    pub fn lists(mut self, lists: Lists) -> Self {
        self.compare.lists = lists;
        self
    }

    /// Sets whether the letters of variables matter.
    pub fn names(mut self, names: Names) -> Self {
        self.compare.names = names;
        self
    }

    /// Sets whether an inequality may answer for a set.
    pub fn relations(mut self, relations: Relations) -> Self {
        self.compare.relations = relations;
        self
    }

    /// The reward of a text.
    pub fn judge(&self, gold: &str, text: &str) -> Reward {
        self.check(gold, text).outcome.into()
    }

    /// Checks a text against the gold answer, which may stand in a box or after `####` itself.
    pub fn check<'t>(&self, gold: &'t str, text: &'t str) -> Verdict<'t> {
        let gold = gold_piece(gold);
        let mut read = Gold::new(&gold);
        let (outcome, how, answer) = self.checked(&gold, &mut read, text);
        Verdict { outcome, how, gold, answer }
    }

    fn checked<'t>(&self, gold: &str, read: &mut Gold, text: &'t str) -> (Outcome, How, Option<Cow<'t, str>>) {
        if read.spelt.text.eq_ignore_ascii_case("nan") {
            // Not a number: nothing equals it, itself included.
            return (Outcome::NotEqual, How::Unreadable, None);
        }
        if is_void(&read.spelt) {
            return (Outcome::GoldUnreadable, How::Unreadable, None);
        }
        let (mut found, mut found_how) = (None, How::NoAnswer);
        for candidate in self.candidates(text) {
            match self.compared(gold, read, &candidate) {
                Some((Outcome::NotEqual, How::Unreadable)) => {
                    // Something stands there that says nothing: the next place is tried.
                    found_how = How::Unreadable;
                    found.get_or_insert(candidate);
                }
                Some((outcome, how)) => return (outcome, how, Some(candidate)),
                None => return (Outcome::GoldUnreadable, How::Unreadable, Some(candidate)),
            }
        }
        if found.is_none() && !read.is_readable(gold, &self.compare) {
            return (Outcome::GoldUnreadable, How::Unreadable, None);
        }
        (Outcome::NotEqual, found_how, found)
    }

    /// `None` where the gold answer cannot be read.
    fn compared(&self, gold: &str, read: &mut Gold, candidate: &str) -> Option<(Outcome, How)> {
        let spelt = spelling(candidate);
        if !spelt.something || spelt.prose {
            return read.is_readable(gold, &self.compare).then_some((Outcome::NotEqual, How::Unreadable));
        }
        let same = if read.spelt.worded { spelt.text.eq_ignore_ascii_case(&read.spelt.text) } else { spelt.text == read.spelt.text };
        if same {
            return Some((Outcome::Equal, How::Text));
        }
        if !read.is_readable(gold, &self.compare) {
            return None;
        }
        let tree = parse::parse(candidate).map(|tree| renamed(tree, self.compare.names));
        let answer = tree.and_then(|tree| answer(&tree, &mut read.algebra));
        let Some(answer) = answer else {
            // A word or a sentence against a worded gold is wrong, not unreadable.
            return Some((Outcome::NotEqual, if spelt.worded && read.spelt.worded { How::Text } else { How::Unreadable }));
        };
        let gold_text = gold;
        let Some(gold) = read.answer.take() else { return Some((Outcome::NotEqual, How::Text)) };
        let how = Comparison { algebra: &mut read.algebra, settings: &self.compare }.equal(&gold, &answer);
        read.answer = Some(gold);
        Some(match how {
            Some(how) => (Outcome::Equal, how.into()),
            None if same_but_for_the_comma(gold_text, candidate) => (Outcome::Equal, How::Exact),
            None => (Outcome::NotEqual, How::NormalForm),
        })
    }

    /// The places where the answer may stand, in order.
    fn candidates<'t>(&self, text: &'t str) -> impl Iterator<Item = Cow<'t, str>> + use<'t> {
        let text = self.thoughts.cut(text);
        let content = |text: &'t str| boxed(text).map(|(content, _)| content);
        let (mut said, mut free) = (None, None);
        let one = match (&self.search, text) {
            (_, None) => None,
            (Search::Whole, Some(text)) => Some(Cow::Borrowed(trimmed(text))),
            (Search::Boxed, Some(text)) => content(text),
            (Search::Tag(name), Some(text)) => {
                let inner = Extract::Tag(name.clone()).from(text);
                inner.map(|inner| content(inner).unwrap_or_else(|| Cow::Borrowed(trimmed(inner))))
            }
            (Search::Anywhere, Some(text)) => match boxed(text) {
                Some((content, end)) => {
                    said = text.get(end..).and_then(announced);
                    Some(content)
                }
                None => {
                    free = Some(unboxed(text));
                    None
                }
            },
        };
        let said = said.into_iter().chain(said.and_then(last_said));
        said.map(Cow::Borrowed).chain(one).chain(free.into_iter().flatten().map(Cow::Borrowed))
    }
}

/// Whether one text is a decimal with a comma and the other the same with a point. Commas that could group thousands are no decimal commas.
fn same_but_for_the_comma(a: &str, b: &str) -> bool {
    let sides = |text: &str, mark: char| {
        let text = text.trim_matches(['$', ' ', '\n']);
        let (whole, part) = text.split_once(mark)?;
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let groups =
            mark == ',' && part.len() == 3 && whole.trim_start_matches('-').len() <= 3 && !whole.trim_start_matches('-').starts_with('0');
        (digits(whole.strip_prefix('-').unwrap_or(whole)) && digits(part) && !groups).then(|| (whole.to_owned(), part.to_owned()))
    };
    let same = |comma: &str, point: &str| sides(comma, ',').is_some_and(|s| Some(s) == sides(point, '.'));
    same(a, b) || same(b, a)
}

impl<T: AsRef<str> + ?Sized> RewardFn<T> for MathAnswer {
    fn name(&self) -> &str {
        "math_answer"
    }
    fn score(&self, gold: &T, completion: &Completion) -> Result<Reward, BoxError> {
        Ok(self.judge(gold.as_ref(), &completion.text))
    }
    /// The gold answer is read once for the group.
    fn score_group(&self, gold: &T, group: &[Completion]) -> Result<Vec<Reward>, BoxError> {
        let gold = gold_piece(gold.as_ref());
        let mut read = Gold::new(&gold);
        let judged = group.iter().map(|completion| {
            let (outcome, ..) = self.checked(&gold, &mut read, &completion.text);
            // Nothing of one answer is left when the next is judged.
            read.algebra.reset(read.atoms);
            outcome.into()
        });
        Ok(judged.collect())
    }
}
