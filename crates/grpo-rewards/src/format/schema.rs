//! JSON by schema.

use grpo_core::Reward;
use regex::Regex;
use serde_json::{Map, Value};

use crate::answer::{Extract, Thoughts, verdict};
use crate::format::fenced;

/// How deep schemas and values may nest together.
const MAX_DEPTH: usize = 64;

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A keyword that is not checked here: ignoring it would pay for texts that break it.
    #[error("schema keyword `{0}` is not supported")]
    Unsupported(String),
    /// A keyword's value is not what it must be.
    #[error("schema keyword `{keyword}` must be {must}")]
    Invalid {
        /// The keyword.
        keyword: String,
        /// What its value must be.
        must: &'static str,
    },
    /// Nested too deep.
    #[error("schema nests deeper than {MAX_DEPTH}")]
    TooDeep,
}

/// 1 if the answer is JSON that fits a schema, 0 if it is not JSON or does not fit.
///
/// The answer is the last `<answer>` tag's content, else the last block fenced as `json`, else the text after the thoughts.
///
/// Of JSON Schema (2020-12): `type`, `enum`, `const`, `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`, `minLength`, `maxLength`, `pattern`,
/// `items`, `minItems`, `maxItems`, `uniqueItems`, `properties`, `required`, `additionalProperties`, `minProperties`, `maxProperties`, `anyOf`, `allOf`, `oneOf`, `not`,
/// with `true` and `false` as schemas. Annotations (`title`, `description`, `default`, `examples`, `$schema`, `$comment`) are passed over; any other keyword is refused.
/// Patterns match in linear time.
///
/// ```
/// use grpo_core::Reward;
/// use grpo_rewards::format::JsonSchema;
/// let schema = serde_json::json!({"type": "object", "required": ["city"], "additionalProperties": false,
///     "properties": {"city": {"type": "string", "minLength": 1}, "degrees": {"type": "integer", "minimum": -90}}});
/// let json = JsonSchema::new(&schema)?;
/// assert_eq!(json.judge("<think>warm</think>```json\n{\"city\": \"Rome\", \"degrees\": 31}\n```"), Reward::Outcome(1.0));
/// assert_eq!(json.judge("{\"city\": \"Rome\", \"mood\": 1}"), Reward::Outcome(0.0));
/// assert!(JsonSchema::new(&serde_json::json!({"$ref": "#/x"})).is_err()); // refused, not ignored
/// # Ok::<(), grpo_rewards::format::SchemaError>(())
/// ```
#[derive(Debug, Clone)]
pub struct JsonSchema {
    rule: Rule,
    thoughts: Thoughts,
}

#[derive(Debug, Clone)]
enum Rule {
    Always(bool),
    All(Vec<Check>),
}

#[derive(Debug, Clone)]
enum Check {
    Type(Vec<String>),
    Enum(Vec<Value>),
    Minimum(f64),
    Maximum(f64),
    Above(f64),
    Below(f64),
    MultipleOf(f64),
    Length(usize, usize),
    Pattern(Regex),
    Items(Box<Rule>),
    ItemCount(usize, usize),
    Unique,
    Properties { known: Vec<(String, Rule)>, others: Box<Rule> },
    Required(Vec<String>),
    PropertyCount(usize, usize),
    Any(Vec<Rule>),
    One(Vec<Rule>),
    Every(Vec<Rule>),
    Not(Box<Rule>),
}

impl JsonSchema {
    /// Reads a schema.
    ///
    /// # Errors
    /// A keyword that is not supported, or has a wrong value.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        Ok(Self { rule: rule(schema, 0)?, thoughts: Thoughts::default() })
    }

    /// Sets the tags that thoughts stand between.
    pub fn thoughts(mut self, thoughts: Thoughts) -> Self {
        self.thoughts = thoughts;
        self
    }

    /// The reward of a text.
    pub fn judge(&self, text: &str) -> Reward {
        let Some(rest) = self.thoughts.cut(text) else { return verdict(false) };
        let answer = Extract::tag("answer").from(rest).unwrap_or(rest);
        let json = fenced(answer, "json").unwrap_or(answer);
        // The parser refuses values that nest deeper than 128.
        verdict(serde_json::from_str::<Value>(json.trim()).is_ok_and(|value| self.rule.fits(&value, 0)))
    }
}
super::text_reward!(JsonSchema, "json_schema");

