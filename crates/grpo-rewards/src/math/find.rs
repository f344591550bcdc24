//! Where a text's mathematical answer may stand, likeliest place first.

use std::borrow::Cow;
use std::ops::Range;

use crate::answer::{self, Boxed, boxes};

/// Between two boxes of one answer there are at most so many bytes.
const MAX_GAP: usize = 80;
/// A whole text is tried as an answer up to this length.
const MAX_WHOLE: usize = 400;

/// What the last boxes hold: those that commas, `and`, `or` or nothing at all join are one answer.
pub(crate) fn boxed(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let all = boxes(text);
    let last = all.last()?;
    let mut first = all.len() - 1;
    while first > 0 && joins(&text[all[first - 1].whole.end..all[first].whole.start]) {
        first -= 1;
    }
    let content = |found: &Boxed| &text[found.content.clone()];
    let run = &all[first..];
    let joined =
        if run.len() == 1 { Cow::Borrowed(content(last)) } else { Cow::Owned(run.iter().map(content).collect::<Vec<_>>().join(", ")) };
    Some((joined, last.whole.end))
}

/// Words that set one box against another.
const BREAKS: [&str; 11] = ["no", "not", "wait", "actually", "but", "instead", "wrong", "so", "then", "hence", "therefore"];

/// Whether what stands between two boxes makes one answer of them.
fn joins(gap: &str) -> bool {
    if gap.is_empty() {
        return true;
    }
    if gap.len() > MAX_GAP || gap.contains("\n\n") || gap.contains(". ") {
        return false;
    }
    let mut words = gap.split(|c: char| !c.is_ascii_alphabetic()).filter(|w| !w.is_empty());
    let mut joined = gap.contains([',', ';', '&']);
    let broken = words.any(|word| {
        joined |= matches!(word, "and" | "or");
        BREAKS.iter().any(|b| b.eq_ignore_ascii_case(word))
    });
    joined && !broken
}

/// What an announcement says: the text after the last `answer is`, `answers are` or `answer:` up to the end of its line or sentence.
pub(crate) fn announced(text: &str) -> Option<&str> {
    const MARKS: [&str; 7] = ["answer is", "Answer is", "answer:", "Answer:", "answers are", "answers:", "Answers:"];
    // Most texts have none.
    text.contains("nswer").then_some(())?;
    let (at, mark) = MARKS.iter().filter_map(|mark| text.rfind(mark).map(|at| (at, mark))).max_by_key(|(at, mark)| at + mark.len())?;
    let rest = text.get(at + mark.len()..)?;
    let rest = rest.strip_prefix(" is").unwrap_or(rest);
    let line = rest.trim_start_matches([' ', ':', '*', '\n', '"']).lines().next()?;
    let end = line.match_indices(". ").map(|(at, _)| at).find(|at| !line[..*at].ends_with('.')).unwrap_or(line.len());
    let said = trimmed(&line[..end]);
    (!said.is_empty()).then_some(said)
}

/// The later of the last formula and the last number after it: what a sentence says, unless it only denies it or names it among others.
pub(crate) fn last_said(text: &str) -> Option<&str> {
    let formula = last_formula(text);
    let tail = formula.map_or(0, |(_, after)| after);
    let (said, start) = match text.get(tail..).and_then(last_number) {
        Some((number, start)) => (number, tail + start),
        None => formula.and_then(|(said, after)| text.get(..after)?.rfind(said).map(|start| (said, start)))?,
    };
    (!doubted(text.get(..start)?, text.get(start + said.len()..)?)).then_some(said)
}

/// Words anywhere before a value in its sentence that make it one of several.
const AMONG: [&str; 3] = ["either", "between", "neither"];
/// Words right before a value that deny it or set it beside another.
const BEFORE: [&str; 6] = ["not", "or", "nor", "isn't", "never", "cannot be"];
/// What follows a value that is denied.
const AFTER: [&str; 5] = ["is not", "isn't", "is wrong", "is incorrect", "is false"];

/// Whether a sentence denies the value between `before` and `after`, or leaves it open among others.
fn doubted(before: &str, after: &str) -> bool {
    let bare = |c: char| !c.is_alphanumeric() && c != '\'';
    let start = before.rfind('\n').into_iter().chain(before.rfind(". ")).max().unwrap_or(0);
    let lead = before[start..].trim_end_matches(['$', ' ']);
    let before = lead.trim_end_matches(bare);
    let ends_with = |word: &str| {
        let rest = before.len().checked_sub(word.len()).filter(|at| before.get(*at..).is_some_and(|end| end.eq_ignore_ascii_case(word)));
        rest.is_some_and(|at| before[..at].chars().next_back().is_none_or(bare))
    };
    let after = after.trim_start_matches(bare);
    // `1, 2, 42`: the last of a list.
    let listed = lead.strip_suffix(',').is_some_and(|list| list.trim_end_matches('$').ends_with(|c: char| c.is_ascii_digit()));
    listed
        || BEFORE.iter().any(|word| ends_with(word))
        || AFTER.iter().any(|words| after.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words)))
        || before.split(bare).any(|word| AMONG.iter().any(|among| among.eq_ignore_ascii_case(word)))
}

