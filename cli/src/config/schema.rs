//! The schema of the configuration, of its sections and of the strategies, and suggestions for unknown keys.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use shared::Graph;

use super::{format::Format, key::join, node_prompts};

/// The JSON Schema of the configuration, with all references inlined.
pub(super) struct Schema(Json);

/// The part of the schema that describes one key.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a>(&'a Json);

/// Maximum depth of inlining. Below it everything is accepted, so that recursive schemas terminate.
const DEPTH_MAX: usize = 16;

static ANYTHING: Json = Json::Bool(true);

impl Schema {
    /// Combines the schema of the settings with those of the strategies.
    pub(super) fn new(settings: &Json, strategies: &[&'static dyn Graph]) -> Self {
        let mut schema = inlined(settings, settings, 0);
        let of_strategy = |graph: &&dyn Graph| {
            let mut schema = graph.config_schema();
            node_prompts::add_to_schema(&mut schema);
            (graph.name().to_owned(), inlined(&schema, &schema, 0))
        };
        let sections: serde_json::Map<_, _> = strategies.iter().map(of_strategy).collect();
        let sections = json!({"type": "object", "properties": sections, "additionalProperties": false});
        schema["properties"]["tenants"]["additionalProperties"]["properties"]["config"] = sections.clone();
        schema["properties"]["strategies"] = sections;
        Self(schema)
    }

    pub(super) fn root(&self) -> Shape<'_> {
        Shape(&self.0)
    }

    /// Every key. `*` stands for a name that a person chooses.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        self.root().collect_keys("", &mut keys);
        keys
    }

    /// Suggests a replacement for the unknown `name` in `section` (empty at the top level).
    pub(super) fn hint(&self, section: &str, shape: Shape<'_>, name: &str) -> String {
        let names = shape.names();
        let far = |known: &&String| strsim::damerau_levenshtein(known, name);
        if let Some(near) = names.iter().min_by_key(far).filter(|near| far(near) <= 1 + name.len() / 5) {
            return format!("did you mean {}?", join(section, near));
        }
        let keys = self.keys();
        if let Some(elsewhere) = keys.iter().find(|path| path.rsplit('.').next() == Some(name)) {
            return format!("did you mean {}?", elsewhere.replace('*', "NAME"));
        }
        if names.is_empty() {
            "this section has no keys".to_owned()
        } else {
            format!("available keys: {}", names.join(", "))
        }
    }
}

impl<'a> Shape<'a> {
    /// The schema of the key `name` within this section. `None` if the key does not exist.
    pub(super) fn child(self, name: &str) -> Option<Shape<'a>> {
        if let Some(known) = self.0.get("properties").and_then(|properties| properties.get(name)) {
            return Some(Shape(known));
        }
        match self.0.get("additionalProperties") {
            Some(Json::Bool(false)) => None,
            Some(shape) => Some(Shape(shape)),
            None => Some(Shape(&ANYTHING)),
        }
    }

    /// The schema of the items of this list.
    pub(super) fn items(self) -> Shape<'a> {
        Shape(self.0.get("items").unwrap_or(&ANYTHING))
    }

    /// The JSON Schema types that are allowed. Empty means any.
    pub(super) fn types(self) -> Vec<&'a str> {
        match self.0.get("type") {
            Some(Json::String(one)) => vec![one],
            Some(Json::Array(some)) => some.iter().filter_map(Json::as_str).collect(),
            Some(_) | None if self.choices().is_empty() => vec![],
            Some(_) | None => vec!["string"],
        }
    }

    /// The strings that are allowed. Empty means any.
    pub(super) fn choices(self) -> Vec<&'a str> {
        let list = |key| self.0.get(key).and_then(Json::as_array).into_iter().flatten();
        let constants = list("oneOf").filter_map(|choice| choice.get("const")?.as_str());
        list("enum").filter_map(Json::as_str).chain(constants).collect()
    }

    /// Minimum and maximum of a number.
    pub(super) fn limits(self) -> (Option<f64>, Option<f64>) {
        let limit = |key| self.0.get(key).and_then(Json::as_f64);
        (limit("minimum"), limit("maximum"))
    }

    pub(super) fn format(self) -> Option<Format> {
        let name = self.0.get("format")?.as_str()?;
        [Format::Secret, Format::MaybeSecret, Format::Address]
            .into_iter()
            .find(|format| format.name() == name)
    }

    fn names(self) -> Vec<String> {
        let properties = self.0.get("properties").and_then(Json::as_object);
        properties.into_iter().flat_map(|properties| properties.keys().cloned()).collect()
    }

    /// True if the keys below have fixed names.
    fn is_section(self) -> bool {
        let each = self.0.get("additionalProperties").map(Shape);
        !self.names().is_empty() || each.is_some_and(Shape::is_section)
    }

    fn collect_keys(self, key: &str, keys: &mut BTreeSet<String>) {
        let names = self.names();
        for name in &names {
            Shape(&self.0["properties"][name]).collect_keys(&join(key, name), keys);
        }
        match self.0.get("additionalProperties").map(Shape) {
            Some(each) if each.is_section() => each.collect_keys(&format!("{key}.*"), keys),
            Some(_) | None if names.is_empty() => drop(keys.insert(key.to_owned())),
            Some(_) | None => {}
        }
    }
}

impl Default for Shape<'_> {
    fn default() -> Self {
        Self(&ANYTHING)
    }
}

/// Inlines all references and removes "or null": an absent key means null.
fn inlined(root: &Json, node: &Json, depth: usize) -> Json {
    if depth > DEPTH_MAX {
        return ANYTHING.clone();
    }
    let below = |value: &Json| inlined(root, value, depth + 1);
    if let Json::Array(items) = node {
        return items.iter().map(below).collect();
    }
    let Json::Object(object) = node else {
        return node.clone();
    };
    if let Some(target) = object.get("$ref").and_then(Json::as_str) {
        return root.pointer(target.trim_start_matches('#')).map_or(ANYTHING.clone(), below);
    }
    if let Some(some) = object.get("anyOf").and_then(Json::as_array) {
        let mut kinds = some.iter().filter(|kind| kind["type"] != "null");
        if let (Some(only), None) = (kinds.next(), kinds.next()) {
            return below(only);
        }
    }
    object.iter().filter(|(key, _)| *key != "$defs").map(|(key, value)| (key.clone(), below(value))).collect()
}
