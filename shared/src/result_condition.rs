//! Conditions on the result of a call. The engine checks them, and no model can answer for it.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

/// Comparison of a part of a result with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// It is the value.
    Equal,
    /// It is another value.
    NotEqual,
    /// It is a number, and at least the value.
    AtLeast,
    /// It is a number, and at most the value.
    AtMost,
    /// It is a number, and more than the value.
    MoreThan,
    /// It is a number, and less than the value.
    LessThan,
    /// It is a text or a list that contains the value.
    Contains,
    /// It is a text or a list without the value.
    ContainsNot,
}

/// Condition on a result: a comparison of one part of it with a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultCondition {
    /// Part of the result, as `stock` or `items.0.price`. Empty for the whole result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Comparison of the two values.
    pub is: Comparison,
    /// Value to compare with.
    #[serde(deserialize_with = "as_text")]
    pub value: String,
}

/// Result of checking a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionVerdict {
    /// It holds.
    Met,
    /// It does not hold for this value.
    Unmet(String),
    /// The result has no such part.
    Missing,
    /// This value cannot be compared this way.
    Incomparable(String),
}

impl ResultCondition {
    /// Checks the condition against a result: its JSON, or the text itself if it is none.
    pub fn check(&self, result: &str) -> ConditionVerdict {
        self.is.check(&self.field, &self.value, result)
    }
}

impl Comparison {
    /// Returns the name used in configurations and schemas, as prose.
    pub fn words(self) -> &'static str {
        match self {
            Comparison::Equal => "is",
            Comparison::NotEqual => "is not",
            Comparison::AtLeast => "is at least",
            Comparison::AtMost => "is at most",
            Comparison::MoreThan => "is more than",
            Comparison::LessThan => "is less than",
            Comparison::Contains => "contains",
            Comparison::ContainsNot => "does not contain",
        }
    }

    /// Compares the part `field` of a result with a value.
    pub fn check(self, field: &str, value: &str, result: &str) -> ConditionVerdict {
        let whole = serde_json::from_str(result).unwrap_or_else(|_| Value::String(result.trim().to_owned()));
        let Some(found) = part(&whole, field) else { return ConditionVerdict::Missing };
        match self.holds(found, value.trim()) {
            Some(true) => ConditionVerdict::Met,
            Some(false) => ConditionVerdict::Unmet(text(found)),
            None => ConditionVerdict::Incomparable(text(found)),
        }
    }

    /// Compares, or returns `None` if the two cannot be compared this way.
    fn holds(self, found: &Value, value: &str) -> Option<bool> {
        let numbers = || Some((text(found).parse::<f64>().ok()?, value.parse::<f64>().ok()?));
        let equal = || numbers().map_or_else(|| text(found) == value, |(found, value)| found == value);
        let contains = || match found {
            Value::String(found) => Some(found.contains(value)),
            Value::Array(all) => Some(all.iter().any(|entry| text(entry) == value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        };
        match self {
            Comparison::Equal => Some(equal()),
            Comparison::NotEqual => Some(!equal()),
            Comparison::AtLeast => numbers().map(|(found, value)| value <= found),
            Comparison::AtMost => numbers().map(|(found, value)| found <= value),
            Comparison::MoreThan => numbers().map(|(found, value)| value < found),
            Comparison::LessThan => numbers().map(|(found, value)| found < value),
            Comparison::Contains => contains(),
            Comparison::ContainsNot => contains().map(|contains| !contains),
        }
    }
}

/// Returns the part of a value at a path of names and indexes, separated by points.
fn part<'a>(whole: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|name| !name.is_empty()).try_fold(whole, |value, name| match value {
        Value::Array(all) => all.get(name.parse::<usize>().ok()?),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            other.get(name)
        }
    })
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

/// Reads a text, a number or a boolean as text.
fn as_text<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    match Value::deserialize(value)? {
        Value::Array(_) | Value::Object(_) | Value::Null => {
            Err(D::Error::custom("value must be a text, a number, true or false"))
        }
        value @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(text(&value)),
    }
}

#[test]
fn a_condition_holds_fails_or_cannot_be_told() {
    let check = |field: &str, is: Comparison, value: &str, result: &str| {
        let condition = ResultCondition { field: field.to_owned(), is, value: value.to_owned() };
        match condition.check(result) {
            ConditionVerdict::Met => "met",
            ConditionVerdict::Unmet(_) => "unmet",
            ConditionVerdict::Missing => "missing",
            ConditionVerdict::Incomparable(_) => "incomparable",
        }
    };
    let stock = r#"{"sku":"CD-456","stock":0,"in":[{"town":"Bonn"}],"open":true,"price":"9.50"}"#;
    assert_eq!(check("stock", Comparison::AtLeast, "1", stock), "unmet");
    assert_eq!(check("stock", Comparison::MoreThan, "-1", stock), "met");
    assert_eq!(check("stock", Comparison::Equal, "0.0", stock), "met");
    assert_eq!(check("price", Comparison::LessThan, "10", stock), "met");
    assert_eq!(check("price", Comparison::AtMost, "9.4", stock), "unmet");
    assert_eq!(check("open", Comparison::Equal, "true", stock), "met");
    assert_eq!(check("in.0.town", Comparison::NotEqual, "Bonn", stock), "unmet");
    assert_eq!(check("sku", Comparison::Contains, "456", stock), "met");
    assert_eq!(check("left", Comparison::AtLeast, "1", stock), "missing");
    assert_eq!(check("sku", Comparison::AtLeast, "1", stock), "incomparable");
    assert_eq!(check("stock", Comparison::Contains, "0", stock), "incomparable");
    assert_eq!(check("", Comparison::AtLeast, "1", " 3\n"), "met");
    assert_eq!(check("", Comparison::Contains, "free", "two rooms are free"), "met");
    assert_eq!(check("", Comparison::ContainsNot, "b", r#"["a","b"]"#), "unmet");
    assert_eq!(check("stock", Comparison::AtLeast, "1", "none left"), "missing");
    let read = serde_json::from_str::<ResultCondition>(r#"{"field":"n","is":"at_least","value":1}"#).unwrap();
    assert_eq!((read.value.as_str(), read.check(r#"{"n":2}"#)), ("1", ConditionVerdict::Met));
}
