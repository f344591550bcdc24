//! Where in a file something stands.

/// A parser's error with its line in front: `:3: unknown field …`.
pub fn parse_error(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1);
    format!("{}: {}", line.map_or(String::new(), |line| format!(":{line}")), error.message().trim_end())
}

/// The line that sets this key, as `:3`; empty where none or several do. A key with dots names a table.
pub fn line_of(text: &str, key: &str) -> String {
    let sets = |line: &str| {
        let line = line.trim();
        let table = line.trim_start_matches('[').trim_end_matches(']');
        line.split_once('=').is_some_and(|(name, _)| name.trim() == key) || (line.starts_with('[') && table == key)
    };
    let mut lines = text.lines().enumerate().filter(|(_, line)| sets(line)).map(|(index, _)| index + 1);
    match (lines.next(), lines.next()) {
        (Some(line), None) => format!(":{line}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_if_only_one_line_sets_it() {
        let text = "steps = 1\n[train]\n  peak= 2\nlow = 1\n[other]\nlow = 2\n";
        assert_eq!(
            (line_of(text, "peak"), line_of(text, "other"), line_of(text, "low"), line_of(text, "none")),
            (":3".into(), ":5".into(), String::new(), String::new())
        );
    }
}
