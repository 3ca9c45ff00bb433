//! Builds the body of a request: messages, tools and the strict form of a schema.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use shared::{Attachment, AttachmentKind, Message, ModelParameters, Role, Tool, ToolCall, WebSearch};

use super::{Prompt, ResponseSchema, structured_output::OutputMode};
use crate::world::attachments::DataUrls;

/// Name of the function that carries structured output.
pub(super) const ANSWER_FUNCTION: &str = "answer";

/// Form of a request that depends on the endpoint and not on the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestForm {
    /// Method of requesting structured output, if the reply has a schema.
    pub(super) mode: Option<OutputMode>,
    /// Field for the maximum number of tokens in the reply.
    pub(super) token_limit: &'static str,
    /// True if the reply is streamed.
    pub(super) stream: bool,
}

/// Field for the maximum number of tokens that most endpoints know.
pub(super) const MAX_TOKENS: &str = "max_tokens";

/// The same for models that reject [`MAX_TOKENS`], such as OpenAI's reasoning models.
pub(super) const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

impl Default for RequestForm {
    fn default() -> Self {
        Self { mode: None, token_limit: MAX_TOKENS, stream: true }
    }
}

/// Builds the body of a chat completion request.
///
/// ## Why JSON and not async-openai's types
///
/// Those have closed enums and drop unknown fields, so one new value of an endpoint would fail a whole reply. With the
/// feature `byot` they also no longer set `stream`.
pub(super) fn body(model: &str, prompt: &Prompt<'_>, form: RequestForm) -> Value {
    let RequestForm { mode, token_limit, stream } = form;
    let mut body = json!({ "model": model, "messages": messages(prompt, mode), "stream": stream });
    if stream {
        body["stream_options"] = json!({ "include_usage": true });
    }
    if let Some(it) = prompt.parameters {
        add_parameters(&mut body, it, token_limit);
    }
    if !prompt.tools.is_empty() {
        body["tools"] = prompt.tools.iter().map(tool).collect();
    }
    match prompt.searching {
        WebSearch::Off => (),
        WebSearch::On => body["web_search_options"] = json!({}),
    }
    match (&prompt.shape, mode) {
        (Some(shape), Some(OutputMode::JsonSchema)) => body["response_format"] = response_format(shape),
        (Some(shape), Some(OutputMode::Tool)) => {
            let tools = prompt.tools.iter().map(tool).chain([answer(shape)]);
            body["tools"] = tools.collect();
            body["tool_choice"] = json!({ "type": "function", "function": { "name": ANSWER_FUNCTION } });
        }
        (Some(_), Some(OutputMode::Json) | None) | (None, _) => (),
    }
    body
}

fn add_parameters(body: &mut Value, parameters: &ModelParameters, token_limit: &str) {
    let ModelParameters { temperature, max_tokens, reasoning_effort, extra } = parameters;
    for (name, value) in extra {
        body[name] = value.clone();
    }
    if let Some(it) = temperature {
        body["temperature"] = json!(it);
    }
    if let Some(it) = max_tokens {
        body[token_limit] = json!(it);
    }
    if let Some(it) = reasoning_effort {
        body["reasoning_effort"] = json!(it);
    }
}

