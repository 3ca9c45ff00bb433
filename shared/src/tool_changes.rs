//! Compares two versions of a server's tools: a pure diff, in words for a person.
//!
//! Schemas are compared by their meaning: some servers list what is a set to them in another order at every start.

use std::{collections::BTreeMap, fmt};

use serde_json::{Value, json};

use crate::{Tool, visible_start};

/// Maximum characters shown of a name, so that a server cannot fill the screen.
const MAX_NAME_CHARS: usize = 80;

/// Change of one tool. A renamed tool is removed and added.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolChange {
    /// The tool is new.
    Added(Tool),
    /// The tool no longer exists.
    Removed(Tool),
    /// The definition changed.
    Changed {
        /// Name of the tool.
        tool: String,
        /// Changed fields, by path.
        fields: Vec<FieldChange>,
    },
}

/// A changed field of a tool's definition.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Path, such as `description` or `parameters.properties.day.type`.
    pub path: String,
    /// Previous value; `None` if the field is new.
    pub before: Option<Value>,
    /// Current value; `None` if the field was removed.
    pub after: Option<Value>,
}

/// Compares tools by name; their order is irrelevant.
pub fn diff_tools(before: &[Tool], after: &[Tool]) -> Vec<ToolChange> {
    let by_name = |tools: &[Tool]| -> BTreeMap<String, Tool> {
        tools.iter().map(|tool| (tool.name.clone(), tool.clone())).collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let change = |name: &String| match (before.get(name), after.get(name)) {
        (None, Some(tool)) => Some(ToolChange::Added(tool.clone())),
        (Some(tool), None) => Some(ToolChange::Removed(tool.clone())),
        (Some(before), Some(after)) => {
            let fields = changed_fields(before, after);
            (!fields.is_empty()).then(|| ToolChange::Changed { tool: name.clone(), fields })
        }
        (None, None) => None,
    };
    names.into_iter().filter_map(change).collect()
}

impl fmt::Display for ToolChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolChange::Added(tool) => write!(f, "{} is new", escape(&tool.name)),
            ToolChange::Removed(tool) => write!(f, "{} is gone", escape(&tool.name)),
            ToolChange::Changed { tool, fields } => {
                let paths: Vec<String> = fields.iter().map(|field| escape(&field.path)).collect();
                write!(f, "{} is changed ({})", escape(tool), join_few(&paths))
            }
        }
    }
}

/// Maximum items named one by one.
const MAX_ITEMS: usize = 8;

/// Joins the first items and counts the rest.
pub fn join_few(items: &[String]) -> String {
    let first = items[..items.len().min(MAX_ITEMS)].join(", ");
    match items.len().saturating_sub(MAX_ITEMS) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Escapes a name chosen by the server, which may contain terminal control characters.
fn escape(name: &str) -> String {
    visible_start(name, MAX_NAME_CHARS)
}

fn changed_fields(before: &Tool, after: &Tool) -> Vec<FieldChange> {
    let mut fields = Vec::new();
    let mut compare = |path: &str, before: &Value, after: &Value| {
        compare_values(path, Some(before), Some(after), &mut fields);
    };
    compare("description", &before.description.as_str().into(), &after.description.as_str().into());
    compare("parameters", &canonical(&before.parameters), &canonical(&after.parameters));
    let safety = |tool: &Tool| format!("{:?}", tool.safety).to_lowercase().into();
    compare("safety", &safety(before), &safety(after));
    compare("max_repeats", &before.max_repeats.into(), &after.max_repeats.into());
    compare("read_back", &json!(before.read_back), &json!(after.read_back));
    fields
}

/// Returns a schema with its sets in one order: `required`, `enum`, lists of types and alternatives, and defaults that are lists, or
/// texts of parts between commas.
fn canonical(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), canonical_field(key, value)))
            .collect::<BTreeMap<_, _>>()
            .into_iter()
            .collect(),
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

fn canonical_field(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("required" | "enum" | "type" | "anyOf" | "oneOf" | "allOf" | "default", Value::Array(items)) => {
            let mut items: Vec<Value> = items.iter().map(canonical).collect();
            items.sort_by_cached_key(Value::to_string);
            items.into()
        }
        ("default", Value::String(text)) if text.contains(',') => {
            let mut parts: Vec<&str> = text.split(',').map(str::trim).collect();
            parts.sort_unstable();
            parts.join(",").into()
        }
        _ => canonical(value),
    }
}

