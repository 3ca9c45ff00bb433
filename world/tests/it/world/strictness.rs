//! Checks of a request that OpenAI enforces with status 400.

use serde_json::Value;

/// Checks that OpenAI would accept the request. The error is the reason for the rejection.
pub(crate) fn check(body: &Value) -> Result<(), String> {
    if body["stream"] != true || body["stream_options"]["include_usage"] != true {
        return Err("this endpoint only streams".to_owned());
    }
    let options = &body["web_search_options"];
    if !options.is_null() && !body["model"].as_str().is_some_and(|model| model.contains("search")) {
        return Err("web_search_options not supported with this model".to_owned());
    }
    let sizes = ["low", "medium", "high"];
    let known = |(name, value): (&String, &Value)| match name.as_str() {
        "search_context_size" => sizes.iter().any(|size| value == size),
        "user_location" => value["type"] == "approximate",
        _ => false,
    };
    if !options.is_null() && !options.as_object().is_some_and(|options| options.iter().all(known)) {
        return Err("web_search_options is not of its shape".to_owned());
    }
    check_calls(body["messages"].as_array().ok_or("no messages")?)?;
    if 128 < body["tools"].as_array().map_or(0, Vec::len) {
        return Err("array too long: at most 128 tools".to_owned());
    }
    for tool in body["tools"].as_array().into_iter().flatten() {
        check_name(tool["function"]["name"].as_str().unwrap_or(""))?;
        if tool["function"]["parameters"]["type"] != "object" {
            return Err(format!("schema of {} must be of type object", tool["function"]["name"]));
        }
    }
    let format = &body["response_format"]["json_schema"];
    if !format.is_null() {
        check_name(format["name"].as_str().unwrap_or(""))?;
    }
    if format["strict"] == true { check_strict(&format["schema"], "()") } else { Ok(()) }
}

/// Checks that the messages after a tool call answer every call of it, and no other call.
pub(crate) fn check_calls(messages: &[Value]) -> Result<(), String> {
    for (nth, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let asked = messages[..nth].iter().rfind(|message| message["role"] != "tool");
            let mut calls = asked.and_then(|message| message["tool_calls"].as_array()).into_iter().flatten();
            if !calls.any(|call| call["id"] == message["tool_call_id"]) {
                return Err(format!(
                    "a tool's message answers no call before it: {}",
                    message["tool_call_id"]
                ));
            }
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let follow = messages[nth + 1..].iter().take_while(|message| message["role"] == "tool");
            if !follow.clone().any(|message| message["tool_call_id"] == call["id"]) {
                return Err(format!("tool_call_ids did not have response messages: {}", call["id"]));
            }
            let arguments = call["function"]["arguments"].as_str().ok_or("arguments must be a string")?;
            serde_json::from_str::<Value>(arguments)
                .map_err(|error| format!("arguments are no JSON: {error}"))?;
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fits = (1..=64).contains(&name.len()) && name.chars().all(legal);
    if fits { Ok(()) } else { Err(format!("name {name:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$")) }
}

fn check_strict(schema: &Value, at: &str) -> Result<(), String> {
    for unknown in ["default", "format", "$schema", "oneOf"] {
        if schema.get(unknown).is_some() {
            return Err(format!("in {at}: {unknown} is not permitted"));
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        if schema["additionalProperties"] != false {
            return Err(format!("in {at}: additionalProperties is required to be false"));
        }
        let required = schema["required"].as_array().ok_or(format!("in {at}: required is missing"))?;
        for (name, property) in properties {
            if !required.iter().any(|other| other == name) {
                return Err(format!("in {at}: required must include every key, {name} is missing"));
            }
            check_strict(property, &format!("{at}.{name}"))?;
        }
    }
    let below = schema["anyOf"].as_array().into_iter().flatten().chain(schema.get("items"));
    below.enumerate().try_for_each(|(nth, schema)| check_strict(schema, &format!("{at}[{nth}]")))
}
