//! Conditions of steps over the results of earlier ones. The engine checks them, and no model can answer for it.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    plan::{Plan, Step},
    state::{State, StepResult},
};

/// Condition under which a step runs: a comparison with the result of an earlier step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// The number of the earlier step.
    pub step: u32,
    /// The part of its result, as `stock` or `items.0.price`; empty for the whole result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Comparison of the two values.
    pub is: Comparison,
    /// The value to compare with, as text: `1`, `true`, `open`.
    pub value: String,
}

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

impl Comparison {
    fn words(self) -> &'static str {
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
}

/// Result of checking a condition.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The step may run.
    Met,
    /// The step is left out, for this reason.
    Unmet(String),
    /// The result does not tell, for this reason.
    Unknown(String),
}

impl Condition {
    /// Formats the condition. `step` names the earlier step as the reader knows it.
    pub(super) fn shown(&self, step: impl Display) -> String {
        let Self { field, is, value, .. } = self;
        let of = if field.is_empty() { String::new() } else { format!("{field:?} in ") };
        format!("only if {of}the result of step {step} {} {value:?}", is.words())
    }

    /// Formats the condition for a person: the step has the number of its place in the plan.
    pub(super) fn shown_in(&self, plan: &Plan) -> String {
        let place = plan.steps.iter().position(|step| step.id == self.step);
        self.shown(place.map_or_else(|| "?".to_owned(), |place| (place + 1).to_string()))
    }

    /// Checks the condition against a result: its JSON, or the text itself if it is none.
    fn verdict(&self, result: &str) -> Verdict {
        let whole = serde_json::from_str(result).unwrap_or_else(|_| Value::String(result.trim().to_owned()));
        let Some(found) = part(&whole, &self.field) else {
            return Verdict::Unknown(format!("the result of step {} has no {:?}", self.step, self.field));
        };
        match self.is.holds(found, self.value.trim()) {
            Some(true) => Verdict::Met,
            Some(false) => Verdict::Unmet(format!("{}, and it is {}", self.shown(self.step), text(found))),
            None => {
                Verdict::Unknown(format!("{} cannot be compared: {}", text(found), self.shown(self.step)))
            }
        }
    }
}

impl Comparison {
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

/// Checks the condition of `step`. A step without one may run.
pub(super) fn verdict(state: &State, step: &Step) -> Verdict {
    let Some(condition) = &step.only_if else { return Verdict::Met };
    match state.outcomes.get(&condition.step) {
        Some(StepResult::Done { result, .. }) => condition.verdict(result),
        Some(StepResult::Skipped { .. } | StepResult::LeftOut { .. } | StepResult::Failed { .. }) | None => {
            Verdict::Unmet(format!("{}, which has no result", condition.shown(condition.step)))
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

#[test]
fn a_condition_holds_fails_or_cannot_be_told() {
    let check = |field: &str, is: Comparison, value: &str, result: &str| {
        let condition = Condition { step: 0, field: field.to_owned(), is, value: value.to_owned() };
        match condition.verdict(result) {
            Verdict::Met => "met",
            Verdict::Unmet(_) => "unmet",
            Verdict::Unknown(_) => "unknown",
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
    assert_eq!(check("left", Comparison::AtLeast, "1", stock), "unknown");
    assert_eq!(check("sku", Comparison::AtLeast, "1", stock), "unknown");
    assert_eq!(check("stock", Comparison::Contains, "0", stock), "unknown");
    assert_eq!(check("", Comparison::AtLeast, "1", " 3\n"), "met");
    assert_eq!(check("", Comparison::Contains, "free", "two rooms are free"), "met");
    assert_eq!(check("", Comparison::ContainsNot, "b", r#"["a","b"]"#), "unmet");
    assert_eq!(check("stock", Comparison::AtLeast, "1", "none left"), "unknown");
}
