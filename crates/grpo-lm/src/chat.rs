//! Conversations to prompts, through the template that comes with a model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{Environment, Error as JinjaError, ErrorKind, Output, State, Value};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A turn of the role given.
    ///
    /// ```
    /// use grpo_lm::chat::Message;
    ///
    /// assert_eq!(Message::new("user", "2 + 2?").role, "user");
    /// ```
    #[must_use]
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// Whether a rendered conversation ends with the opening of the assistant's next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GenerationPrompt {
    /// It does: the prompt of a completion.
    Add,
    /// It does not: a finished conversation.
    Omit,
}

/// The chat template of a model. Cheap to clone.
///
/// The language is Jinja as `transformers` sets it up: block tags swallow their line, `break` and
/// `continue` work, Python's methods of strings, lists and dictionaries are there, `tojson` writes what
/// Python's `json.dumps(ensure_ascii=False)` does, and so are `raise_exception` and `strftime_now`
/// (in UTC). `{% generation %}` marks are passed over. Work and memory of one rendering are bounded.
///
/// ```
/// use grpo_lm::chat::{ChatTemplate, GenerationPrompt, Message};
///
/// let template = ChatTemplate::new(
///     "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}\
///      {% if add_generation_prompt %}<assistant>{% endif %}",
/// )?;
/// let prompt = template.render(&[Message::new("user", "Hello")], GenerationPrompt::Add)?;
/// assert_eq!(prompt, "<user>Hello<assistant>");
/// # Ok::<(), grpo_lm::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    source: Arc<str>,
    environment: Arc<Environment<'static>>,
    variables: BTreeMap<String, Value>,
    now: Option<u64>,
}

const NAME: &str = "chat_template";
/// 5 million instructions, or about 300 MB of text: a hundred times what a long conversation takes.
const FUEL: u64 = 5_000_000;

fn failed(error: impl std::fmt::Display) -> Error {
    Error::ChatTemplate(error.to_string())
}

impl ChatTemplate {
    /// Compiles a template.
    ///
    /// # Errors
    ///
    /// [`Error::ChatTemplate`] says where its syntax is wrong.
    pub fn new(source: &str) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(failed)?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(write_as_python);
        environment.set_fuel(Some(FUEL));
        environment.add_function("raise_exception", |message: String| -> Result<Value, JinjaError> {
            Err(JinjaError::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", strftime_now);
        environment.add_filter("tojson", to_json);
        environment.add_template_owned(NAME, pass_over_generation(source)).map_err(failed)?;
        Ok(Self { source: source.into(), environment: Arc::new(environment), variables: BTreeMap::new(), now: None })
    }

    /// Sets a variable that the template reads: `bos_token`, `eos_token`, `enable_thinking`, ….
    ///
    /// ```
    /// use grpo_lm::chat::{ChatTemplate, GenerationPrompt};
    ///
    /// let template = ChatTemplate::new("{{ bos_token }}")?.with_variable("bos_token", "<s>");
    /// assert_eq!(template.render(&[], GenerationPrompt::Omit)?, "<s>");
    /// # Ok::<(), grpo_lm::error::Error>(())
    /// ```
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        self.variables.insert(name.into(), Value::from(Serde(value)));
        self
    }

    /// Fixes the time that `strftime_now` tells, in seconds since 1970 in UTC: a template that writes
    /// today's date (Llama 3) then gives the same prompt tomorrow.
    #[must_use]
    pub fn with_time(mut self, unix_seconds: u64) -> Self {
        self.now = Some(unix_seconds);
        self
    }

    /// The template as it was given.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation.
    ///
    /// # Errors
    ///
    /// [`Error::ChatTemplate`] with what the template raised, or what it stumbled over.
    pub fn render(&self, messages: &[Message], prompt: GenerationPrompt) -> Result<String> {
        self.render_any(messages, prompt)
    }

    /// Renders turns that say more than [`Message`] does: tool calls, names, …. Descriptions of tools go
    /// in by [`with_variable`](Self::with_variable)`("tools", …)`. The order of fields stays that of the type:
    /// mind that a `serde_json::Value` sorts them.
    ///
    /// # Errors
    ///
    /// [`Error::ChatTemplate`] with what the template raised, or what it stumbled over.
    pub fn render_any<M: Serialize>(&self, messages: &[M], prompt: GenerationPrompt) -> Result<String> {
        let mut context = BTreeMap::from([
            ("messages", Value::from(Serde(messages))),
            ("add_generation_prompt", Value::from(prompt == GenerationPrompt::Add)),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
        ]);
        if let Some(now) = self.now {
            context.insert(NOW, Value::from(now));
        }
        for (name, value) in &self.variables {
            context.insert(name, value.clone());
        }
        let template = self.environment.get_template(NAME).map_err(failed)?;
        template.render(Value::from_pairs(context)).map_err(failed)
    }
}

impl PartialEq for ChatTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.variables == other.variables && self.now == other.now
    }
}

