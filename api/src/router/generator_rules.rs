//! Forms of the OpenAPI document that every generator of clients takes.

use serde_json::{Map, Value, json};

/// Name of the definition of the items of a list, by the prefixes of the names of lists.
const LISTS: [&str; 2] = ["Page_", "OpenAiList_"];

/// Rewrites the document: items of lists are references, variants have names, and examples of lists stand at the list.
pub(super) fn apply(document: &mut Value) {
    document["servers"] = json!([{ "url": "/", "description": "The server of this document." }]);
    if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
        refer_to_items(schemas);
        for (name, schema) in schemas.iter_mut() {
            entitle_variants(name, schema);
        }
        refer_to_variants(schemas);
    }
    move_examples(document);
}

/// Moves the items of each list to a definition of their own, and refers to it.
fn refer_to_items(schemas: &mut Map<String, Value>) {
    let mut items = Vec::new();
    for (name, schema) in schemas.iter_mut() {
        let Some(item) = LISTS.iter().find_map(|list| name.strip_prefix(list)) else { continue };
        let Some(inlined) = schema.pointer_mut("/properties/data/items") else { continue };
        if inlined.get("$ref").is_none() {
            items.push((item.to_owned(), inlined.take()));
            *inlined = json!({ "$ref": format!("#/components/schemas/{item}") });
        }
    }
    for (name, item) in items {
        schemas.entry(name).or_insert(item);
    }
}

/// Moves variants that are objects to definitions of their own: some generators read a variant twice, and make two types of it.
fn refer_to_variants(schemas: &mut Map<String, Value>) {
    let mut moved = Vec::new();
    for schema in schemas.values_mut() {
        for key in ["oneOf", "anyOf"] {
            for variant in schema.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
                let is_object = variant.get("properties").is_some();
                let Some(title) = variant["title"].as_str().filter(|_| is_object).map(str::to_owned) else {
                    continue;
                };
                let reference = json!({ "$ref": format!("#/components/schemas/{title}") });
                moved.push((title, std::mem::replace(variant, reference)));
            }
        }
    }
    for (title, variant) in moved {
        schemas.entry(title).or_insert(variant);
    }
}

/// Gives each variant without a name a title, of which generators make the name of a type.
fn entitle_variants(name: &str, schema: &mut Value) {
    for key in ["oneOf", "anyOf"] {
        let Some(Value::Array(variants)) = schema.get_mut(key) else { continue };
        for variant in variants.iter_mut().filter_map(Value::as_object_mut) {
            let is_named = variant.contains_key("$ref") || variant.get("type") == Some(&json!("null"));
            if !is_named {
                let title = format!("{name}{}", capitalized(&discriminator(variant)));
                variant.entry("title").or_insert_with(|| title.into());
            }
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (property, schema) in properties {
            entitle_variants(&format!("{name}{}", capitalized(property)), schema);
        }
    }
}

/// Returns the word that tells a variant from the others: its only value, that of a property, its only property, or its type.
fn discriminator(variant: &Map<String, Value>) -> String {
    let only_value = |schema: &Value| match schema["enum"].as_array().map(Vec::as_slice) {
        Some([Value::String(value)]) => Some(value.clone()),
        Some(_) | None => schema["const"].as_str().map(str::to_owned),
    };
    let own = only_value(&Value::Object(variant.clone()));
    let properties = variant.get("properties").and_then(Value::as_object);
    let of_property = || properties.and_then(|properties| properties.values().find_map(only_value));
    let only_property = || match properties.map(|properties| properties.keys().collect::<Vec<_>>())?[..] {
        [property] => Some(property.clone()),
        _ => None,
    };
    let kind = || variant.get("type").and_then(Value::as_str).unwrap_or("variant").to_owned();
    own.or_else(of_property).or_else(only_property).unwrap_or_else(kind)
}

/// Writes `in_doubt` as `InDoubt`.
fn capitalized(text: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>())
    };
    text.split(|letter: char| !letter.is_alphanumeric()).filter_map(word).collect()
}

/// Moves examples that are lists from the items to their list.
fn move_examples(value: &mut Value) {
    match value {
        Value::Object(schema) => {
            let examples = schema.get_mut("items").and_then(Value::as_object_mut).and_then(|items| {
                let are_lists = items.get("examples")?.as_array()?.iter().all(Value::is_array);
                are_lists.then(|| items.remove("examples"))?
            });
            schema.extend(examples.map(|examples| ("examples".to_owned(), examples)));
            schema.values_mut().for_each(move_examples);
        }
        Value::Array(values) => values.iter_mut().for_each(move_examples),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}
