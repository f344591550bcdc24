//! Multiple choice.

use grpo_core::{BoxError, Completion, Reward, RewardFn};

use crate::answer::{Extract, Thoughts, verdict};

/// 1 if the completion chooses the gold letters and no other, 0 if not; a gold text without a letter does not apply.
///
/// Looked for, in this order: a box or an `<answer>` tag, with all letters in it; the first letter right after an announcement (`answer is`, `answer:`, `judgment:`, `答案:`, `réponse est`);
/// a text that begins with a letter; the last letter that stands alone. Letters that `or`, `and` or a comma join are all chosen. The article `a` is no
/// choice: letters are capitals.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::choice::Choice;
/// let choice = Choice::new(["A", "B", "C", "D"]);
/// assert_eq!(choice.judge("D", "The answer is for sure D, it can't be A or B"), Reward::Outcome(1.0));
/// assert_eq!(choice.judge("(D) Alina", "\\boxed{\\textbf{(D)}\\ 12}"), Reward::Outcome(1.0));
/// assert_eq!(choice.judge("A", "\\boxed{A or B}"), Reward::Outcome(0.0)); // hedged
/// assert_eq!(choice.judge("A", "No valid answer here"), Reward::Outcome(0.0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    letters: Vec<String>,
    thoughts: Thoughts,
}

/// After these, the choice follows.
const ANNOUNCEMENTS: [&str; 12] = [
    "answer is",
    "Answer is",
    "answer:",
    "Answer:",
    "judgment:",
    "Judgment:",
    "choice is",
    "answer：",
    "答案:",
    "答案：",
    "答案是",
    "réponse est",
];

impl Choice {
    /// Among these letters.
    pub fn new<S: Into<String>>(letters: impl IntoIterator<Item = S>) -> Self {
        Self { letters: letters.into_iter().map(Into::into).collect(), thoughts: Thoughts::default() }
    }

    /// Sets the tags that thoughts stand between.
    pub fn thoughts(mut self, thoughts: Thoughts) -> Self {
        self.thoughts = thoughts;
        self
    }