/// The text of a special token in `tokenizer_config.json`: a string, or an object around one.
pub(crate) fn token_text(value: &serde_json::Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// `{% generation %}` marks what the assistant says. As an `if true` it keeps its own whitespace control.
fn pass_over_generation(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(end) = rest[start..].find("%}").map(|end| start + end) else { break };
        let tag = &rest[start + 2..end];
        let word = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let replacement = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => word,
        };
        out.push_str(&rest[..start + 2]);
        out.push_str(&tag.replacen(word, replacement, usize::from(replacement != word)));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Python writes `True`, `False` and `None`.
fn write_as_python(out: &mut Output, state: &mut State, value: &Value) -> Result<(), JinjaError> {
    let word = match value.kind() {
        ValueKind::Bool if value.is_true() => "True",
        ValueKind::Bool => "False",
        ValueKind::None => "None",
        _ => return minijinja::escape_formatter(out, state, value),
    };
    out.write_str(word).map_err(JinjaError::from)
}

/// Python's `json.dumps`: a space after each colon, and after each comma unless indented.
struct PythonStyle;

impl serde_json::ser::Formatter for PythonStyle {
    fn begin_array_value<W>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W>(&mut self, writer: &mut W) -> std::io::Result<()>
    where
        W: ?Sized + std::io::Write,
    {
        writer.write_all(b": ")
    }
}

fn to_json(value: Value, options: Kwargs) -> Result<String, JinjaError> {
    let bad = |error: &dyn std::fmt::Display| JinjaError::new(ErrorKind::InvalidOperation, format!("tojson: {error}"));
    let indent: Option<usize> = options.get("indent")?;
    if options.get::<Option<bool>>("ensure_ascii")? == Some(true) {
        return Err(bad(&"ensure_ascii = true, must be false"));
    }
    options.assert_all_used()?;
    let mut out = Vec::new();
    let written = match indent {
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, PythonStyle)),
        Some(width) => {
            // As wide as a page: the width is the template's, so it must not decide over memory.
            let spaces = vec![b' '; width.min(80)];
            let style = serde_json::ser::PrettyFormatter::with_indent(&spaces);
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, style))
        }
    };
    written.map_err(|error| bad(&error))?;
    String::from_utf8(out).map_err(|error| bad(&error))
}

const NOW: &str = "__now";
const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

fn strftime_now(state: &State, format: &str) -> Result<String, JinjaError> {
    let fixed = state.lookup(NOW).and_then(|value| u64::try_from(value).ok());
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    strftime(format, fixed.unwrap_or_else(clock)).map_err(|unknown| {
        let message = format!("strftime_now: %{unknown} is not known; known: %a %A %b %B %d %H %M %S %m %y %Y %%");
        JinjaError::new(ErrorKind::InvalidOperation, message)
    })
}

