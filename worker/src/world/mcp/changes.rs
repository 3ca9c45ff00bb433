//! What became of a server's tools: a pure comparison, in words that a person can judge.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;
use shared::Tool;

use crate::world::cut;

/// How much of a name is shown, in characters: whoever changes its tools may not fill a screen.
const NAME_MAX: usize = 80;

/// What became of one tool. A tool that was renamed is gone, and another one is new.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is new.
    Added(Tool),
    /// It is gone.
    Removed(Tool),
    /// It is not what it was.
    Changed {
        /// Which.
        tool: String,
        /// What of it, by place.
        places: Vec<Place>,
    },
}

/// A place in a tool's definition where it is not what it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Where, as in `description` or `parameters.properties.day.type`.
    pub path: String,
    /// What was there.
    pub before: Option<Value>,
    /// What is there now.
    pub after: Option<Value>,
}

/// What became of the tools `before`, by name. Their order means nothing.
pub fn changes(before: &[Tool], after: &[Tool]) -> Vec<Change> {
    let by_name = |tools: &[Tool]| -> BTreeMap<String, Tool> {
        tools.iter().map(|it| (it.name.clone(), it.clone())).collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let change = |name: &String| match (before.get(name), after.get(name)) {
        (None, Some(it)) => Some(Change::Added(it.clone())),
        (Some(it), None) => Some(Change::Removed(it.clone())),
        (Some(before), Some(after)) => {
            let places = places(before, after);
            (!places.is_empty()).then(|| Change::Changed { tool: name.clone(), places })
        }
        (None, None) => None,
    };
    names.into_iter().filter_map(change).collect()
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Added(it) => write!(f, "{} is new", shown(&it.name)),
            Change::Removed(it) => write!(f, "{} is gone", shown(&it.name)),
            Change::Changed { tool, places } => {
                let paths: Vec<String> = places.iter().map(|it| shown(&it.path)).collect();
                write!(f, "{} is changed ({})", shown(tool), named(&paths))
            }
        }
    }
}

/// How many things are named one by one.
const NAMED_MAX: usize = 8;

/// These words, the first few of them one by one.
pub(super) fn named(words: &[String]) -> String {
    let first = words[..words.len().min(NAMED_MAX)].join(", ");
    match words.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// A name of the server's choosing: it may hold what moves a terminal's cursor.
fn shown(name: &str) -> String {
    cut(&name.escape_debug().to_string(), NAME_MAX)
}

fn places(before: &Tool, after: &Tool) -> Vec<Place> {
    let mut places = Vec::new();
    let mut compare = |path: &str, before: &Value, after: &Value| {
        descend(path, Some(before), Some(after), &mut places);
    };
    compare("description", &before.description.as_str().into(), &after.description.as_str().into());
    compare("parameters", &before.parameters, &after.parameters);
    let safety = |it: &Tool| format!("{:?}", it.safety).to_lowercase().into();
    compare("safety", &safety(before), &safety(after));
    places
}

/// Goes down where both are objects: a list is one thing.
fn descend(path: &str, before: Option<&Value>, after: Option<&Value>, places: &mut Vec<Place>) {
    if before == after {
        return;
    }
    let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after) else {
        let (path, before, after) = (path.to_owned(), before.cloned(), after.cloned());
        places.push(Place { path, before, after });
        return;
    };
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        descend(&format!("{path}.{key}"), old.get(key), new.get(key), places);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::Safety;

    use super::*;

    fn tool(name: &str, parameters: Value) -> Tool {
        Tool { name: name.into(), description: "books".into(), parameters, safety: Safety::Write }
    }

    fn said(before: &[Tool], after: &[Tool]) -> Vec<String> {
        changes(before, after).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn order_is_no_change() {
        let (a, b) = (tool("a", json!({"x": 1, "y": 2})), tool("b", json!(null)));
        assert_eq!(changes(&[a.clone(), b.clone()], &[b, a]), []);
    }

    #[test]
    fn a_renamed_tool_is_gone_and_another_is_new() {
        let (old, new) = (tool("look", json!({})), tool("peek", json!({})));
        assert_eq!(changes(&[], std::slice::from_ref(&new)), [Change::Added(new.clone())]);
        assert_eq!(changes(std::slice::from_ref(&new), &[]), [Change::Removed(new.clone())]);
        assert_eq!(said(&[old], &[new]), ["look is gone", "peek is new"]);
    }

    #[test]
    fn a_change_is_named_by_its_place() {
        let old = tool(
            "book",
            json!({"type": "object", "required": ["day"], "properties": {"day": {"type": "string"}}}),
        );
        let mut new = old.clone();
        new.description = "books, and tells me".into();
        assert_eq!(said(std::slice::from_ref(&old), &[new.clone()]), ["book is changed (description)"]);
        new.description.clone_from(&old.description);
        new.safety = Safety::Read;
        let places =
            vec![Place { path: "safety".into(), before: Some("write".into()), after: Some("read".into()) }];
        assert_eq!(
            changes(std::slice::from_ref(&old), &[new.clone()]),
            [Change::Changed { tool: "book".into(), places }]
        );
        new.safety = old.safety;
        new.parameters = json!({"type": "object", "required": ["day", "bcc"],
            "properties": {"day": {"type": "integer"}, "bcc": {"type": "string"}}});
        assert_eq!(
            said(&[old], &[new]),
            [
                "book is changed (parameters.properties.bcc, parameters.properties.day.type, parameters.required)"
            ]
        );
    }

    #[test]
    fn names_are_short_and_few_and_move_no_cursor() {
        let odd = tool(&format!("\u{1b}[2J{}", "x".repeat(500)), json!({}));
        let words = said(&[], &[odd]);
        assert!(words[0].starts_with(r"\u{1b}[2Jxx") && words[0].len() < 100, "{words:?}");
        let many: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        assert_eq!(named(&many), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
