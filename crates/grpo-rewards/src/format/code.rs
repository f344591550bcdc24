//! Fenced code.

use std::borrow::Cow;

use grpo_core::Reward;

use crate::answer::{Extract, Presence, Thoughts, verdict};

/// The last complete fenced block of a language in a text; an empty language takes any block.
///
/// A fence is a line that begins with three backticks; the language follows it, whatever its case.
///
/// ```
/// use grpo_rewards::format::fenced;
/// assert_eq!(fenced("so:\n```python\nprint(1)\n```\nor\n```py\nx\n```", "python"), Some("print(1)\n"));
/// assert_eq!(fenced("```\nx\n```", "python"), None);
/// assert_eq!(fenced("```python\nprint(1)", "python"), None); // never closed
/// ```
pub fn fenced<'t>(text: &'t str, language: &str) -> Option<&'t str> {
    let (mut last, mut open): (Option<&str>, Option<(usize, bool)>) = (None, None);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let start = at;
        at += line.len();
        // `<answer>```python` opens a block as well: only what follows the fence tells.
        let Some((before, info)) = trimmed.split_once("```") else { continue };
        match open {
            Some((from, wanted)) if info.is_empty() || before.is_empty() || info.starts_with('<') => {
                if wanted {
                    last = text.get(from..start + line.find("```").unwrap_or(0));
                }
                open = None;
            }
            Some(_) => {}
            None => open = Some((at, language.is_empty() || info.trim().eq_ignore_ascii_case(language))),
        }
    }
    last
}

/// 1 if the text is a thought and then an answer that holds a fenced block of a language; else 0.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::CodeFormat;
/// let format = CodeFormat::new("python");
/// assert_eq!(format.judge("<think>a loop</think><answer>\n```python\nprint(1)\n```\n</answer>"), Reward::Outcome(1.0));
/// assert_eq!(format.judge("<think>a loop</think><answer>print(1)</answer>"), Reward::Outcome(0.0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFormat {
    language: Cow<'static, str>,
}

impl CodeFormat {
    /// For code in this language.
    pub fn new(language: impl Into<Cow<'static, str>>) -> Self {
        Self { language: language.into() }
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        let required = Thoughts::default().presence(Presence::Required);
        let answer = required.cut(text).and_then(|rest| Extract::tag("answer").from(rest));
        let opened = text.trim_start().starts_with("<think>");
        verdict(opened && answer.is_some_and(|answer| fenced(answer, &self.language).is_some()))
    }
}
super::text_reward!(CodeFormat, "code_format");
