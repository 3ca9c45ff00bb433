//! A prompt as an endpoint wants it: messages, tools and the strict form of a schema.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use shared::{Message, Role, Searching, Tool, ToolCall};

use super::{Prompt, Shape, form::Form};

/// The function through which a shape is asked for.
pub(super) const ANSWER: &str = "answer";

/// The body of a chat completion.
///
/// ## Why it is JSON and not async-openai's types
///
/// Those have closed enums and drop what they do not know, so that one new word of an endpoint fails a whole
/// reply. With the feature `byot` they also no longer set `stream` by themselves.
pub(super) fn body(model: &str, prompt: &Prompt<'_>, form: Option<Form>) -> Value {
    let mut body = json!({
        "model": model,
        "messages": messages(prompt, form),
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !prompt.tools.is_empty() {
        body["tools"] = prompt.tools.iter().map(tool).collect();
    }
    match prompt.searching {
        Searching::No => (),
        Searching::Web => body["web_search_options"] = json!({}),
    }
    match (&prompt.shape, form) {
        (Some(shape), Some(Form::JsonSchema)) => body["response_format"] = response_format(shape),
        (Some(shape), Some(Form::Tool)) => {
            let tools = prompt.tools.iter().map(tool).chain([answer(shape)]);
            body["tools"] = tools.collect();
            body["tool_choice"] = json!({ "type": "function", "function": { "name": ANSWER } });
        }
        (Some(_), Some(Form::Json) | None) | (None, _) => (),
    }
    body
}

fn messages(prompt: &Prompt<'_>, form: Option<Form>) -> Vec<Value> {
    let system = |words: &str| json!({ "role": "system", "content": words });
    let mut words = prompt.system.to_owned();
    if 0 < prompt.untold {
        let gap = if words.is_empty() { "" } else { "\n\n" };
        let _ = write!(words, "{gap}{} more tools exist that are not shown here.", prompt.untold);
    }
    let told = (!words.is_empty()).then(|| system(&words));
    let shape = prompt.shape.as_ref().filter(|_| form == Some(Form::Json)).map(|shape| {
        let schema = strict(shape.schema.clone());
        system(&format!(
            "Reply with one JSON object and nothing else: no words before or after it. It must fit this JSON schema: \
             {schema}"
        ))
    });
    let complaint = prompt.complaint.map(|why| {
        system(&format!(
            "Your previous reply could not be used: {why}. Reply again, with JSON that fits the schema."
        ))
    });
    told.into_iter().chain(shape).chain(prompt.heard.iter().map(message)).chain(complaint).collect()
}

fn message(message: &Message) -> Value {
    let Message { role, content, tool_calls, answers } = message;
    match role {
        Role::System | Role::User => json!({ "role": role.name(), "content": content }),
        Role::Tool => {
            json!({ "role": "tool", "content": content, "tool_call_id": answers.as_deref().unwrap_or("") })
        }
        Role::Assistant if tool_calls.is_empty() => json!({ "role": "assistant", "content": content }),
        Role::Assistant => {
            let content = if content.is_empty() { Value::Null } else { content.as_str().into() };
            let calls: Vec<Value> = tool_calls.iter().map(call).collect();
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
    }
}

fn call(call: &ToolCall) -> Value {
    // Always the text of some JSON, even where the model's own was none: many endpoints parse it.
    let function = json!({ "name": tool_name(&call.name), "arguments": call.arguments.to_string() });
    json!({ "id": call.id, "type": "function", "function": function })
}

fn tool(tool: &Tool) -> Value {
    let anything = || json!({ "type": "object", "properties": {} });
    let parameters = if tool.parameters.is_null() { anything() } else { tool.parameters.clone() };
    let function =
        json!({ "name": tool_name(&tool.name), "description": tool.description, "parameters": parameters });
    json!({ "type": "function", "function": function })
}

/// The longest name that endpoints accept.
const NAME_MAX: usize = 64;

/// A name as endpoints accept it: MCP also allows dots and slashes.
pub(super) fn tool_name(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(legal).take(NAME_MAX).collect()
}

/// The function whose call is the answer.
///
/// ## Why it is not said to be strict
///
/// An endpoint that knows strict functions knows strict formats too, and would not be asked in this way.
fn answer(shape: &Shape<'_>) -> Value {
    let function = json!({
        "name": ANSWER,
        "description": "Gives the answer. Always call it, with the whole answer as its arguments.",
        "parameters": strict(shape.schema.clone()),
    });
    json!({ "type": "function", "function": function })
}

fn response_format(shape: &Shape<'_>) -> Value {
    let schema = json!({
        "name": tool_name(shape.name),
        "strict": is_closed(&shape.schema),
        "schema": strict(shape.schema.clone()),
    });
    json!({ "type": "json_schema", "json_schema": schema })
}

/// The schema as strict mode wants it: every property required and no others, at every depth.
///
/// What strict mode does not know is left out; the answer is judged by the type itself in any case.
fn strict(mut schema: Value) -> Value {
    let Value::Object(map) = &mut schema else { return schema };
    for unknown in ["$schema", "default", "format"] {
        map.remove(unknown);
    }
    if let Some(options) = map.remove("oneOf") {
        map.insert("anyOf".to_owned(), options);
    }
    each_below(map, |below| *below = strict(below.take()));
    if let Some(Value::Object(properties)) = map.get("properties") {
        let required = properties.keys().map(|it| Value::from(it.as_str())).collect();
        map.insert("required".to_owned(), required);
        map.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

/// Whether strict mode can express it: it knows neither maps nor "anything".
fn is_closed(schema: &Value) -> bool {
    let Value::Object(map) = schema else { return false };
    let says = |word: &&str| map.contains_key(*word);
    let is_map = match &map.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|it| it == "object"),
        _ => false,
    } && !map.contains_key("properties");
    let mut closed = ["type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"].iter().any(says) && !is_map;
    each_below(&mut map.clone(), |below| closed &= is_closed(below));
    closed
}

/// Every schema directly below this one. A property called `items` is one; what stands in `enum` is none.
fn each_below(map: &mut Map<String, Value>, mut visit: impl FnMut(&mut Value)) {
    for (word, below) in map {
        match (word.as_str(), below) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                named.values_mut().for_each(&mut visit)
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(several)) => {
                several.iter_mut().for_each(&mut visit)
            }
            ("items" | "not", one) => visit(one),
            _ => (),
        }
    }
}
