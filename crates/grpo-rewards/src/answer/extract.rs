//! Finding the answer in a text.

use std::borrow::Cow;
use std::ops::Range;

use super::number::last_number;

/// The tags round a thought, which is no part of the answer.
///
/// The answer is what follows the last closing tag. A thought that opens and never closes means that there is no answer: the text was cut off.
///
/// ```
/// use grpo_rewards::answer::Thoughts;
/// let thoughts = Thoughts::default(); // <think>…</think>
/// assert_eq!(thoughts.cut("<think>It is 41.</think> 42"), Some(" 42"));
/// assert_eq!(thoughts.cut("the prompt opened it</think> 42"), Some(" 42"));
/// assert_eq!(thoughts.cut("<think>so \\boxed{42}"), None); // never closed
/// assert_eq!(thoughts.cut("42"), Some("42"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thoughts {
    open: Cow<'static, str>,
    close: Cow<'static, str>,
    presence: Presence,
}

/// Whether a thought must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Presence {
    /// A text without a thought is all answer.
    #[default]
    Optional,
    /// A text without a closed thought has no answer.
    Required,
}

impl Default for Thoughts {
    /// `<think>…</think>`, not required.
    fn default() -> Self {
        Self { open: "<think>".into(), close: "</think>".into(), presence: Presence::Optional }
    }
}

impl Thoughts {
    /// Thoughts between other tags. Two empty tags cut nothing.
    pub fn between(open: impl Into<Cow<'static, str>>, close: impl Into<Cow<'static, str>>) -> Self {
        Self { open: open.into(), close: close.into(), presence: Presence::Optional }
    }

    /// Says whether a thought must be there.
    pub fn presence(mut self, presence: Presence) -> Self {
        self.presence = presence;
        self
    }

    /// What follows the thoughts; `None` where one never closes, or where one is required and there is none.
    pub fn cut<'t>(&self, text: &'t str) -> Option<&'t str> {
        // Most texts have no tag at all, and one character is found faster than several.
        let may_hold = |text: &str, tag: &str| tag.chars().next().is_some_and(|first| text.contains(first));
        let closed = if may_hold(text, &self.close) { text.rfind(&*self.close) } else { None };
        if closed.is_none() && self.presence == Presence::Required {
            return None;
        }
        let rest = text.get(closed.map_or(0, |at| at + self.close.len())..)?;
        let opened = may_hold(rest, &self.open) && rest.contains(&*self.open);
        (!opened).then_some(rest)
    }
}

/// Which piece of a text is the answer.
///
/// ```
/// use grpo_rewards::answer::Extract;
/// assert_eq!(Extract::Boxed.from("so \\boxed{\\frac{1}{2}}, not \\boxed{1"), Some("\\frac{1}{2}"));
/// assert_eq!(Extract::Hash.from("5 + 7 = 12\n#### 12"), Some("12"));
/// assert_eq!(Extract::tag("answer").from("<answer> 7 </answer>"), Some("7"));
/// assert_eq!(Extract::LastNumber.from("It is 7, no, -8."), Some("-8"));
/// assert_eq!(Extract::tag("answer").from("<answer></answer>"), Some("")); // empty is not absent
/// assert_eq!(Extract::Hash.from("the answer is 12"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extract {
    /// The whole text without the blanks round it.
    Whole,
    /// What stands in the last complete `\boxed{…}` or `\fbox{…}`; braces nest, escaped ones do not count.
    Boxed,
    /// The rest of the line after the last `####`, as GSM8K writes it.
    Hash,
    /// What stands between the last complete pair of this tag, without the blanks round it.
    Tag(Cow<'static, str>),
    /// The last number in the text.
    LastNumber,
}

impl Extract {
    /// [`Extract::Tag`] of a name without angle brackets.
    pub fn tag(name: impl Into<Cow<'static, str>>) -> Self {
        Self::Tag(name.into())
    }

    /// The answer in `text`, `None` where there is none. Thoughts are not cut off here: see [`Thoughts::cut`]. Takes time linear in the text.
    pub fn from<'t>(&self, text: &'t str) -> Option<&'t str> {
        match self {
            Self::Whole => Some(text.trim()),
            Self::Boxed => boxes(text).pop().map(|found| &text[found.content]),
            Self::Hash => text
                .contains('#')
                .then(|| text.rsplit_once("####"))
                .flatten()
                .map(|(_, rest)| rest.lines().next().unwrap_or_default().trim()),
            Self::Tag(name) => last_tag(text, name),
            Self::LastNumber => last_number(text).and_then(|at| text.get(at)),
        }
    }
}

/// A complete box: where it stands, and where its content does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Boxed {
    pub whole: Range<usize>,
    pub content: Range<usize>,
}