/// The last formula between LaTeX delimiters, and where it ends. `$…$` and `\(…\)` do not span lines.
pub(crate) fn last_formula(text: &str) -> Option<(&str, usize)> {
    let bytes = text.as_bytes();
    let mut last: Option<(usize, usize, usize)> = None;
    let mut at = 0;
    while at < bytes.len() {
        let (open, close) = match (bytes[at], bytes.get(at + 1)) {
            (b'$', Some(b'$')) => ("$$", "$$"),
            (b'$', _) => ("$", "$"),
            (b'\\', Some(b'[')) => ("\\[", "\\]"),
            (b'\\', Some(b'(')) => ("\\(", "\\)"),
            (b'\\', _) => {
                at += 2;
                continue;
            }
            _ => {
                at += 1;
                continue;
            }
        };
        let start = at + open.len();
        let inline = matches!(open, "$" | "\\(");
        // A search that is cut off at the line's end looks at each byte once more at most.
        let span = &bytes[start..];
        let limit = if inline { span.iter().position(|b| *b == b'\n').unwrap_or(span.len()) } else { span.len() };
        match closing(&span[..limit], close.as_bytes()) {
            Some(length) if !span[..length].iter().all(u8::is_ascii_whitespace) => {
                last = Some((start, start + length, start + length + close.len()));
                at = start + length + close.len();
            }
            Some(length) => at = start + length + close.len(),
            None if inline => at = start + limit,
            // A display that never closes hides no later one.
            None => break,
        }
    }
    last.and_then(|(start, end, after)| text.get(start..end).map(|formula| (formula, after)))
}

/// Where `close` stands, escaped characters apart.
fn closing(span: &[u8], close: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < span.len() {
        if span[at..].starts_with(close) {
            return Some(at);
        }
        at += if span[at] == b'\\' { 2 } else { 1 };
    }
    None
}

/// The last number and where it stands; one that stands alone between inline delimiters on other lines does not count.
fn last_number(text: &str) -> Option<(&str, usize)> {
    let Range { start, end } = answer::last_number(text)?;
    let (before, after) = (&text[..start], &text[end..]);
    let broken = |open: &str, close: &str| {
        let lead = before.rfind(open).map(|o| &before[o + open.len()..]);
        let trail = after.find(close).map(|c| &after[..c]);
        matches!((lead, trail), (Some(lead), Some(trail)) if lead.trim().is_empty() && trail.trim().is_empty() && (lead.contains('\n') || trail.contains('\n')))
    };
    if broken("$", "$") || broken("\\(", "\\)") {
        return None;
    }
    let percent = after.trim_start_matches(['\\', ' ']).starts_with('%').then(|| after.find('%')).flatten();
    text.get(start..percent.map_or(end, |p| end + p + 1)).map(|number| (number, start))
}

/// The places where an answer may stand in a text without a box.
pub(crate) fn unboxed(text: &str) -> impl Iterator<Item = &str> {
    let whole = Some(trimmed(text)).filter(|t| t.len() <= MAX_WHOLE && !t.is_empty());
    let mut step = 0;
    std::iter::from_fn(move || {
        loop {
            step += 1;
            let candidate = match step {
                1 => whole,
                2 => announced(text),
                3 => announced(text).and_then(last_said),
                4 => last_said(text),
                _ => return None,
            };
            if candidate.is_some() {
                return candidate;
            }
        }
    })
}

/// Without special tokens and stops at the end.
pub(crate) fn trimmed(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let before = text.len();
        if text.ends_with("|>")
            && let Some(start) = text.rfind("<|")
        {
            text = text[..start].trim_end();
        }
        text = text.trim_end_matches(['.', '*', '"', ' ', '\n']);
        text = text.strip_suffix("I hope it is correct").unwrap_or(text).trim_end();
        if text.len() == before {
            return text.trim_start_matches(['*', '"', ' ']);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{announced, boxed, last_formula};

    #[test]
    fn boxes_that_belong_together_are_one_answer() {
        let found = |text| boxed(text).map(|(content, _)| content.into_owned());
        assert_eq!(found("\\boxed{1}\\boxed{2}").as_deref(), Some("1, 2"));
        assert_eq!(found("\\boxed{41} or \\boxed{42}").as_deref(), Some("41, 42"));
        assert_eq!(found("\\boxed{k = 45} \\quad \\text{and} \\quad \\boxed{n = 2}").as_deref(), Some("k = 45, n = 2"));
        assert_eq!(found("\\boxed{41}\n\nActually no, \\boxed{42}").as_deref(), Some("42"));
        assert_eq!(found("\\boxed{1} \\boxed{42}").as_deref(), Some("42"));
    }

    #[test]
    fn announcements_and_formulas_are_found() {
        assert_eq!(announced("Final Answer: The final answer is $10,455$. I hope"), Some("$10,455$"));
        assert_eq!(announced("The answer is 42"), Some("42"));
        assert_eq!(last_formula("a $x$ b \\[ 9 \\] c").map(|f| f.0), Some(" 9 "));
        assert_eq!(last_formula("a $ \n 9 \n $"), None);
        assert_eq!(last_formula(&"$".repeat(500_000)), None);
    }
}