fn rule(schema: &Value, depth: usize) -> Result<Rule, SchemaError> {
    if depth > MAX_DEPTH {
        return Err(SchemaError::TooDeep);
    }
    match schema {
        Value::Bool(always) => Ok(Rule::Always(*always)),
        Value::Object(keywords) => {
            let mut checks = Vec::new();
            for (keyword, value) in keywords {
                checks.extend(check(keyword, value, keywords, depth)?);
            }
            Ok(Rule::All(checks))
        }
        _ => Err(invalid("schema", "an object, true or false")),
    }
}

fn invalid(keyword: &str, must: &'static str) -> SchemaError {
    SchemaError::Invalid { keyword: keyword.to_owned(), must }
}

fn check(keyword: &str, value: &Value, all: &Map<String, Value>, depth: usize) -> Result<Option<Check>, SchemaError> {
    let number = || value.as_f64().ok_or_else(|| invalid(keyword, "a number"));
    let count = || value.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| invalid(keyword, "a whole number of at least 0"));
    let text = |v: &Value| v.as_str().map(str::to_owned).ok_or_else(|| invalid(keyword, "text, or a list of texts"));
    let texts = || match value {
        Value::Array(list) => list.iter().map(text).collect::<Result<Vec<String>, SchemaError>>(),
        single => Ok(vec![text(single)?]),
    };
    let rules = || match value {
        Value::Array(list) if !list.is_empty() => list.iter().map(|s| rule(s, depth + 1)).collect::<Result<Vec<Rule>, SchemaError>>(),
        _ => Err(invalid(keyword, "a list of schemas")),
    };
    const ANY: usize = usize::MAX;
    Ok(Some(match keyword {
        "type" => {
            let types = texts()?;
            let known = ["null", "boolean", "integer", "number", "string", "array", "object"];
            if types.iter().any(|t| !known.contains(&t.as_str())) {
                return Err(invalid(keyword, "null, boolean, integer, number, string, array or object"));
            }
            Check::Type(types)
        }
        "enum" => Check::Enum(value.as_array().cloned().ok_or_else(|| invalid(keyword, "a list"))?),
        "const" => Check::Enum(vec![value.clone()]),
        "minimum" => Check::Minimum(number()?),
        "maximum" => Check::Maximum(number()?),
        "exclusiveMinimum" => Check::Above(number()?),
        "exclusiveMaximum" => Check::Below(number()?),
        "multipleOf" => Check::MultipleOf(number().ok().filter(|n| *n > 0.0).ok_or_else(|| invalid(keyword, "a number above 0"))?),
        "minLength" => Check::Length(count()?, ANY),
        "maxLength" => Check::Length(0, count()?),
        "pattern" => Check::Pattern(
            Regex::new(&text(value)?).map_err(|_| invalid(keyword, "a regular expression without look-around and backreferences"))?,
        ),
        "items" => Check::Items(Box::new(rule(value, depth + 1)?)),
        "minItems" => Check::ItemCount(count()?, ANY),
        "maxItems" => Check::ItemCount(0, count()?),
        "uniqueItems" => match value.as_bool() {
            Some(true) => Check::Unique,
            Some(false) => return Ok(None),
            None => return Err(invalid(keyword, "true or false")),
        },
        "properties" => {
            let map = value.as_object().ok_or_else(|| invalid(keyword, "an object of schemas"))?;
            let known: Result<Vec<_>, SchemaError> = map.iter().map(|(name, s)| Ok((name.clone(), rule(s, depth + 1)?))).collect();
            let others = all.get("additionalProperties").map_or(Ok(Rule::Always(true)), |s| rule(s, depth + 1))?;
            Check::Properties { known: known?, others: Box::new(others) }
        }
        // With `properties`, it is checked there.
        "additionalProperties" if all.contains_key("properties") => return Ok(None),
        "additionalProperties" => Check::Properties { known: Vec::new(), others: Box::new(rule(value, depth + 1)?) },
        "required" => Check::Required(texts()?),
        "minProperties" => Check::PropertyCount(count()?, ANY),
        "maxProperties" => Check::PropertyCount(0, count()?),
        "anyOf" => Check::Any(rules()?),
        "oneOf" => Check::One(rules()?),
        "allOf" => Check::Every(rules()?),
        "not" => Check::Not(Box::new(rule(value, depth + 1)?)),
        "title" | "description" | "default" | "examples" | "$schema" | "$comment" => return Ok(None),
        other => return Err(SchemaError::Unsupported(other.to_owned())),
    }))
}

impl Rule {
    fn fits(&self, value: &Value, depth: usize) -> bool {
        match self {
            Self::Always(always) => *always,
            Self::All(checks) => depth <= 4 * MAX_DEPTH && checks.iter().all(|check| check.holds(value, depth)),
        }
    }
}

