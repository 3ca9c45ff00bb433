//! Arguments of a call, checked against the JSON Schema of its tool before a person is asked to approve them.
//!
//! ## Why not the whole of JSON Schema
//!
//! A validator of all of it draws random numbers, which the core must not. The worker has one and checks every call
//! again before it is sent, so what is not checked here (`pattern`, `format`, conditions, references) is refused there,
//! and the corrected payload is shown again.

use serde_json::{Map, Value};

/// Maximum number of problems in a description. A model corrects a few at a time.
const PROBLEMS_MAX: usize = 5;

/// Maximum depth of nested schemas that are checked.
const DEPTH_MAX: usize = 32;

/// Returns the reasons that `arguments` do not fit `schema`, or `None` if none was found.
pub fn mismatch(schema: &Value, arguments: &Map<String, Value>) -> Option<String> {
    let mut problems = Vec::new();
    check_object(schema, arguments, "", 0, &mut problems);
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    let tail = if more == 0 { String::new() } else { format!("; and {more} more") };
    problems.truncate(PROBLEMS_MAX);
    (!problems.is_empty()).then(|| format!("{}{tail}", problems.join("; ")))
}

fn check(schema: &Value, value: &Value, path: &str, depth: usize, problems: &mut Vec<String>) {
    if DEPTH_MAX < depth {
        return;
    }
    let at = if path.is_empty() { "the payload" } else { path };
    if !has_type(schema, value) {
        return problems.push(format!("{at} must be {}", types(schema).join(" or ")));
    }
    if let Some(choices) =
        schema["enum"].as_array().filter(|choices| !choices.iter().any(|one| is_equal(one, value)))
    {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        problems.push(format!("{at} must be one of {}", choices.join(", ")));
    }
    if let Some(only) = schema.get("const").filter(|constant| !is_equal(constant, value)) {
        problems.push(format!("{at} must be {only}"));
    }
    let any = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema[keyword].as_array());
    if any.into_iter().any(|options| !options.iter().any(|one| fits(one, value, depth + 1))) {
        problems.push(format!("{at} fits none of the alternatives of its schema"));
    }
    for one in schema["allOf"].as_array().into_iter().flatten() {
        check(one, value, path, depth + 1, problems);
    }
    problems.extend(size_mismatch(schema, value).map(|why| format!("{at} {why}")));
    match value {
        Value::Object(fields) => check_object(schema, fields, path, depth, problems),
        Value::Array(items) => {
            let Some(item) = schema.get("items").filter(|item| item.is_object()) else { return };
            for (nth, element) in items.iter().enumerate() {
                check(item, element, &format!("{path}[{nth}]"), depth + 1, problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

fn check_object(
    schema: &Value,
    fields: &Map<String, Value>,
    path: &str,
    depth: usize,
    problems: &mut Vec<String>,
) {
    let place = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            problems.push(format!("{} is missing", place(name)));
        }
    }
    let known = schema["properties"].as_object();
    let is_closed = schema["additionalProperties"] == false && schema.get("patternProperties").is_none();
    for (name, value) in fields {
        match (known.and_then(|properties| properties.get(name)), &schema["additionalProperties"]) {
            (Some(own), _) => check(own, value, &place(name), depth + 1, problems),
            (None, _) if is_closed => problems.push(format!("{} is not a parameter", place(name))),
            (None, other @ Value::Object(_)) => check(other, value, &place(name), depth + 1, problems),
            (None, _) => (),
        }
    }
}

/// Returns the bound that a value exceeds, if it exceeds one.
pub(crate) fn size_mismatch(schema: &Value, value: &Value) -> Option<String> {
    let (size, least, most, unit) = match value {
        Value::Number(it) => (it.as_f64(), "minimum", "maximum", ""),
        Value::String(it) => (Some(it.chars().count() as f64), "minLength", "maxLength", " characters"),
        Value::Array(it) => (Some(it.len() as f64), "minItems", "maxItems", " values"),
        Value::Object(it) => (Some(it.len() as f64), "minProperties", "maxProperties", " fields"),
        Value::Null | Value::Bool(_) => return None,
    };
    let size = size?;
    let least = schema[least].as_f64().filter(|least| size < *least);
    let most = schema[most].as_f64().filter(|most| *most < size);
    let too_small = least.map(|least| format!("must be at least {least}{unit}"));
    too_small.or_else(|| most.map(|most| format!("must be at most {most}{unit}")))
}

fn fits(schema: &Value, value: &Value, depth: usize) -> bool {
    let mut problems = Vec::new();
    check(schema, value, "", depth, &mut problems);
    problems.is_empty()
}

/// Returns the types that a schema allows. Empty means any.
pub(crate) fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

pub(crate) fn has_type(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    let is = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    types.is_empty() || types.iter().any(is)
}

/// Returns whether two values are equal as JSON Schema counts: 1 and 1.0 are.
pub(crate) fn is_equal(one: &Value, other: &Value) -> bool {
    one == other || one.is_number() && other.is_number() && one.as_f64() == other.as_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(schema: Value, arguments: Value) -> String {
        mismatch(&schema, arguments.as_object().unwrap()).unwrap_or_default()
    }

    #[test]
    fn invalid_arguments_are_named_with_their_path() {
        let schema = json!({
            "type": "object",
            "properties": {
                "day": {"type": "string", "minLength": 1, "maxLength": 3},
                "hour": {"type": "integer", "minimum": 0, "maximum": 23},
                "kind": {"enum": ["a", "b", 1]},
                "who": {"type": "array", "items": {"type": "object", "required": ["name"]}, "minItems": 1, "maxItems": 2},
                "note": {"type": ["string", "null"]},
                "size": {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 2}]},
                "fix": {"const": 7},
                "both": {"allOf": [{"minimum": 1}, {"maximum": 2}]},
            },
            "required": ["day"],
            "additionalProperties": false,
        });
        let fits = json!({"day": "Fri", "hour": 23, "kind": 1.0, "who": [{"name": "Ann"}, {"name": 1}], "note": null,
            "size": "XL", "fix": 7, "both": 2});
        assert_eq!(told(schema.clone(), fits), "");
        for (arguments, why) in [
            (json!({}), "day is missing"),
            (json!({"day": 5}), "day must be string"),
            (json!({"day": ""}), "day must be at least 1 characters"),
            (json!({"day": "Frid"}), "day must be at most 3 characters"),
            (json!({"day": "F", "hour": 24}), "hour must be at most 23"),
            (json!({"day": "F", "hour": -1}), "hour must be at least 0"),
            (json!({"day": "F", "hour": 1.5}), "hour must be integer"),
            (json!({"day": "F", "hour": "1"}), "hour must be integer"),
            (json!({"day": "F", "kind": "c"}), "kind must be one of \"a\", \"b\", 1"),
            (json!({"day": "F", "who": [{}]}), "who[0].name is missing"),
            (json!({"day": "F", "who": []}), "who must be at least 1 values"),
            (json!({"day": "F", "who": {}}), "who must be array"),
            (json!({"day": "F", "note": 1}), "note must be string or null"),
            (json!({"day": "F", "size": "X"}), "size fits none of the alternatives of its schema"),
            (json!({"day": "F", "fix": 8}), "fix must be 7"),
            (json!({"day": "F", "both": 3}), "both must be at most 2"),
            (json!({"day": "F", "hidden": 1}), "hidden is not a parameter"),
        ] {
            assert_eq!(told(schema.clone(), arguments), why);
        }
    }

    #[test]
    fn additional_fields_are_checked_by_their_schema() {
        let map = json!({"additionalProperties": {"type": "boolean"}});
        assert_eq!(told(map.clone(), json!({"a": true})), "");
        assert_eq!(told(map, json!({"a": 1})), "a must be boolean");
        assert_eq!(told(Value::Null, json!({"a": 1})), "");
        assert_eq!(
            told(json!({"additionalProperties": false, "patternProperties": {"^a": {}}}), json!({"a": 1})),
            ""
        );
        let many = json!({"additionalProperties": false});
        let six = json!({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1});
        assert!(told(many, six).ends_with("e is not a parameter; and 1 more"));
    }

    #[test]
    fn a_recursive_schema_is_followed_to_a_limit() {
        let (mut schema, mut value) = (json!({"type": "string"}), json!(1));
        for _ in 0..100 {
            schema = json!({"properties": {"a": schema}});
            value = json!({"a": value});
        }
        assert_eq!(told(schema, value), "");
    }
}