/// All complete boxes that are not within another one, in order; of boxes that hold nothing but a box, the innermost content.
/// One pass without recursion, linear in the text.
pub(crate) fn boxes(text: &str) -> Vec<Boxed> {
    let bytes = text.as_bytes();
    let blank = |range: Range<usize>| bytes[range].iter().all(u8::is_ascii_whitespace);
    // Where each open brace's content starts, and where its `\boxed` does if it has one.
    let mut open: Vec<(usize, Option<usize>)> = Vec::new();
    let mut found: Vec<Boxed> = Vec::new();
    // What stands before the first box matters only if a brace opens there: see below.
    let backslashes = text.match_indices('\\').map(|(at, _)| at);
    let Some(first) = backslashes.into_iter().find(|at| ["boxed", "fbox"].iter().any(|name| text[at + 1..].starts_with(name))) else {
        return found;
    };
    let (mut at, mut opened_before) = (first, None);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => {
                if let Some(length) = box_opening(&text[at..]) {
                    open.push((at + length, Some(at)));
                    at += length;
                    continue;
                }
                // An escaped brace does not count. A doubled backslash before `boxed` comes from text that was escaped twice.
                let escaped = match bytes.get(at + 1) {
                    Some(b'{' | b'}') => true,
                    Some(b'\\') => box_opening(&text[at + 1..]).is_none(),
                    _ => false,
                };
                at += usize::from(escaped);
            }
            b'{' => open.push((at + 1, None)),
            b'}' => {
                let closed = open.pop();
                if closed.is_none() && found.last().is_some_and(|last| last.whole.end == at) {
                    let outer = opened_before.get_or_insert_with(|| unclosed(&bytes[..first]));
                    if *outer == 0 {
                        // A brace too many right after a box: its braces do not balance, so where it ends is anyone's guess.
                        found.pop();
                    }
                    *outer = outer.saturating_sub(1);
                } else if let Some((start, Some(outer))) = closed {
                    let whole = outer..at + 1;
                    let only = found.last().filter(|inner| inner.whole.start >= start);
                    let only = only.filter(|inner| blank(start..inner.whole.start) && blank(inner.whole.end..at));
                    let content = only.map_or(start..at, |inner| inner.content.clone());
                    while found.last().is_some_and(|inner| inner.whole.start >= start) {
                        found.pop();
                    }
                    found.push(Boxed { whole, content });
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// How many braces a text opens and does not close.
fn unclosed(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if matches!(bytes.get(at + 1), Some(b'{' | b'}')) => at += 1,
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    depth
}

/// How long the opening `\boxed{` is, if the text begins with one.
fn box_opening(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\\boxed").or_else(|| text.strip_prefix("\\fbox"))?;
    let brace = rest.trim_start_matches(' ');
    brace.starts_with('{').then(|| text.len() - brace.len() + 1)
}

/// The content of the last complete pair of a tag.
fn last_tag<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let before = &text[..text.rfind(&close)?];
    Some(before[before.rfind(&open)? + open.len()..].trim())
}

#[cfg(test)]
mod tests {
    use super::{Extract, Presence, Thoughts, boxes};

    #[test]
    fn the_last_complete_box_is_found_whatever_its_braces() {
        for (text, expected) in [
            ("no box here", None),
            ("\\boxed{\\boxed{42}}", Some("42")),
            ("First \\boxed{1}, then \\boxed{2}", Some("2")),
            ("\\\\boxed{7}", Some("7")),
            ("\\boxed{\\text{a } b}", Some("\\text{a } b")),
            ("\\boxed{\n42\n}", Some("\n42\n")),
            ("\\fbox{42}", Some("42")),
            ("\\boxed{1} text \\boxed{2", Some("1")),
            ("\\Boxed{42}", None),
            ("\\boxed{a_{b_{c}}}", Some("a_{b_{c}}")),
            ("\\boxed{\\{1,2}", Some("\\{1,2")),
            ("\u{8}oxed{42}", None),
            ("\\boxed {5}", Some("5")),
            ("\\text{so \\boxed{5}}", Some("5")),
            ("\\boxed{5}}", None),
        ] {
            assert_eq!(Extract::Boxed.from(text), expected, "{text}");
        }
        assert_eq!(boxes("\\boxed{a \\boxed{b}} \\boxed{c}").len(), 2);
    }

    #[test]
    fn deep_nesting_and_many_boxes_take_linear_time() {
        let deep = format!("{}42{}", "\\boxed{".repeat(100_000), "}".repeat(100_000));
        assert!(Extract::Boxed.from(&deep).is_some());
        let many = format!("{}\\boxed{{42}}", "\\boxed{1} ".repeat(100_000));
        assert_eq!(Extract::Boxed.from(&many), Some("42"));
    }

    #[test]
    fn a_thought_that_is_required_and_absent_means_no_answer() {
        let required = Thoughts::default().presence(Presence::Required);
        assert_eq!(required.cut("42"), None);
        assert_eq!(required.cut("</think>42"), Some("42"));
        assert_eq!(Thoughts::between("", "</END>").cut("<a></END> 42"), Some(" 42"));
    }
}
