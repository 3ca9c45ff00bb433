//! Options of a search in the index of servers.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// Maximum number of patterns, and maximum length of one in bytes.
const PATTERNS_MAX: usize = 100;
const PATTERN_MAX: usize = 200;

/// Options of a search in the index of servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchOptions {
    /// Measure of similarity. Without an embedding model, only words are compared.
    pub metric: Metric,
    /// Names of the servers that may be found; `*` stands for any characters. Empty: all.
    #[serde(deserialize_with = "patterns")]
    pub filter: Vec<String>,
    /// Minimum score of a result, on the scale of the metric. Scores of zero or less are never found.
    #[schemars(range(min = -1_000_000.0, max = 1_000_000.0))]
    pub min_score: f64,
}

/// Measure of the similarity of two vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Cosine of the angle, -1 to 1.
    #[default]
    Cosine,
    /// Inner product.
    Dot,
    /// 1 / (1 + distance), 0 to 1.
    Euclidean,
}

impl SearchOptions {
    /// Returns true if no option is set.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the server passes the filter.
    pub fn allows(&self, server: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|pattern| matches_pattern(pattern, server))
    }
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let patterns = Vec::<String>::deserialize(deserializer)?;
    let fits = |text: &String| !text.is_empty() && text.len() <= PATTERN_MAX;
    if PATTERNS_MAX < patterns.len() || !patterns.iter().all(fits) {
        let message =
            format!("filter: at most {PATTERNS_MAX} patterns of 1 to {PATTERN_MAX} bytes are allowed");
        return Err(D::Error::custom(message));
    }
    Ok(patterns)
}

/// Returns true if the whole name matches a pattern in which `*` stands for any characters.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let (end, middle) = parts.split_last().unwrap_or((&"", &[]));
    for part in middle {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(end)
}

#[test]
fn a_pattern_matches_a_whole_name() {
    let cases = [
        ("git", "git", true),
        ("git", "github", false),
        ("git*", "github", true),
        ("git*", "legit", false),
        ("*hub", "github", true),
        ("*hub", "hubs", false),
        ("g*t*b", "github", true),
        ("g*b*t", "github", false),
        ("*", "anything", true),
        ("ab*ba", "aba", false),
    ];
    for (pattern, name, expected) in cases {
        assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
    }
    let many = serde_json::json!({"filter": vec!["a"; PATTERNS_MAX + 1]});
    assert!(serde_json::from_value::<SearchOptions>(many).unwrap_err().to_string().contains("at most 100"));
    assert!(serde_json::from_value::<SearchOptions>(serde_json::json!({"filter": [""]})).is_err());
}