/// The time in UTC, or the letter of a directive that is not known.
fn strftime(format: &str, unix_seconds: u64) -> Result<String, char> {
    let days = unix_seconds / 86_400;
    let (year, month, day) = date(days);
    let second = unix_seconds % 86_400;
    let month_name = MONTHS[(month as usize - 1) % 12];
    let day_name = DAYS[(days % 7) as usize];
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        match letters.next().unwrap_or(' ') {
            'a' => out.push_str(&day_name[..3]),
            'A' => out.push_str(day_name),
            'b' => out.push_str(&month_name[..3]),
            'B' => out.push_str(month_name),
            'd' => out.push_str(&format!("{day:02}")),
            'H' => out.push_str(&format!("{:02}", second / 3600)),
            'M' => out.push_str(&format!("{:02}", second / 60 % 60)),
            'S' => out.push_str(&format!("{:02}", second % 60)),
            'm' => out.push_str(&format!("{month:02}")),
            'y' => out.push_str(&format!("{:02}", year % 100)),
            'Y' => out.push_str(&year.to_string()),
            '%' => out.push('%'),
            unknown => return Err(unknown),
        }
    }
    Ok(out)
}

/// Year, month and day of the Gregorian calendar, so many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // Whole cycles of 400 years first, so that no clock makes this loop long.
    let (mut year, mut left) = (1970 + 400 * (days / 146_097), days % 146_097);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SMOLLM2: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

    fn render(source: &str) -> Result<String> {
        ChatTemplate::new(source)?.render(&[Message::new("user", "Hi")], GenerationPrompt::Omit)
    }

    #[test]
    fn smollm2_adds_its_system_turn_and_the_generation_prompt() {
        let template = ChatTemplate::new(SMOLLM2).unwrap();
        let text = template.render(&[Message::new("user", "Hi")], GenerationPrompt::Add).unwrap();
        assert_eq!(
            text,
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face\
             <|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
        );
    }

    #[test]
    fn json_is_written_as_python_writes_it() {
        let text = render("{{ {'b': [1, 2.0, none, true], 'a': '<é\"'} | tojson }}").unwrap();
        assert_eq!(text, r#"{"b": [1, 2.0, null, true], "a": "<é\""}"#);
        let text = render("{{ {'b': [1]} | tojson(indent=2) }}").unwrap();
        assert_eq!(text, "{\n  \"b\": [\n    1\n  ]\n}");
        assert!(render("{{ 1 | tojson(separators=1) }}").is_err());
    }

    #[test]
    fn generation_marks_leave_no_trace_but_their_whitespace_control() {
        let text = render("a {%- generation -%} b {% endgeneration %}{{ 'c' }}").unwrap();
        assert_eq!(text, "ab c");
    }

    #[test]
    fn python_idioms_of_published_templates_work() {
        let source = "{%- set ns = namespace(n=0) %}\n{%- for m in messages[::-1] %}\n    {% set ns.n = ns.n + 1 %}\n{{- m.content.split('i')[0].lstrip() }}{% endfor %}{{ ns.n }}{{ true }}{{ tools }}";
        assert_eq!(render(source).unwrap(), "H1TrueNone");
        assert_eq!(render("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}").unwrap(), "1");
    }

    #[test]
    fn what_a_template_raises_is_the_error() {
        let message = render("{{ raise_exception('roles must alternate') }}").unwrap_err().to_string();
        assert!(message.contains("roles must alternate"), "{message}");
        assert!(ChatTemplate::new("{% if %}").is_err());
        assert!(ChatTemplate::new("{% for").is_err());
    }

    #[test]
    fn a_hostile_template_stops() {
        let bomb = "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}";
        assert!(render(bomb).is_err());
        let doubling = "{% set ns = namespace(x='aaaaaaaa') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
        assert!(render(doubling).is_err());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(strftime("%d %b %Y", 1_721_952_000).unwrap(), "26 Jul 2024");
        assert_eq!(strftime("%A, %d %B %y %H:%M:%S", 951_827_696).unwrap(), "Tuesday, 29 February 00 12:34:56");
        assert_eq!(strftime("%Y-%m-%d", 4_107_542_400).unwrap(), "2100-03-01");
        assert_eq!(strftime("%Q", 0), Err('Q'));
        let template = ChatTemplate::new("{{ strftime_now('%Y') }}").unwrap().with_time(0);
        assert_eq!(template.render(&[], GenerationPrompt::Omit).unwrap(), "1970");
    }
}
