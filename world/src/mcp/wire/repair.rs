//! Repairs a result: one malformed item costs that item, or only the field that is malformed, and is named.

use rmcp::model::{
    ContentBlock, Implementation, Prompt, PromptMessage, Resource, ResourceContents, ResourceTemplate,
    ServerCapabilities, Tool,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{super::notices, blocks};
use crate::text::truncate;

/// Fields that an item can lose. What they say is for display, or a hint.
const OPTIONAL: [&str; 11] = [
    "annotations",
    "icons",
    "_meta",
    "outputSchema",
    "title",
    "execution",
    "description",
    "mimeType",
    "size",
    "arguments",
    "structuredContent",
];

/// Maximum characters of a name or a cause in a message.
const MAX_CHARS: usize = 200;

/// Maximum characters of a server's instructions.
const MAX_INSTRUCTIONS_CHARS: usize = 1 << 16;

/// Protocol of a server that does not name one.
const UNNAMED_PROTOCOL: &str = "2025-03-26";

/// Repairs the known parts of a result in place, and returns what was left out or changed.
pub(super) fn repair(result: &mut Value) -> Vec<String> {
    unwrap_tool_result(result);
    let Value::Object(result) = result else { return Vec::new() };
    let mut problems = Vec::new();
    if result.contains_key("protocolVersion") || result.contains_key("serverInfo") {
        problems.extend(handshake(result));
    }
    problems.extend(leave_out_tasks(result));
    problems.extend(list::<Tool>(result, "tools", "tool"));
    problems.extend(list::<Prompt>(result, "prompts", "prompt"));
    problems.extend(list::<Resource>(result, "resources", "resource"));
    problems.extend(list::<ResourceTemplate>(result, "resourceTemplates", "resource template"));
    if let Some(Value::Array(contents)) = result.get_mut("contents") {
        contents.iter_mut().for_each(blocks::normalise_resource);
    }
    problems.extend(list::<ResourceContents>(result, "contents", "content"));
    problems.extend(list::<PromptMessage>(result, "messages", "message"));
    problems.extend(content(result));
    problems.extend(drop_malformed::<Map<String, Value>>(result, "_meta"));
    problems.extend(drop_malformed::<String>(result, "nextCursor"));
    problems.extend(drop_malformed::<bool>(result, "isError"));
    problems.extend(drop_malformed::<u64>(result, "ttlMs"));
    problems
}

/// Takes the result of a call out of `toolResult`, where the first version of the protocol had it.
fn unwrap_tool_result(result: &mut Value) {
    let Value::Object(fields) = result else { return };
    if fields.contains_key("content") || fields.contains_key("structuredContent") {
        return;
    }
    match fields.remove("toolResult") {
        Some(Value::Object(inner)) if inner.contains_key("content") => fields.extend(inner),
        Some(Value::String(text)) => drop(fields.insert("content".to_owned(), text.into())),
        Some(other) => drop(fields.insert("structuredContent".to_owned(), other)),
        None => (),
    }
}

/// Logs repairs, once a minute for a server.
pub(super) fn report(server: &str, problems: &[String]) {
    let Some(first) = problems.first() else { return };
    if notices::is_due(server, "malformed") {
        let more = problems.len() - 1;
        tracing::warn!(server, more, "a part of an answer of an MCP server is malformed: {first}");
    }
}

/// Removes the tools that can be called only as tasks of protocol 2025-11-25, which are not supported: each call would fail.
fn leave_out_tasks(result: &mut Map<String, Value>) -> Vec<String> {
    let Some(Value::Array(tools)) = result.get_mut("tools") else { return Vec::new() };
    let mut problems = Vec::new();
    let mut nth = 0;
    tools.retain(|tool| {
        nth += 1;
        let requires = tool["execution"]["taskSupport"] == "required";
        if requires {
            problems.push(format!(
                "{} is left out: it can be called only as a task of protocol 2025-11-25",
                name("tool", nth, tool)
            ));
        }
        !requires
    });
    problems
}

/// Repairs the items of a list, and removes those that stay malformed.
fn list<T: DeserializeOwned>(result: &mut Map<String, Value>, key: &str, kind: &str) -> Vec<String> {
    let Some(Value::Array(items)) = result.get_mut(key) else { return Vec::new() };
    let mut problems = Vec::new();
    let mut nth = 0;
    items.retain_mut(|item| {
        nth += 1;
        match repair_item::<T>(item) {
            Ok(lost) => {
                problems.extend(lost.map(|lost| format!("{} loses {lost}", name(kind, nth, item))));
                true
            }
            Err(why) => {
                problems.push(format!("{} is left out: {why}", name(kind, nth, item)));
                false
            }
        }
    });
    problems
}

/// Repairs the blocks of a tool's result. A block that stays malformed is replaced by a text that says so.
fn content(result: &mut Map<String, Value>) -> Vec<String> {
    let Some(content) = result.get_mut("content") else { return Vec::new() };
    match content {
        Value::Array(_) => (),
        Value::String(text) => *content = json!([{ "type": "text", "text": text }]),
        Value::Null => *content = json!([]),
        Value::Object(_) => *content = Value::Array(vec![content.take()]),
        // The role and content of a message that is no tool's result.
        Value::Bool(_) | Value::Number(_) => return Vec::new(),
    }
    let Value::Array(all) = content else { return Vec::new() };
    let mut problems = Vec::new();
    for (nth, block) in all.iter_mut().enumerate() {
        blocks::normalise(block);
        match repair_item::<ContentBlock>(block) {
            Ok(lost) => {
                problems.extend(lost.map(|lost| format!("{} loses {lost}", name("block", nth + 1, block))))
            }
            Err(why) => {
                let problem = format!("{} is left out: {why}", name("block", nth + 1, block));
                *block = json!({ "type": "text", "text": format!("[{problem}]") });
                problems.push(problem);
            }
        }
    }
    problems
}

/// Removes the optional fields without which an item can be read, and returns their names.
///
/// # Errors
///
/// The reason why it cannot be read at all.
fn repair_item<T: DeserializeOwned>(item: &mut Value) -> Result<Option<String>, String> {
    let Err(error) = T::deserialize(&*item) else { return Ok(None) };
    let Value::Object(fields) = item else { return Err("it is not an object".to_owned()) };
    let present: Vec<&str> = OPTIONAL.into_iter().filter(|name| fields.contains_key(*name)).collect();
    let without = |lost: &[&str]| {
        let kept = fields.iter().filter(|(key, _)| !lost.contains(&key.as_str()));
        Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    let single = present.iter().map(std::slice::from_ref);
    for lost in single.chain([present.as_slice()]) {
        let kept = without(lost);
        if is::<T>(&kept) {
            *item = kept;
            return Ok(Some(lost.join(", ")));
        }
    }
    Err(why::<T>(fields).unwrap_or_else(|| missing_field(&error.to_string())))
}

/// Returns the name of a missing field. Other errors quote the server's data, which may hold a secret.
fn missing_field(error: &str) -> String {
    if error.starts_with("missing field") { truncate(error, MAX_CHARS) } else { "it is malformed".to_owned() }
}

/// Names a missing field, which the error of an untagged enum does not.
fn why<T>(fields: &Map<String, Value>) -> Option<String> {
    if std::any::type_name::<T>() != std::any::type_name::<ContentBlock>() {
        return None;
    }
    let required: &[&str] = match fields.get("type").and_then(Value::as_str)? {
        "text" => &["text"],
        "image" | "audio" => &["data", "mimeType"],
        "resource" => &["resource"],
        "resource_link" => &["uri", "name"],
        other => return Some(format!("its type {:?} is unknown", truncate(other, MAX_CHARS))),
    };
    let missing = required
        .iter()
        .find(|name| !fields.get(**name).is_some_and(|value| value.is_string() || value.is_object()))?;
    Some(format!("its {missing} is missing or malformed"))
}

fn is<T: DeserializeOwned>(value: &Value) -> bool {
    T::deserialize(value).is_ok()
}

/// Names an item of a list for a person.
fn name(kind: &str, nth: usize, item: &Value) -> String {
    let name = ["name", "type"].iter().find_map(|key| item.get(*key).and_then(Value::as_str));
    match name {
        Some(name) => format!("{kind} {nth} ({})", truncate(name, MAX_CHARS)),
        None => format!("{kind} {nth}"),
    }
}

/// Removes a field that is not of its type. Null is as good as absent.
fn drop_malformed<T: DeserializeOwned>(fields: &mut Map<String, Value>, key: &str) -> Option<String> {
    let value = fields.get(key)?;
    let is_null = value.is_null();
    if !is_null && is::<T>(value) {
        return None;
    }
    fields.remove(key)?;
    (!is_null).then(|| format!("{key} is malformed and ignored"))
}

/// Repairs the result of a handshake, which needs little to be of use.
fn handshake(result: &mut Map<String, Value>) -> Vec<String> {
    let mut problems = Vec::new();
    result.entry("protocolVersion").or_insert_with(|| UNNAMED_PROTOCOL.into());
    if let Some(info) = result.get_mut("serverInfo") {
        problems.extend(
            repair_item::<Implementation>(info)
                .ok()
                .flatten()
                .map(|field| format!("serverInfo loses {field}")),
        );
    }
    if result.get("serverInfo").is_none_or(|info| !is::<Implementation>(info)) {
        problems.push("serverInfo is missing or malformed".to_owned());
        result.insert("serverInfo".to_owned(), json!({ "name": "unnamed", "version": "unknown" }));
    }
    problems.extend(capabilities(result.entry("capabilities").or_insert_with(|| json!({}))));
    if let Some(Value::String(text)) = result.get_mut("instructions") {
        *text = truncate(text, MAX_INSTRUCTIONS_CHARS);
    }
    problems.extend(drop_malformed::<String>(result, "instructions"));
    problems
}

/// Replaces each malformed capability by the plain one: a server that says `"tools": true` has tools.
fn capabilities(all: &mut Value) -> Vec<String> {
    if is::<ServerCapabilities>(all) {
        return Vec::new();
    }
    let Value::Object(fields) = all else {
        *all = json!({});
        return vec!["capabilities are malformed".to_owned()];
    };
    let mut problems = Vec::new();
    fields.retain(|key, value| {
        if is::<ServerCapabilities>(&json!({ key: value })) {
            return true;
        }
        problems.push(format!("capability {} is malformed", truncate(key, MAX_CHARS)));
        let has = !matches!(value, Value::Null | Value::Bool(false));
        *value = json!({});
        has && is::<ServerCapabilities>(&json!({ key: &*value }))
    });
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(mut result: Value) -> (Value, Vec<String>) {
        let problems = repair(&mut result);
        (result, problems)
    }

    #[test]
    fn a_malformed_tool_costs_that_tool_and_a_hint_only_itself() {
        let good = json!({ "name": "good", "inputSchema": { "type": "object" } });
        let mut hinted = good.clone();
        hinted["annotations"] = json!({ "readOnlyHint": "yes" });
        let mut decorated = good.clone();
        decorated["icons"] = json!({ "src": 7 });
        decorated["annotations"] = json!(7);
        let tools =
            json!([good, { "name": "bad" }, 7, hinted, decorated, { "name": "worse", "inputSchema": "x" }]);
        let (result, problems) = repaired(json!({ "tools": tools }));
        assert_eq!(result, json!({ "tools": [good, good, good] }));
        assert_eq!(
            problems,
            [
                "tool 2 (bad) is left out: missing field `inputSchema`",
                "tool 3 is left out: it is not an object",
                "tool 4 (good) loses annotations",
                "tool 5 (good) loses annotations, icons",
                "tool 6 (worse) is left out: it is malformed",
            ]
        );
    }

    #[test]
    fn a_tool_that_requires_a_task_is_left_out() {
        let tool = |name: &str, support: &str| json!({ "name": name, "inputSchema": { "type": "object" }, "execution": { "taskSupport": support } });
        let tools = json!([tool("a", "forbidden"), tool("b", "required"), tool("c", "optional")]);
        let (result, problems) = repaired(json!({ "tools": tools }));
        assert_eq!(result, json!({ "tools": [tool("a", "forbidden"), tool("c", "optional")] }));
        assert_eq!(
            problems,
            ["tool 2 (b) is left out: it can be called only as a task of protocol 2025-11-25"]
        );
    }

    #[test]
    fn a_malformed_block_is_replaced_by_a_text_that_names_it() {
        let blocks = json!([
            { "type": "text", "text": "kept", "annotations": { "priority": "high" } },
            { "type": "image", "mimeType": "image/png" },
            { "type": "hologram", "data": "x" },
            { "text": "no type" },
        ]);
        let (result, problems) = repaired(json!({ "content": blocks, "isError": "no", "_meta": [] }));
        let text = |nth: usize| result["content"][nth]["text"].as_str().unwrap().to_owned();
        assert_eq!(result["content"][0], json!({ "type": "text", "text": "kept" }));
        assert_eq!(text(1), "[block 2 (image) is left out: its data is missing or malformed]");
        assert_eq!(text(2), "[block 3 (hologram) is left out: its type \"hologram\" is unknown]");
        assert!(text(3).starts_with("[block 4 is left out: "), "{}", text(3));
        assert_eq!(problems.len(), 6, "{problems:?}");
        assert!(result.get("isError").is_none() && result.get("_meta").is_none());
    }

    #[test]
    fn content_in_another_form_is_content() {
        let text = json!([{ "type": "text", "text": "hi" }]);
        assert_eq!(repaired(json!({ "content": "hi" })), (json!({ "content": text }), vec![]));
        assert_eq!(repaired(json!({ "content": text[0] })), (json!({ "content": text }), vec![]));
        assert_eq!(repaired(json!({ "content": null })), (json!({ "content": [] }), vec![]));
    }

    #[test]
    fn a_handshake_needs_little() {
        let (result, problems) = repaired(json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": true, "prompts": null, "logging": {} },
            "serverInfo": { "name": "desk", "version": "1", "icons": 7 }, "instructions": ["x"],
        }));
        assert_eq!(
            result,
            json!({
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {}, "prompts": null, "logging": {} },
                "serverInfo": { "name": "desk", "version": "1" },
            })
        );
        assert_eq!(problems.len(), 3, "{problems:?}");
        let (result, _) = repaired(json!({ "serverInfo": 7 }));
        assert_eq!(result["protocolVersion"], UNNAMED_PROTOCOL);
        assert_eq!(result["capabilities"], json!({}));
    }

    #[test]
    fn a_cursor_that_is_no_text_ends_the_list() {
        let (result, problems) = repaired(json!({ "tools": [], "nextCursor": 7 }));
        assert_eq!(
            (result, problems),
            (json!({ "tools": [] }), vec!["nextCursor is malformed and ignored".to_owned()])
        );
        assert_eq!(repaired(json!({ "tools": [], "nextCursor": null })).1, Vec::<String>::new());
    }
}