    /// The chosen letters, in alphabetical order; `None` where there is no choice.
    pub fn chosen<'a>(&'a self, text: &str) -> Option<Vec<&'a str>> {
        let text = self.thoughts.cut(text)?;
        // What stands in a box or a tag is the answer, with all its letters.
        if let Some(content) = Extract::Boxed.from(text).or_else(|| Extract::tag("answer").from(text)) {
            return sorted(self.standing(content).map(|(_, letter)| letter));
        }
        let announced = ANNOUNCEMENTS.iter().filter_map(|mark| text.rfind(mark).map(|at| at + mark.len())).max();
        let after = announced.and_then(|at| text.get(at..)).and_then(|rest| self.standing(rest).next());
        let leading = || {
            self.standing(text).next().filter(|(at, letter)| {
                let before = &text[..*at];
                let next = text[at + letter.len()..].chars().next();
                before.trim_matches(|c: char| !c.is_alphanumeric()).is_empty()
                    && !next.is_some_and(|c| c == ' ' && text[at + letter.len()..].starts_with(" is"))
            })
        };
        // An announcement's letter stands at a place within what follows it.
        let shift = announced.unwrap_or(0);
        let found = after.map(|(at, letter)| (at + shift, letter)).or_else(leading).or_else(|| self.unannounced(text));
        found.and_then(|(at, _)| self.with_neighbours(text, at))
    }

    /// The letter at a place with those that `or`, `and` or a comma join to it: "A or B" chooses both.
    fn with_neighbours<'a>(&'a self, text: &str, at: usize) -> Option<Vec<&'a str>> {
        let all: Vec<(usize, &str)> = self.standing(text).collect();
        let joined = |first: usize| {
            let ((start, letter), (next, _)) = (all[first], all[first + 1]);
            let gap: String = text[start + letter.len()..next].chars().filter(|c| !matches!(c, ' ' | '(' | ')' | '*' | '$')).collect();
            matches!(gap.to_lowercase().as_str(), "or" | "and" | "," | ",or" | ",and" | "/" | "|" | "&" | "或" | "和" | "、" | "ou" | "et")
        };
        let place = all.iter().position(|(start, _)| *start == at)?;
        let (mut low, mut high) = (place, place);
        while low > 0 && joined(low - 1) {
            low -= 1;
        }
        while high + 1 < all.len() && joined(high) {
            high += 1;
        }
        sorted(all[low..=high].iter().map(|(_, letter)| *letter))
    }

    /// Without an announcement: the letter before `is`, or the last one that is not denied.
    fn unannounced<'a>(&'a self, text: &str) -> Option<(usize, &'a str)> {
        let denied = |at: usize| {
            let before = text[..at].trim_end();
            ["not", "non", "不是", "isn't", "n't be", "nor"].iter().any(|d| before.ends_with(d))
        };
        self.standing(text).filter(|(at, _)| !denied(*at)).last()
    }

    /// The letters that stand alone in a text, with their places.
    fn standing<'a, 't>(&'a self, text: &'t str) -> impl Iterator<Item = (usize, &'a str)> + use<'a, 't> {
        let bounded = move |start: usize, end: usize| {
            let (before, after) = (text[..start].chars().next_back(), text[end..].chars().next());
            // Scripts written without blanks do not join to a Latin letter.
            let joins =
                |c: Option<char>| c.is_some_and(|c| c == '_' || c == '\'' || c == '’' || (c.is_alphanumeric() && u32::from(c) < 0x2E80));
            !joins(before) && !joins(after)
        };
        text.char_indices().filter_map(move |(at, _)| {
            let found = self.letters.iter().find(|l| !l.is_empty() && text[at..].starts_with(l.as_str()) && bounded(at, at + l.len()))?;
            Some((at, found.as_str()))
        })
    }

    /// The gold letters: in brackets, at the start of a line, or all that stand alone.
    fn gold<'a>(&'a self, gold: &str) -> Option<Vec<&'a str>> {
        let bracketed = self.standing(gold).find(|(at, letter)| gold[..*at].ends_with('(') && gold[at + letter.len()..].starts_with(')'));
        if let Some((_, letter)) = bracketed {
            return Some(vec![letter]);
        }
        let first_of_line = gold.lines().rev().find(|line| line.contains(' ') && self.standing(line).next().is_some_and(|(at, _)| at == 0));
        match first_of_line {
            Some(line) => self.with_neighbours(line, 0),
            None => sorted(self.standing(gold).map(|(_, letter)| letter)),
        }
    }

    /// The reward of a text.
    pub fn judge(&self, gold: &str, text: &str) -> Reward {
        match self.gold(gold) {
            None => Reward::NotApplicable,
            Some(gold) => verdict(self.chosen(text) == Some(gold)),
        }
    }
}

/// Letters in order, each once; `None` for none.
fn sorted<'a>(letters: impl Iterator<Item = &'a str>) -> Option<Vec<&'a str>> {
    let mut all: Vec<&str> = letters.collect();
    all.sort_unstable();
    all.dedup();
    (!all.is_empty()).then_some(all)
}

impl<T: AsRef<str> + ?Sized> RewardFn<T> for Choice {
    fn name(&self) -> &str {
        "choice"
    }
    fn score(&self, gold: &T, completion: &Completion) -> Result<Reward, BoxError> {
        Ok(self.judge(gold.as_ref(), &completion.text))
    }
}

#[cfg(test)]
mod tests {
    use grpo_core::Reward;

    use super::Choice;

    #[test]
    fn a_hedge_chooses_several_and_earns_nothing() {
        let choice = Choice::new(["A", "B", "C", "D"]);
        for text in ["<answer>A or B or C</answer>", "It is A or B or C", "The answer is (A), (B) or (C).", "A / B / C", "\\boxed{A, B, C}"]
        {
            for gold in ["A", "B", "C"] {
                assert_eq!(choice.judge(gold, text), Reward::Outcome(0.0), "{gold}: {text}");
            }
            assert_eq!(choice.judge("A, B, C", text), Reward::Outcome(1.0), "{text}");
        }
    }

    #[test]
    fn a_choice_is_found_in_prose() {
        let choice = Choice::new(["A", "B", "C", "D"]);
        for (text, expected) in [
            ("The answer is A.", "A"),
            ("I think A. Wait, B", "B"),
            ("D. it can't be A or B", "D"),
            ("The answer: D, it doesn't make sense for it to be A or B", "D"),
            ("B不是 A", "B"),
            ("\\n答案: C", "C"),
            ("<answer>B</answer>", "B"),
        ] {
            assert_eq!(choice.chosen(text), Some(vec![expected]), "{text}");
        }
        assert_eq!(choice.chosen("No valid answer here"), None);
    }
}
