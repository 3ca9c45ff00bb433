//! Parameters of a response, and their names in chat completions.

use serde_json::{Map, Value, json};

use crate::server::problem::{ApiError, Kind};

/// Parameters with the same name and meaning in chat completions.
const SAME: [&str; 15] = [
    "metadata",
    "model",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "temperature",
    "top_logprobs",
    "top_p",
    "turnfold",
    "user",
];

/// Parameters that have another name in chat completions, where a dot separates the parts of a path.
const RENAMED: [(&str, &str); 4] = [
    ("max_output_tokens", "max_completion_tokens"),
    ("reasoning.effort", "reasoning_effort"),
    ("text.format", "response_format"),
    ("text.verbosity", "verbosity"),
];

/// Parameters that are read here.
const OWN: [&str; 12] = [
    "background",
    "conversation",
    "include",
    "input",
    "instructions",
    "previous_response_id",
    "reasoning",
    "stream_options",
    "text",
    "tool_choice",
    "tools",
    "truncation",
];

/// Parts of responses that turnfold never writes, so that requesting them has no effect.
const NEVER_INCLUDED: [&str; 6] = [
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
];

/// Rejects parameters that are unknown, or would be expected to have an effect and have none.
pub(super) fn check(body: &Map<String, Value>) -> Result<(), ApiError> {
    let refused = |name: &str, detail: &str, hint: &str| {
        Err(Kind::Unsupported.because(format!("{name}: {detail}")).hint(hint).with_param(name))
    };
    for (name, value) in body {
        let name = name.as_str();
        match name {
            "prompt" => return refused(name, "not supported", "send its text in `instructions` and `input`"),
            "max_tool_calls" => {
                return refused(name, "not supported", "set a budget with `turnfold.budget`");
            }
            "truncation" if !["auto", "disabled"].contains(&value.as_str().unwrap_or_default()) => {
                return refused(name, "only \"auto\" and \"disabled\" are supported", "remove it");
            }
            "max_output_tokens" => {}
            _ if SAME.contains(&name) || OWN.contains(&name) => {}
            _ => return refused(name, "unknown parameter", "remove it"),
        }
    }
    for part in body.get("include").and_then(Value::as_array).into_iter().flatten() {
        if !NEVER_INCLUDED.contains(&part.as_str().unwrap_or_default()) {
            return refused("include", &format!("{part} is not supported"), "remove it");
        }
    }
    let known: [(&str, &[&str]); 3] = [
        ("text", &["format", "verbosity"]),
        ("reasoning", &["effort", "summary", "generate_summary", "context", "mode"]),
        ("stream_options", &["include_obfuscation"]),
    ];
    for (name, fields) in known {
        match body.get(name) {
            None => {}
            Some(Value::Object(object)) => {
                if let Some(field) = object.keys().find(|field| !fields.contains(&field.as_str())) {
                    return refused(&format!("{name}.{field}"), "unknown parameter", "remove it");
                }
            }
            Some(_) => {
                return Err(Kind::Invalid.because(format!("{name}: it must be an object")).with_param(name));
            }
        }
    }
    Ok(())
}

/// Returns the body of the chat completion that says the same, without its messages.
pub(super) fn chat_body(body: &Map<String, Value>) -> Map<String, Value> {
    let mut chat: Map<String, Value> =
        SAME.iter().filter_map(|name| Some(((*name).to_owned(), body.get(*name)?.clone()))).collect();
    for (name, chat_name) in RENAMED {
        let value = match name.split_once('.') {
            Some((object, field)) => body.get(object).and_then(|object| object.get(field)),
            None => body.get(name),
        };
        if let Some(value) = value.filter(|value| !value.is_null()) {
            chat.insert(chat_name.to_owned(), value.clone());
        }
    }
    if let Some(format) = chat.get_mut("response_format") {
        *format = nested(format, "json_schema");
    }
    if let Some(choice) = body.get("tool_choice") {
        chat.insert("tool_choice".to_owned(), nested(choice, "function"));
    }
    if let Some(tools) = body.get("tools") {
        let functions =
            tools.as_array().map(|tools| tools.iter().map(|tool| nested(tool, "function")).collect());
        let tools = functions.unwrap_or_else(|| tools.clone());
        chat.insert("tools".to_owned(), tools);
    }
    chat
}

/// Moves the fields of an object of this type into a field with the name of the type, where chat completions have them.
fn nested(value: &Value, kind: &str) -> Value {
    match value.as_object() {
        Some(object) if object.get("type").is_some_and(|name| name == kind) && !object.contains_key(kind) => {
            let mut inner = object.clone();
            inner.remove("type");
            json!({"type": kind, kind: inner})
        }
        Some(_) | None => value.clone(),
    }
}

/// Moves the fields out of the field with the name of the type, as responses have them.
pub(super) fn flat(value: &Value, kind: &str) -> Value {
    let Some(mut inner) = value.get(kind).and_then(Value::as_object).cloned() else { return value.clone() };
    inner.insert("type".to_owned(), kind.into());
    Value::Object(inner)
}

/// Returns the name of a parameter of chat completions in responses; none if it is the same.
pub(super) fn of_response(param: &str) -> Option<String> {
    if param == "max_tokens" {
        return Some("max_output_tokens".to_owned());
    }
    RENAMED.iter().find_map(|(name, chat_name)| {
        let rest = param.strip_prefix(chat_name)?;
        (rest.is_empty() || rest.starts_with(['.', '[']))
            .then(|| format!("{name}{}", rest.replace(".json_schema", "")))
    })
}
