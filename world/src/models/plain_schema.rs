//! A JSON Schema in the form that every endpoint takes: types, properties, items and enumerations of texts.

use serde_json::{Map, Value, json};

/// Maximum depth of a simplified schema. What is deeper may be any object.
const MAX_DEPTH: usize = 12;

/// Maximum schemas in a simplified schema: references of references grow without a bound.
const MAX_SCHEMAS: usize = 2_000;

/// Returns a schema of an object without combinations, references and other keywords that endpoints refuse.
///
/// It allows more than the schema where alternatives have different properties, and less where they have different types:
/// only the first type is left.
pub(super) fn simplified(schema: &Value) -> Value {
    let mut simple = Simplifier { root: schema, left: MAX_SCHEMAS }.schema(schema, 0);
    if simple["type"] != "object" {
        simple = json!({ "type": "object", "properties": {} });
    }
    simple
}

struct Simplifier<'a> {
    root: &'a Value,
    /// Number of schemas that may still be added.
    left: usize,
}

impl<'a> Simplifier<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Value {
        if MAX_DEPTH < depth || self.left == 0 {
            return json!({ "type": "object", "properties": {} });
        }
        self.left -= 1;
        let schema = self.resolved(schema);
        let options = self.parts(schema, &["allOf", "anyOf", "oneOf"]);
        let kind = kind(schema).or_else(|| options.iter().find_map(|option| kind(option)));
        let kind = kind.unwrap_or(if depth == 0 { "object" } else { "string" });
        let mut simple = Map::new();
        simple.insert("type".to_owned(), kind.into());
        if let Some(text) = schema["description"].as_str() {
            simple.insert("description".to_owned(), text.into());
        }
        match kind {
            "object" => self.add_properties(&mut simple, schema, &options, depth),
            "array" => {
                let sources = || [schema].into_iter().chain(options.iter().copied());
                let items =
                    sources().find_map(|source| source.get("items").filter(|items| items.is_object()));
                let items = items.or_else(|| sources().find_map(|source| source["prefixItems"].get(0)));
                let items = self.schema(items.unwrap_or(&Value::Null), depth + 1);
                simple.insert("items".to_owned(), items);
            }
            "string" => {
                let choices = [schema].into_iter().chain(options.iter().copied()).find_map(choices);
                simple.extend(choices.map(|choices| ("enum".to_owned(), choices)));
            }
            _ => (),
        }
        Value::Object(simple)
    }

    /// Adds the properties of the schema and of all its alternatives. Only its own are required.
    fn add_properties(
        &mut self,
        simple: &mut Map<String, Value>,
        schema: &'a Value,
        options: &[&'a Value],
        depth: usize,
    ) {
        let mut properties = Map::new();
        for source in [schema].into_iter().chain(options.iter().copied()) {
            for (name, property) in source["properties"].as_object().into_iter().flatten() {
                if !properties.contains_key(name) {
                    let property = self.schema(property, depth + 1);
                    properties.insert(name.clone(), property);
                }
            }
        }
        let all = [schema].into_iter().chain(self.parts(schema, &["allOf"]));
        let required = all.flat_map(|source| source["required"].as_array().into_iter().flatten());
        let mut names: Vec<Value> = required
            .filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name)))
            .cloned()
            .collect();
        names.dedup();
        simple.insert("properties".to_owned(), Value::Object(properties));
        if !names.is_empty() {
            simple.insert("required".to_owned(), names.into());
        }
    }

    /// Follows references within the document, up to [`MAX_DEPTH`].
    fn resolved(&self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..MAX_DEPTH {
            let target = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
            let Some(found) = target.and_then(|path| self.root.pointer(path)) else { break };
            schema = found;
        }
        schema
    }

    fn parts(&self, schema: &'a Value, words: &[&str]) -> Vec<&'a Value> {
        let parts = words.iter().flat_map(|word| schema[*word].as_array().into_iter().flatten());
        parts.map(|part| self.resolved(part)).collect()
    }
}

/// Returns the type of a schema: the first that is not null, or the one that its keywords imply.
fn kind(schema: &Value) -> Option<&'static str> {
    let named = match &schema["type"] {
        Value::String(kind) => known(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find_map(known),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    };
    let of_value = |value: &Value| match value {
        Value::Null => None,
        Value::Bool(_) => Some("boolean"),
        Value::Number(_) => Some("number"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
        Value::Object(_) => Some("object"),
    };
    let has = |word: &str| schema.get(word).is_some();
    named
        .or_else(|| has("properties").then_some("object"))
        .or_else(|| (has("items") || has("prefixItems")).then_some("array"))
        .or_else(|| of_value(&schema["const"]))
        .or_else(|| schema["enum"].as_array().and_then(|values| values.iter().find_map(of_value)))
}

fn known(kind: &str) -> Option<&'static str> {
    ["object", "array", "string", "integer", "number", "boolean"].into_iter().find(|known| *known == kind)
}

/// Returns the values that a text may have, if they are given and all are texts.
fn choices(schema: &Value) -> Option<Value> {
    if let Some(only) = schema["const"].as_str() {
        return Some(json!([only]));
    }
    let values = schema["enum"].as_array()?;
    let texts: Vec<&Value> =
        values.iter().filter(|value| value.as_str().is_some_and(|text| !text.is_empty())).collect();
    let others = values.iter().any(|value| !value.is_string() && !value.is_null());
    (!texts.is_empty() && !others).then(|| json!(texts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_becomes_types_properties_items_and_enumerations() {
        for (schema, simple) in [
            (Value::Null, json!({"type": "object", "properties": {}})),
            (json!({"type": "string"}), json!({"type": "object", "properties": {}})),
            (
                json!({"$schema": "x", "type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a", "b"], "additionalProperties": false}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}),
            ),
            (
                json!({"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {"const": "x"}}}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "enum": ["x"]}}}),
            ),
            (
                json!({"properties": {"list": {"type": "array"}, "pairs": {"prefixItems": [{"type": "integer"}, {}]}, "maybe": {"type": ["null", "number"], "description": "d"}, "any": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}}}),
                json!({"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string"}}, "pairs": {"type": "array", "items": {"type": "integer"}}, "maybe": {"type": "number", "description": "d"}, "any": {"type": "boolean"}}}),
            ),
            (
                json!({"$ref": "#/$defs/p", "$defs": {"p": {"type": "object", "properties": {"c": {"$ref": "#/$defs/c"}}}, "c": {"enum": ["r", "g", null]}}}),
                json!({"type": "object", "properties": {"c": {"type": "string", "enum": ["r", "g"]}}}),
            ),
        ] {
            assert_eq!(simplified(&schema), simple, "{schema}");
            assert_eq!(simplified(&simple), simple, "a simple schema stays as it is");
        }
    }

    #[test]
    fn references_without_an_end_are_cut_off() {
        let node = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}, "c": {"$ref": "#/missing"}}});
        let text = simplified(&node).to_string();
        assert!(text.len() < 200_000, "{}", text.len());
        let endless = json!({"$ref": "#"});
        assert_eq!(simplified(&endless), json!({"type": "object", "properties": {}}));
    }
}
