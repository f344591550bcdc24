//! Whether a text keeps to one script.

use grpo_core::Reward;

/// A script, told by code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Script {
    /// Latin letters, with accents.
    Latin,
    /// Cyrillic letters.
    Cyrillic,
    /// Greek letters.
    Greek,
    /// Arabic letters.
    Arabic,
    /// Devanagari letters.
    Devanagari,
    /// Chinese characters.
    Han,
    /// Kana and Chinese characters.
    Japanese,
    /// Hangul.
    Korean,
}

impl Script {
    fn holds(self, c: char) -> bool {
        let code = u32::from(c);
        let han = || matches!(code, 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF);
        match self {
            Self::Latin => matches!(code, 0x41..=0x5A | 0x61..=0x7A | 0xAA | 0xBA | 0xC0..=0x24F | 0x1E00..=0x1EFF),
            Self::Cyrillic => matches!(code, 0x400..=0x52F | 0x1C80..=0x1C8F | 0x2DE0..=0x2DFF | 0xA640..=0xA69F),
            Self::Greek => matches!(code, 0x370..=0x3FF | 0x1F00..=0x1FFF),
            Self::Arabic => matches!(code, 0x600..=0x6FF | 0x750..=0x77F | 0x8A0..=0x8FF | 0xFB50..=0xFDFF | 0xFE70..=0xFEFF),
            Self::Devanagari => matches!(code, 0x900..=0x97F | 0xA8E0..=0xA8FF),
            Self::Han => han(),
            Self::Japanese => han() || matches!(code, 0x3040..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9D),
            Self::Korean => matches!(code, 0x1100..=0x11FF | 0x3130..=0x318F | 0xA960..=0xA97F | 0xAC00..=0xD7FF),
        }
    }
}

/// The share of a text's letters that belong to a script: letters in it / all letters. In \[0, 1\]; a text without letters has nothing to say.
///
/// LaTeX commands and formulas between dollar signs are left out: mathematics is Latin in every language.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::{Script, ScriptShare};
/// let chinese = ScriptShare::new(Script::Han);
/// assert_eq!(chinese.judge("答案是 $\\frac{x}{2}$。"), Reward::Outcome(1.0));
/// assert_eq!(chinese.judge("答案 is x"), Reward::Outcome(0.4));
/// assert_eq!(chinese.judge("42"), Reward::NotApplicable);
/// ```
///
/// # Source
/// DeepSeek-R1 (arXiv 2501.12948), section 2.3.2: the language consistency reward, there by words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptShare {
    script: Script,
}

impl ScriptShare {
    /// Of this script.
    pub fn new(script: Script) -> Self {
        Self { script }
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        let (mut inside, mut all, mut formula, mut command) = (0_usize, 0_usize, false, false);
        for c in text.chars() {
            match c {
                '$' => formula = !formula,
                '\\' => command = true,
                _ if !c.is_ascii_alphabetic() => command = false,
                _ => {}
            }
            if formula || command || !c.is_alphabetic() {
                continue;
            }
            all += 1;
            inside += usize::from(self.script.holds(c));
        }
        if all == 0 { Reward::NotApplicable } else { Reward::Outcome(inside as f64 / all as f64) }
    }
}
super::text_reward!(ScriptShare, "script_share");