impl Check {
    fn holds(&self, value: &Value, depth: usize) -> bool {
        let fits = |rule: &Rule, value: &Value| rule.fits(value, depth + 1);
        // A keyword says nothing of values of other types.
        let number = |holds: &dyn Fn(f64) -> bool| value.as_f64().is_none_or(holds);
        match self {
            Self::Type(types) => types.iter().any(|t| is_of_type(value, t)),
            Self::Enum(values) => values.contains(value),
            Self::Minimum(low) => number(&|n| n >= *low),
            Self::Maximum(high) => number(&|n| n <= *high),
            Self::Above(low) => number(&|n| n > *low),
            Self::Below(high) => number(&|n| n < *high),
            Self::MultipleOf(step) => number(&|n| (n / step - (n / step).round()).abs() < 1e-9),
            Self::Length(low, high) => value.as_str().is_none_or(|s| (*low..=*high).contains(&s.chars().count())),
            Self::Pattern(regex) => value.as_str().is_none_or(|s| regex.is_match(s)),
            Self::Items(rule) => value.as_array().is_none_or(|items| items.iter().all(|item| fits(rule, item))),
            Self::ItemCount(low, high) => value.as_array().is_none_or(|items| (*low..=*high).contains(&items.len())),
            Self::Unique => value.as_array().is_none_or(|items| {
                let mut texts: Vec<String> = items.iter().map(Value::to_string).collect();
                texts.sort_unstable();
                texts.windows(2).all(|pair| pair[0] != pair[1])
            }),
            Self::Properties { known, others } => value.as_object().is_none_or(|map| {
                map.iter().all(|(name, value)| fits(known.iter().find(|(k, _)| k == name).map_or(others, |(_, rule)| rule), value))
            }),
            Self::Required(names) => value.as_object().is_none_or(|map| names.iter().all(|name| map.contains_key(name))),
            Self::PropertyCount(low, high) => value.as_object().is_none_or(|map| (*low..=*high).contains(&map.len())),
            Self::Any(rules) => rules.iter().any(|rule| fits(rule, value)),
            Self::One(rules) => rules.iter().filter(|rule| fits(rule, value)).count() == 1,
            Self::Every(rules) => rules.iter().all(|rule| fits(rule, value)),
            Self::Not(rule) => !fits(rule, value),
        }
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        // 3.0 is an integer in JSON Schema.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

#[cfg(test)]
mod tests {
    use grpo_core::Reward;
    use serde_json::json;

    use super::{JsonSchema, SchemaError};

    #[test]
    fn keywords_decide_as_the_standard_says() {
        for (schema, good, bad) in [
            (json!({"type": "integer"}), "3.0", "3.5"),
            (json!({"type": ["string", "null"]}), "null", "1"),
            (json!({"enum": [1, "a"]}), "\"a\"", "2"),
            (json!({"items": {"type": "number"}, "minItems": 1, "uniqueItems": true}), "[1, 2]", "[1, 1]"),
            (json!({"pattern": "^a+$"}), "\"aa\"", "\"ab\""),
            (json!({"additionalProperties": {"type": "boolean"}}), "{\"x\": true}", "{\"x\": 1}"),
            (json!({"oneOf": [{"minimum": 3}, {"multipleOf": 2}]}), "5", "4"),
            (json!({"not": {"const": 0}}), "1", "0"),
            (json!({"maxLength": 2}), "\"éé\"", "\"ééé\""),
            (json!(true), "{}", "{"),
        ] {
            let rule = JsonSchema::new(&schema).unwrap();
            assert_eq!(rule.judge(good), Reward::Outcome(1.0), "{schema} {good}");
            assert_eq!(rule.judge(bad), Reward::Outcome(0.0), "{schema} {bad}");
        }
    }

    #[test]
    fn what_is_not_checked_is_refused() {
        assert_eq!(JsonSchema::new(&json!({"format": "date"})).unwrap_err(), SchemaError::Unsupported("format".to_owned()));
        assert!(JsonSchema::new(&json!({"type": "text"})).is_err());
        let deep = (0..100).fold(json!(true), |inner, _| json!({"items": inner}));
        assert_eq!(JsonSchema::new(&deep).unwrap_err(), SchemaError::TooDeep);
        assert_eq!(JsonSchema::new(&json!(true)).unwrap().judge(&"[".repeat(100_000)), Reward::Outcome(0.0));
    }
}
