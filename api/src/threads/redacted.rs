//! Events without their contents: what was said, asked, sent and found, and who did it. What remains is how a run went.

use serde_json::{Value, json};

/// Names of texts that remain. All others are left out, also those of fields that are not known here.
const KEPT: &[&str] = &[
    "event",
    "kind",
    "node",
    "to",
    "resume",
    "request",
    "response",
    "model",
    "server",
    "strategy",
    "status",
    "role",
    "worker",
    "from",
    "turn",
    "thread",
    "time",
    "id",
    "tool_call_id",
    "safety",
    "ranking",
    "ending",
    "rating",
    "tool_servers",
    "tools",
    "purpose",
    "response_schema",
];

/// Names of tools remain within calls and lists of tools only: elsewhere a name may be that of a person or a file.
const NAMED: &[&str] = &["call", "tool_calls", "tools"];

/// Values that are left out whole, of any form: they are from people, models, tools and configurations, and their fields have any names.
const WHOLE: &[&str] = &[
    "arguments",
    "facts",
    "config",
    "parameters",
    "structured",
    "payload",
    "metadata",
    "options",
    "value",
    "accept",
    "schema",
    "json_schema",
    "reply_options",
    "request_state",
    "note",
    "read_back",
    "extra",
    "data",
    "result",
    "arguments_schema",
    "output_schema",
    "input_schema",
];

/// Maps whose keys are names from people: a server may be named `time`, and a node `model`.
const MAPS: &[&str] = &["servers", "prompts", "held", "input_requests"];

/// Lists of which the number of elements remains.
const COUNTED: &[&str] = &["facts", "options"];

/// Maximum depth of an event. What is deeper is left out.
const DEPTH: usize = 64;

const LEFT_OUT: &str = "[left out]";

/// Returns an event without its contents.
pub(super) fn redacted(event: Value) -> Value {
    within(event, "", "", 0)
}

fn within(value: Value, name: &str, parent: &str, depth: usize) -> Value {
    if WHOLE.contains(&name) || DEPTH < depth {
        let elements = value.as_array().filter(|_| COUNTED.contains(&name));
        return match elements {
            Some(elements) => elements.iter().map(|_| json!(LEFT_OUT)).collect(),
            None => json!(LEFT_OUT),
        };
    }
    match value {
        Value::String(text) => {
            let is_kept = KEPT.contains(&name) || (name == "name" && NAMED.contains(&parent));
            if is_kept || text.is_empty() {
                return Value::String(text);
            }
            json!(format!("[left out: {} characters]", text.chars().count()))
        }
        Value::Array(elements) => {
            elements.into_iter().map(|element| within(element, name, parent, depth + 1)).collect()
        }
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, field)| {
                let (known, parent) = if MAPS.contains(&name) { ("", "") } else { (&*key, name) };
                let field = within(field, known, parent, depth + 1);
                (key, field)
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_fields_that_are_not_known_are_left_out() {
        let secret = "Ann Lee";
        let event = redacted(json!({
            "event": "asked",
            "node": "call_tools",
            "actor": secret,
            "facts": [{"id": secret, "server": secret}],
            "requests": [
                {"request": "call_tool", "server": "notes", "call": {"id": "call_1", "name": "find", "arguments": {"id": secret}}},
                {"request": "chat", "model": "m", "system": secret, "new_field": [secret], "tools": ["find"], "name": secret},
            ],
            "messages": [{"role": "user", "content": secret, "attachments": [{"kind": "file", "name": secret}]}],
            "to": {"interrupt": {"kind": "approval", "question": secret, "options": [secret]}},
            "usage": {"model": "m", "input_tokens": 7},
        }));
        let text = event.to_string();
        assert!(!text.contains("Ann"), "{text}");
        for kept in ["call_tools", "notes", "\"find\"", "call_1", "approval", "\"input_tokens\":7"] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    #[test]
    fn texts_in_maps_are_left_out_whatever_their_keys_are() {
        let names = json!({"time": "Ann", "model": "Ann", "id": ["Ann"], "tools": {"name": "Ann"}});
        let form = json!({"question": "Ann?", "schema": {"id": "Ann"}});
        let event = redacted(json!({
            "event": "asked",
            "servers": names,
            "prompts": names,
            "requests": [{"request": "list_tools", "servers": names, "held": names, "model": "m"}],
            "response": {"input_requests": {"status": form, "options": form}},
        }));
        let text = event.to_string();
        assert!(!text.contains("Ann"), "{text}");
        assert!(text.contains("\"model\":\"m\"") && text.contains("list_tools"), "{text}");
    }

    #[test]
    fn structured_output_answers_to_forms_and_hashes_are_left_out_whole() {
        let person = json!({"id": "Ann Lee", "from": "Ann", "status": "Annoyed", "time": "Ann", "age": 4711, "isIll": true, "rows": [4711]});
        let hash = "ab12".repeat(16);
        let events = [
            json!({
                "event": "answered",
                "response": {
                    "response": "output_with_extras",
                    "output": {"status": "ok", "text": "Ann"},
                    "extras": {"content": [
                        {"content": "structured", "value": person},
                        {"content": "structured", "value": [4711]},
                        {"content": "attached", "attachment": {"sha256": hash, "kind": "image", "media_type": "image/png", "bytes": 7}},
                    ]},
                },
            }),
            json!({"event": "input_provided", "name": "form", "slot": 0, "response": {"accept": person}, "metadata": person}),
            json!({"event": "input_required", "input_requests": {"form": {"question": "Ann?", "schema": {"maximum": 4711, "id": "Ann"}}}}),
            json!({"event": "forked", "thread": "t", "seq": 1, "hash": hash, "config": person}),
        ];
        let text: String = events.map(|event| redacted(event).to_string()).join("\n");
        for secret in ["Ann", "4711", "isIll", &hash] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        for kept in ["\"status\":\"ok\"", "\"slot\":0", "\"bytes\":7", "\"thread\":\"t\""] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }
}