fn messages(prompt: &Prompt<'_>, mode: Option<OutputMode>) -> Vec<Value> {
    let system = |text: &str| json!({ "role": "system", "content": text });
    let mut text = prompt.system.to_owned();
    if 0 < prompt.omitted_tools {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        let _ = write!(text, "{gap}{} more tools exist that are not shown here.", prompt.omitted_tools);
    }
    let instructions = (!text.is_empty()).then(|| system(&text));
    let shape = prompt.shape.as_ref().filter(|_| mode == Some(OutputMode::Json)).map(|shape| {
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
    instructions
        .into_iter()
        .chain(shape)
        .chain(prompt.messages.iter().map(|it| message(it, &prompt.contents)))
        .chain(complaint)
        .collect()
}

fn message(message: &Message, contents: &DataUrls) -> Value {
    let Message { role, content, tool_calls, tool_call_id, attachments } = message;
    match role {
        Role::User if !attachments.is_empty() => {
            let text = (!content.is_empty()).then(|| json!({ "type": "text", "text": content }));
            let parts: Vec<Value> =
                text.into_iter().chain(attachments.iter().map(|it| part(it, contents))).collect();
            json!({ "role": role.name(), "content": parts })
        }
        Role::System | Role::User => json!({ "role": role.name(), "content": content }),
        Role::Tool => {
            json!({ "role": "tool", "content": content, "tool_call_id": tool_call_id.as_deref().unwrap_or("") })
        }
        Role::Assistant if tool_calls.is_empty() => json!({ "role": "assistant", "content": content }),
        Role::Assistant => {
            let content = if content.is_empty() { Value::Null } else { content.as_str().into() };
            let calls: Vec<Value> = tool_calls.iter().map(call).collect();
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
    }
}

/// Returns an image or file as a part of a message.
fn part(attachment: &Attachment, contents: &DataUrls) -> Value {
    let url = contents.get(&attachment.sha256).map_or("", String::as_str);
    match attachment.kind {
        AttachmentKind::Image => json!({ "type": "image_url", "image_url": { "url": url } }),
        AttachmentKind::File => {
            json!({ "type": "file", "file": { "filename": attachment.name, "file_data": url } })
        }
    }
}

fn call(call: &ToolCall) -> Value {
    // Always valid JSON text, even where the model's own was not: many endpoints parse it.
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

/// Maximum length of a name that endpoints accept.
const MAX_NAME_LEN: usize = 64;

/// Converts a name to one that endpoints accept: MCP also allows dots and slashes.
pub(super) fn tool_name(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(legal).take(MAX_NAME_LEN).collect()
}

/// The function whose call carries the answer.
///
/// ## Why it is not declared strict
///
/// An endpoint that supports strict functions also supports strict formats and would not be asked this way.
fn answer(shape: &ResponseSchema<'_>) -> Value {
    let function = json!({
        "name": ANSWER_FUNCTION,
        "description": "Gives the answer. Always call it, with the whole answer as its arguments.",
        "parameters": strict(shape.schema.clone()),
    });
    json!({ "type": "function", "function": function })
}

fn response_format(shape: &ResponseSchema<'_>) -> Value {
    let schema = json!({
        "name": tool_name(shape.name),
        "strict": is_closed(&shape.schema),
        "schema": strict(shape.schema.clone()),
    });
    json!({ "type": "json_schema", "json_schema": schema })
}

/// Converts a schema to strict mode: every property required and no others, at every depth.
///
/// Keywords that strict mode does not support are removed. The answer is validated against the type itself in any case.
fn strict(mut schema: Value) -> Value {
    let Value::Object(map) = &mut schema else { return schema };
    for unknown in ["$schema", "default", "format"] {
        map.remove(unknown);
    }
    if let Some(options) = map.remove("oneOf") {
        map.insert("anyOf".to_owned(), options);
    }
    visit_subschemas(map, |subschema| *subschema = strict(subschema.take()));
    if let Some(Value::Object(properties)) = map.get("properties") {
        let required = properties.keys().map(|it| Value::from(it.as_str())).collect();
        map.insert("required".to_owned(), required);
        map.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

/// Returns true if strict mode can express the schema: it supports neither maps nor "anything".
fn is_closed(schema: &Value) -> bool {
    let Value::Object(map) = schema else { return false };
    let has_keyword = |word: &&str| map.contains_key(*word);
    let is_map = match &map.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|it| it == "object"),
        _ => false,
    } && !map.contains_key("properties");
    let mut closed =
        ["type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"].iter().any(has_keyword) && !is_map;
    visit_subschemas(&mut map.clone(), |subschema| closed &= is_closed(subschema));
    closed
}

/// Visits every schema directly below this one. A property called `items` is a schema; an entry of `enum` is not.
fn visit_subschemas(map: &mut Map<String, Value>, mut visit: impl FnMut(&mut Value)) {
    for (word, subschema) in map {
        match (word.as_str(), subschema) {
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
