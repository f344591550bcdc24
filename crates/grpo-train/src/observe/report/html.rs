//! Text in HTML.

/// Text as text: whatever a model wrote, it is shown and never read as markup. Control characters that HTML does not allow are shown
/// as `�`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // Control characters, and those that turn the direction of the text around them.
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_completion_holds_is_markup() {
        let hostile = "</pre><script>alert('x')</script><img src=x onerror=\"f()\">&lt;\0\u{1b}\u{202e}";
        let shown = "&lt;/pre&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&lt;img src=x onerror=&quot;f()&quot;&gt;&amp;lt;\u{fffd}\u{fffd}\u{fffd}";
        assert_eq!(escape(hostile), shown);
        assert_eq!(escape("a\tb\nü"), "a\tb\nü");
    }
}