/// Recurses where both values are objects; a list is compared as a whole.
fn compare_values(path: &str, before: Option<&Value>, after: Option<&Value>, fields: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after) else {
        let (path, before, after) = (path.to_owned(), before.cloned(), after.cloned());
        fields.push(FieldChange { path, before, after });
        return;
    };
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        compare_values(&format!("{path}.{key}"), old.get(key), new.get(key), fields);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Safety;

    fn tool(name: &str, parameters: Value) -> Tool {
        Tool {
            name: name.into(),
            description: "books".into(),
            parameters,
            safety: Safety::Write,
            max_repeats: None,
            read_back: None,
        }
    }

    fn rendered(before: &[Tool], after: &[Tool]) -> Vec<String> {
        diff_tools(before, after).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn order_is_irrelevant() {
        let (a, b) = (tool("a", json!({"x": 1, "y": 2})), tool("b", json!(null)));
        assert_eq!(diff_tools(&[a.clone(), b.clone()], &[b, a]), []);
    }

    #[test]
    fn sets_are_compared_by_their_meaning() {
        let schema = |required: [&str; 2], kinds: [&str; 2], default: &str| {
            json!({ "required": required, "anyOf": [{ "type": kinds }, { "enum": required }],
                "properties": { "fields": { "default": default }, "days": { "default": kinds } } })
        };
        let old = tool("search", schema(["a", "b"], ["string", "null"], "summary,status, key"));
        let same = tool("search", schema(["b", "a"], ["null", "string"], "key,summary,status"));
        assert_eq!(diff_tools(std::slice::from_ref(&old), &[same]), []);
        let other = tool("search", schema(["a", "b"], ["string", "null"], "summary,status,token"));
        assert_eq!(rendered(&[old], &[other]), ["search is changed (parameters.properties.fields.default)"]);
        let list = |items: [i32; 2]| tool("search", json!({ "prefixItems": items, "examples": [items] }));
        assert_eq!(rendered(&[list([1, 2])], &[list([2, 1])]).len(), 1, "the order of other lists counts");
    }

    #[test]
    fn a_renamed_tool_is_removed_and_added() {
        let (old, new) = (tool("look", json!({})), tool("peek", json!({})));
        assert_eq!(diff_tools(&[], std::slice::from_ref(&new)), [ToolChange::Added(new.clone())]);
        assert_eq!(diff_tools(std::slice::from_ref(&new), &[]), [ToolChange::Removed(new.clone())]);
        assert_eq!(rendered(&[old], &[new]), ["look is gone", "peek is new"]);
    }

    #[test]
    fn a_change_is_named_by_its_path() {
        let old = tool(
            "book",
            json!({"type": "object", "required": ["day"], "properties": {"day": {"type": "string"}}}),
        );
        let mut new = old.clone();
        new.description = "books, and tells me".into();
        assert_eq!(rendered(std::slice::from_ref(&old), &[new.clone()]), ["book is changed (description)"]);
        new.description.clone_from(&old.description);
        new.safety = Safety::Read;
        let fields = vec![FieldChange {
            path: "safety".into(),
            before: Some("write".into()),
            after: Some("read".into()),
        }];
        assert_eq!(
            diff_tools(std::slice::from_ref(&old), &[new.clone()]),
            [ToolChange::Changed { tool: "book".into(), fields }]
        );
        new.safety = old.safety;
        new.parameters = json!({"type": "object", "required": ["day", "bcc"],
            "properties": {"day": {"type": "integer"}, "bcc": {"type": "string"}}});
        assert_eq!(
            rendered(&[old], &[new]),
            [
                "book is changed (parameters.properties.bcc, parameters.properties.day.type, parameters.required)"
            ]
        );
    }

    #[test]
    fn names_are_short_and_few_and_without_control_characters() {
        let odd = tool(&format!("\u{1b}[2J{}", "x".repeat(500)), json!({}));
        let words = rendered(&[], &[odd]);
        assert!(words[0].starts_with(r"\u001b[2Jxx") && words[0].len() < 100, "{words:?}");
        let many: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        assert_eq!(join_few(&many), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
