//! The page.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use super::charts::charts;
use super::groups::card;
use super::html::escape;
use super::scale::{grouped, number};
use crate::observe::health::{Finding, Level, examine};
use crate::observe::run::{Point, RunFiles};

const STYLE: &str = include_str!("style.css");

/// No script, nothing fetched: the browser holds the page to it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

pub fn page(run: &RunFiles) -> String {
    let name = run.folder.file_name().map_or_else(|| run.folder.display().to_string(), |name| name.to_string_lossy().into_owned());
    let name = escape(&name);
    let mut body = format!("<header><h1>{name}</h1>{}</header>\n", facts(run));
    body += &health(&examine(run));
    let charts: String = charts(run).iter().map(super::chart::Chart::draw).collect();
    section(&mut body, "Curves", "Point at a chart for its values.", &format!("<div class=\"charts\">{charts}</div>"));
    let groups: String = run.samples.groups.iter().map(card).collect();
    section(
        &mut body,
        "Sample groups",
        "Answers to one prompt, what they earned, and how much better than their group they were.",
        &groups,
    );
    if let Some(config) = &run.config {
        section(&mut body, "Configuration", "", &format!("<pre class=\"card config\">{}</pre>", escape(&format!("{config:#}"))));
    }
    section(&mut body, "Everything that was measured", "", &table(run));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"><meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\"><title>{name}</title><style>{STYLE}</style></head><body>\n{body}<footer>Written {} by grpo-train.</footer>\n</body></html>\n",
        now()
    )
}

fn section(body: &mut String, title: &str, note: &str, content: &str) {
    if !content.is_empty() {
        let note = if note.is_empty() { String::new() } else { format!("<p class=\"note\">{note}</p>") };
        let _ = writeln!(body, "<section><h2>{title}</h2>{note}{content}</section>");
    }
}

/// Steps, tokens, time, evaluations.
fn facts(run: &RunFiles) -> String {
    let done = run.metrics.len();
    let state = match run.steps {
        Some(_) if run.is_complete() => "complete",
        Some(_) => "not complete: it goes on, or was stopped",
        None => "of a length that is not known",
    };
    let of = run.steps.map_or(String::new(), |steps| format!(" of {}", grouped(&steps.to_string())));
    let mut facts = vec![("steps".to_owned(), format!("{}{of}, {state}", grouped(&done.to_string())))];
    let sum = |name: &str| run.metrics.get(name).iter().map(|(_, value)| *value).filter(|value| value.is_finite()).sum::<f64>();
    let (tokens, seconds) = (sum("tokens"), sum("step_time"));
    if tokens > 0.0 {
        facts.push(("tokens trained".to_owned(), grouped(&format!("{tokens:.0}"))));
    }
    if seconds > 0.0 {
        facts.push(("time".to_owned(), format!("{}, {} s a step", duration(seconds), number(seconds / done as f64))));
    }
    if run.samples.completions > 0 {
        facts.push(("completions kept".to_owned(), grouped(&run.samples.completions.to_string())));
    }
    if let (Some(first), Some(last)) = (run.metrics.get("reward").first(), run.metrics.get("reward").last()) {
        facts.push(("reward".to_owned(), format!("{} → {}", number(first.1), number(last.1))));
    }
    for (file, lines) in &run.unreadable {
        facts.push((escape(file), format!("<b>{lines} lines could not be read</b>")));
    }
    let facts: String = facts.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>")).collect();
    format!("<dl>{facts}</dl>")
}

/// The verdict: the worst first.
fn health(findings: &[Finding]) -> String {
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    let (alarms, watches) = (count(Level::Alarm), count(Level::Watch));
    let overall = match (alarms, watches) {
        _ if findings.iter().all(|finding| finding.level == Level::Unknown) => "There is too little to judge yet.".to_owned(),
        (0, 0) => "Nothing that was measured looks wrong.".to_owned(),
        (0, watches) => format!("No alarm; {watches} worth a look."),
        (alarms, 0) => format!("{alarms} alarm{}.", plural(alarms)),
        (alarms, watches) => format!("{alarms} alarm{}, and {watches} worth a look.", plural(alarms)),
    };
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| match finding.level {
        Level::Alarm => 0,
        Level::Watch => 1,
        Level::Good => 2,
        Level::Unknown => 3,
    });
    let rows: String = sorted.iter().map(|finding| row(finding)).collect();
    format!("<section><h2>Health</h2><p class=\"overall\">{overall}</p><div class=\"findings\">{rows}</div></section>\n")
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn row(finding: &Finding) -> String {
    // A word and a sign, for whoever does not see the colour.
    let (class, word) = match finding.level {
        Level::Alarm => ("alarm", "■ alarm"),
        Level::Watch => ("watch", "▲ look"),
        Level::Good => ("good", "● good"),
        Level::Unknown => ("unknown", "○ unknown"),
    };
    format!(
        "<article class=\"card {class}\"><h3><span class=\"level\">{word}</span>{}</h3><p>{}</p><details><summary>rule</summary><p>{}</p></details></article>",
        escape(finding.what),
        escape(&finding.verdict),
        escape(finding.rule)
    )
}

/// Every curve in a row.
fn table(run: &RunFiles) -> String {
    let curves = run.metrics.iter().chain(run.evaluations.iter());
    let rows: String = curves.map(|(name, curve)| curve_row(name, curve)).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<div class=\"card wide\"><table><thead><tr><th>metric</th><th class=\"n\">first</th><th class=\"n\">last</th><th class=\"n\">lowest</th><th class=\"n\">highest</th><th class=\"n\">values</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn curve_row(name: &str, curve: &[Point]) -> String {
    let finite: Vec<f64> = curve.iter().map(|(_, value)| *value).filter(|value| value.is_finite()).collect();
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), number);
    let (low, high) = (finite.iter().copied().reduce(f64::min), finite.iter().copied().reduce(f64::max));
    let lost = curve.len() - finite.len();
    let lost = if lost == 0 { String::new() } else { format!(" ({lost} not finite)") };
    format!(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}{lost}</td></tr>",
        escape(name),
        shown(curve.first().map(|(_, value)| *value)),
        shown(curve.last().map(|(_, value)| *value)),
        shown(low),
        shown(high),
        grouped(&curve.len().to_string())
    )
}

/// Seconds as a reader says them.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{} s", number(s)),
        s if s < 7200.0 => format!("{:.0} min {:.0} s", (s / 60.0).floor(), (s % 60.0).floor()),
        s => format!("{} h {:.0} min", grouped(&format!("{:.0}", (s / 3600.0).floor())), (s % 3600.0 / 60.0).floor()),
    }
}

/// The date and time in UTC.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", time / 3600, time % 3600 / 60)
}

/// Year, month and day so many days after 1 January 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn dates_and_durations_are_said_as_people_say_them() {
        assert_eq!((date(0), date(59), date(19_782), date(20_787)), ((1970, 1, 1), (1970, 3, 1), (2024, 2, 29), (2026, 11, 30)));
        assert_eq!(duration(59.96), "60 s");
        assert_eq!((duration(3725.0), duration(7322.0)), ("62 min 5 s".to_owned(), "2 h 2 min".to_owned()));
    }
}
