//! The cases' format.

use std::time::Duration;

use serde_json::Value;

/// How many checkers agree on a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    Must,
    Should,
    Policy,
}

impl Tier {
    pub fn named(name: &str) -> Result<Self, String> {
        match name {
            "must" => Ok(Self::Must),
            "should" => Ok(Self::Should),
            "policy" => Ok(Self::Policy),
            other => Err(format!("tier = `{other}`, must be must, should or policy")),
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::Policy => "policy",
        }
    }
}

/// One line of a file.
pub struct Case {
    pub id: String,
    pub family: String,
    pub kind: String,
    pub tier: Tier,
    pub gold: Value,
    pub output: Option<String>,
    pub params: Value,
    pub expected: Value,
    pub limit: Option<Duration>,
}

impl Case {
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.get(name).and_then(Value::as_str)
    }
    pub fn number(&self, name: &str) -> Option<f64> {
        self.params.get(name).and_then(Value::as_f64)
    }
    pub fn gold_text(&self) -> &str {
        self.gold.as_str().unwrap_or_default()
    }
    pub fn text(&self) -> &str {
        self.output.as_deref().unwrap_or_default()
    }

    /// Whether what was found is what was expected.
    pub fn expects(&self, found: &Value) -> bool {
        if self.expected == "any" {
            return true;
        }
        let tolerance = |expected: f64| 1e-4_f64.max(self.number("rel_tol").unwrap_or(0.0).min(1e-3) * expected.abs());
        let near = |expected: &Value, found: &Value| match (expected.as_f64(), found.as_f64()) {
            (Some(e), Some(f)) => (e - f).abs() <= tolerance(e),
            _ => expected == found,
        };
        match (&self.expected, found) {
            (Value::Object(bounds), found) => found.as_f64().is_some_and(|f| {
                bounds.get("gt").and_then(Value::as_f64).is_none_or(|low| f > low)
                    && bounds.get("lt").and_then(Value::as_f64).is_none_or(|high| f < high)
            }),
            (Value::Array(expected), Value::Array(found)) => {
                expected.len() == found.len() && expected.iter().zip(found).all(|(e, f)| near(e, f))
            }
            (expected, found) => near(expected, found),
        }
    }
}

/// Reads all `*.jsonl` files of a folder, in the order of their names.
pub fn read(folder: &str) -> Result<Vec<Case>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{folder}: {e}"))?;
    let mut paths: Vec<_> =
        entries.filter_map(|e| e.ok().map(|e| e.path())).filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let name = path.display();
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
        for (index, line) in text.lines().enumerate() {
            cases.push(parsed(line).map_err(|e| format!("{name}, line {}: {e}", index + 1))?);
        }
    }
    Ok(cases)
}

fn parsed(line: &str) -> Result<Case, String> {
    let row: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(format!("no `{name}`"));
    let parts = |name: &str| {
        row.get(name).and_then(Value::as_array).map(|parts| {
            let piece = |part: &Value| {
                let times = usize::try_from(part.get(1).and_then(Value::as_u64).unwrap_or(1)).unwrap_or(1);
                part.get(0).and_then(Value::as_str).unwrap_or_default().repeat(times)
            };
            parts.iter().map(piece).collect::<String>()
        })
    };
    let bytes = row.get("output_bytes_hex").and_then(Value::as_str).map(|hex| {
        let bytes: Vec<u8> = (0..hex.len() / 2).filter_map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    Ok(Case {
        id: text("id")?,
        family: text("family")?,
        kind: text("kind")?,
        tier: Tier::named(&text("tier")?)?,
        gold: parts("gold_parts").map_or_else(|| row.get("gold").cloned().unwrap_or_default(), Value::String),
        output: row.get("output").and_then(Value::as_str).map(str::to_owned).or_else(|| parts("output_parts")).or(bytes),
        params: row.get("params").cloned().unwrap_or_default(),
        expected: row.get("expected").cloned().unwrap_or_default(),
        limit: row.get("limit_ms").and_then(Value::as_u64).map(Duration::from_millis),
    })
}
