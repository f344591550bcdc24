//! Groups with what they were worth, as bars.

use std::fmt::Write as _;

use super::html::escape;
use super::scale::number;
use crate::observe::run::{SampleCompletion, SampleGroup};

/// The widest bar, in units of its drawing.
const WIDE: f64 = 100.0;

/// A group as a card: the prompt, and a row a completion with its reward and advantage as bars.
pub fn card(group: &SampleGroup) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in group.completions.iter().flat_map(|completion| &completion.rewards) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    // One function is the reward itself.
    if names.len() < 2 {
        names.clear();
    }
    let rewards = group.completions.iter().filter_map(|completion| completion.reward);
    let advantages = group.completions.iter().filter_map(|completion| completion.advantage);
    let (reward_scale, advantage_scale) = (Bars::of(rewards), Bars::of(advantages));
    let mut rows = String::new();
    for completion in &group.completions {
        let _ = write!(rows, "<tr><td class=\"text\"><pre>{}</pre></td>", visible(&completion.text));
        for name in &names {
            let said = completion.rewards.iter().find(|(known, _)| known == name);
            let _ = write!(rows, "<td class=\"n\">{}</td>", said.map_or("–".to_owned(), |(_, value)| number(*value)));
        }
        rows += &reward_scale.cell(completion.reward, "reward");
        rows += &advantage_scale.cell(completion.advantage, "advantage");
        let _ = write!(rows, "<td class=\"n\">{}</td><td>{}</td></tr>", completion.tokens, ended(completion));
    }
    let heads: String = names.iter().map(|name| format!("<th class=\"n\">{}</th>", escape(name))).collect();
    format!(
        "<section class=\"card group\"><h3>Step {}</h3><pre class=\"prompt\">{}</pre><div class=\"wide\"><table><thead><tr><th>completion</th>{heads}<th>reward</th><th>advantage</th><th class=\"n\">tokens</th><th>ended by</th></tr></thead><tbody>{rows}</tbody></table></div></section>\n",
        group.step,
        visible(&group.prompt),
    )
}

/// The text, or that there is none.
fn visible(text: &str) -> String {
    if text.is_empty() { "<i>(no text)</i>".to_owned() } else { escape(text) }
}

fn ended(completion: &SampleCompletion) -> String {
    match completion.finish.as_str() {
        "end_token" => "end token".to_owned(),
        "stop_string" => "stop string".to_owned(),
        "length" => "<b>limit</b>".to_owned(),
        other => escape(other),
    }
}

/// Bars on one scale round 0.
struct Bars {
    low: f64,
    high: f64,
}

impl Bars {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        Self { low, high }
    }

    fn cell(&self, value: Option<f64>, class: &str) -> String {
        let Some(value) = value else { return "<td class=\"bar\">–</td>".to_owned() };
        let unit = if self.high > self.low { WIDE / (self.high - self.low) } else { 0.0 };
        let zero = -self.low * unit;
        let (x, width) = if value < 0.0 { (zero + value * unit, -value * unit) } else { (zero, value * unit) };
        let sign = if value < 0.0 { "minus" } else { "plus" };
        format!(
            "<td class=\"bar\"><svg viewBox=\"0 0 {WIDE} 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"{class} {sign}\" x=\"{x:.1}\" y=\"1\" width=\"{width:.1}\" height=\"8\"/><path class=\"zero\" d=\"M{zero:.1} 0V10\"/></svg><span>{}</span></td>",
            number(value)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(text: &str, reward: f64, advantage: Option<f64>) -> SampleCompletion {
        SampleCompletion {
            text: text.to_owned(),
            tokens: 3,
            finish: "length".to_owned(),
            rewards: vec![("exact".to_owned(), reward), ("<form>".to_owned(), 0.5)],
            reward: Some(reward),
            advantage,
        }
    }

    #[test]
    fn bars_stand_on_both_sides_of_zero_and_texts_are_escaped() {
        let completions = vec![completion("<b>1</b>", 1.0, Some(1.5)), completion("", 0.0, Some(-0.5)), completion("x", 0.0, None)];
        let card = card(&SampleGroup { step: 4, group: 9, prompt: "1 < 2".to_owned(), completions });
        assert!(
            card.contains("1 &lt; 2") && card.contains("&lt;b&gt;1&lt;/b&gt;") && card.contains("&lt;form&gt;") && !card.contains("<b>1")
        );
        // Advantages from −0.5 to 1.5: zero at a quarter.
        assert!(card.contains("class=\"advantage plus\" x=\"25.0\" y=\"1\" width=\"75.0\""), "{card}");
        assert!(card.contains("class=\"advantage minus\" x=\"0.0\" y=\"1\" width=\"25.0\""), "{card}");
        assert!(card.contains("(no text)") && card.contains("<td class=\"bar\">–</td>"));
    }
}
