//! Builds the body of a request: messages, tools and the strict form of a schema.

use std::{borrow::Cow, collections::BTreeSet, fmt::Write as _};

use async_openai::types::chat::{
    ChatCompletionTool, ChatCompletionTools, FunctionObject, ResponseFormat, ResponseFormatJsonSchema,
};
use serde_json::{Map, Value, json};
use shared::{
    Attachment, AttachmentKind, ClientTool, EMPTY_REPLY, Message, ModelParameters, Role, STRAY_CALLS,
    ToolCall, ToolChoice, ToolUse, WebSearch,
};

use super::{
    Prompt,
    dialect::Features,
    messages::normalised,
    prompt::ResponseSchema,
    structured_output::OutputMode,
    tool_schemas::{OfferedTool, ToolForms},
};
use crate::attachments::DataUrls;

/// Name of the function that carries structured output.
pub(super) const ANSWER_FUNCTION: &str = "answer";

/// Form of a request that depends on the endpoint and not on the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestForm {
    /// Method of requesting structured output, if the reply has a schema.
    pub(super) mode: Option<OutputMode>,
    /// Parts of the request.
    pub(super) features: Features,
}

impl RequestForm {
    /// Returns true if the reply is streamed.
    fn is_streamed(self) -> bool {
        let Self { mode, features } = self;
        features.streams && (features.streams_formats || mode != Some(OutputMode::JsonSchema))
    }
}

/// Builds the body of a chat completion request.
///
/// ## Why it is not one type
///
/// Tools and formats are async-openai's types. The rest is JSON: dialects rename, add and leave out fields of the request
/// and of its messages.
pub(super) fn body(model: &str, prompt: &Prompt<'_>, forms: &ToolForms, form: RequestForm) -> Value {
    let RequestForm { mode, features } = form;
    let (offered, left_out) = forms.offered(&prompt.tools);
    let omitted_tools = prompt.omitted_tools + left_out;
    let messages = normalised(messages(prompt, offered.len(), omitted_tools, mode), features.messages);
    let mut body = json!({ "model": model, "messages": messages, "stream": form.is_streamed() });
    if form.is_streamed() && features.stream_options {
        body["stream_options"] = json!({ "include_usage": true });
    }
    let token_limit = features.token_limit.name();
    if let Some(parameters) = prompt.parameters {
        add_parameters(&mut body, parameters, token_limit);
    }
    if !offered.is_empty() {
        body["tools"] = tools(&offered, prompt, features).collect();
        if features.parallel_tool_calls && body.get("parallel_tool_calls").is_none() {
            body["parallel_tool_calls"] = true.into();
        }
    }
    if let Some(ToolUse { tool_choice, parallel_tool_calls }) =
        prompt.tool_use.filter(|_| !offered.is_empty())
    {
        if *tool_choice != ToolChoice::Auto {
            body["tool_choice"] = json!(tool_choice);
        }
        if let Some(parallel) = parallel_tool_calls {
            body["parallel_tool_calls"] = json!(parallel);
        }
    }
    match prompt.searching {
        WebSearch::Off => (),
        WebSearch::On => body["web_search_options"] = json!({}),
    }
    match (&prompt.shape, mode) {
        (Some(shape), Some(OutputMode::JsonSchema)) => body["response_format"] = response_format(shape),
        (Some(shape), Some(OutputMode::Tool)) => {
            body["tools"] = tools(&offered, prompt, features).chain([answer(shape)]).collect();
            // Beside other tools, the answer is only one of the calls that the model may make.
            body["tool_choice"] = match offered.is_empty() {
                true => json!({ "type": "function", "function": { "name": ANSWER_FUNCTION } }),
                false => "required".into(),
            };
        }
        (Some(_), Some(OutputMode::Json) | None) | (None, _) => (),
    }
    if features.messages.declares_called_tools && body.get("tools").is_none() {
        declare_called_tools(&mut body, &prompt.messages);
    }
    body
}

/// Declares the tools that the conversation calls, and that none of them may be called now.
fn declare_called_tools(body: &mut Value, messages: &[Message]) {
    let called: BTreeSet<String> =
        messages.iter().flat_map(|message| &message.tool_calls).map(|call| tool_name(&call.name)).collect();
    if !called.is_empty() {
        let declared =
            |name| json!({ "type": "function", "function": { "name": name, "parameters": anything() } });
        body["tools"] = called.into_iter().map(declared).collect();
        body["tool_choice"] = "none".into();
    }
}

fn add_parameters(body: &mut Value, parameters: &ModelParameters, token_limit: &str) {
    let ModelParameters { temperature, max_tokens, reasoning_effort, extra } = parameters;
    for (name, value) in extra {
        body[name] = value.clone();
    }
    if let Some(value) = temperature {
        body["temperature"] = json!(value);
    }
    if let Some(limit) = max_tokens {
        body[token_limit] = json!(limit);
    }
    if let Some(effort) = reasoning_effort {
        body["reasoning_effort"] = json!(effort);
    }
}

fn messages(
    prompt: &Prompt<'_>,
    offered: usize,
    omitted_tools: usize,
    mode: Option<OutputMode>,
) -> Vec<Value> {
    let system = |text: &str| json!({ "role": "system", "content": text });
    let mut text = prompt.system.to_owned();
    if 0 < omitted_tools {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        let _ = write!(text, "{gap}{omitted_tools} more tools exist that are not shown here.");
    }
    let instructions = (!text.is_empty()).then(|| system(&text));
    let shape = prompt.shape.as_ref().filter(|_| mode == Some(OutputMode::Json)).map(|shape| {
        let beside = if offered == 0 { "" } else { " Or call a tool." };
        system(&format!(
            "Reply with one JSON object and nothing else: no words before or after it. It must fit this JSON schema: \
             {}{beside}",
            shape.sent()
        ))
    });
    let cue =
        prompt.shape.as_ref().filter(|shape| mode == Some(OutputMode::JsonSchema) && shape.needs_cue(prompt));
    let shape = shape.or_else(|| cue.map(|_| system("Reply with one JSON object.")));
    let complaint = prompt.complaint.map(|why| {
        system(&format!("Your previous reply could not be used: {why}. {}", how_to_reply_again(prompt)))
    });
    instructions
        .into_iter()
        .chain(shape)
        .chain(conversation(&prompt.messages, &prompt.contents))
        .chain(complaint)
        .collect()
}

/// Says what a reply must be like after one that was of no use.
///
/// ## Why the schema is repeated
///
/// Some endpoints accept a schema and ignore it, so the model has never seen it.
fn how_to_reply_again(prompt: &Prompt<'_>) -> String {
    match &prompt.shape {
        Some(shape) => {
            format!("Reply again, with one JSON object that fits this JSON schema: {}", shape.sent())
        }
        None if prompt
            .complaint
            .is_some_and(|why| why.starts_with(STRAY_CALLS) || why.starts_with(EMPTY_REPLY)) =>
        {
            "Reply again, in words for the person.".to_owned()
        }
        None if prompt.tool_use.is_some_and(|tool_use| tool_use.tool_choice != ToolChoice::Auto) => {
            "Reply again, with the call that was asked for.".to_owned()
        }
        None => "Reply again, and more briefly.".to_owned(),
    }
}

/// Converts the messages. The images of tool results follow the results as a message of the user, because the message of a
/// tool can hold only text.
fn conversation(messages: &[Message], contents: &DataUrls) -> Vec<Value> {
    let (mut sent, mut images) = (Vec::with_capacity(messages.len()), Vec::new());
    for source in messages {
        if source.role != Role::Tool && !images.is_empty() {
            sent.push(json!({ "role": "user", "content": std::mem::take(&mut images) }));
        }
        sent.push(message(source, contents));
        if source.role == Role::Tool && !source.attachments.is_empty() {
            let call = source.tool_call_id.as_deref().unwrap_or_default();
            images.push(
                json!({ "type": "text", "text": format!("Images in the result of the tool call {call}:") }),
            );
            images.extend(source.attachments.iter().map(|attachment| part(attachment, contents)));
        }
    }
    if !images.is_empty() {
        sent.push(json!({ "role": "user", "content": images }));
    }
    sent
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
    // Always an object, even where the model wrote something else: many endpoints parse it.
    let is_object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).is_ok();
    let arguments = match call.arguments.as_str().filter(|text| is_object(text)) {
        Some(text) => text.to_owned(),
        None if call.arguments.is_object() => call.arguments.to_string(),
        None => json!({ UNREADABLE: call.arguments }).to_string(),
    };
    let function = json!({ "name": tool_name(&call.name), "arguments": arguments });
    json!({ "id": call.id, "type": "function", "function": function })
}

/// Name under which a model is shown its own arguments where they were no object.
const UNREADABLE: &str = "unreadable_arguments";

/// Schema of a tool without a schema.
fn anything() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// Returns tools as they are offered. A schema that is not that of the client any more is not declared strict.
fn tools<'a>(
    offered: &'a [OfferedTool<'a>],
    prompt: &'a Prompt<'a>,
    features: Features,
) -> impl Iterator<Item = Value> + 'a {
    offered.iter().map(move |OfferedTool { tool, parameters }| {
        let is_unchanged = matches!(parameters, Cow::Borrowed(_)) && features.strict_tools;
        let of_client = prompt.client_tools.iter().map(ClientTool::function);
        let strict = of_client.filter(|_| is_unchanged).find(|function| function.name == tool.name);
        let parameters = if parameters.is_null() { anything() } else { Value::clone(parameters) };
        let mut offered = function(tool_name(&tool.name), tool.description.clone(), parameters);
        if let Some(strict) = strict.and_then(|function| function.strict) {
            offered["function"]["strict"] = strict.into();
        }
        offered
    })
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
    let description = "Gives the answer. Always call it, with the whole answer as its arguments.";
    function(ANSWER_FUNCTION.to_owned(), description.to_owned(), shape.sent())
}

fn function(name: String, description: String, parameters: Value) -> Value {
    let function =
        FunctionObject { name, description: Some(description), parameters: Some(parameters), strict: None };
    json!(ChatCompletionTools::Function(ChatCompletionTool { function }))
}

fn response_format(shape: &ResponseSchema<'_>) -> Value {
    if let Some(format) = shape.format {
        return json!(format);
    }
    let json_schema = ResponseFormatJsonSchema {
        name: tool_name(shape.name),
        strict: Some(is_closed(&shape.schema)),
        schema: strict(shape.schema.clone()),
        description: None,
    };
    json!(ResponseFormat::JsonSchema { json_schema })
}

impl ResponseSchema<'_> {
    /// Returns the schema as a model is shown it: that of a client as it is, that of a strategy in strict mode.
    fn sent(&self) -> Value {
        if self.format.is_some() { self.schema.clone() } else { strict(self.schema.clone()) }
    }

    /// Returns true if the endpoint may refuse the format because no message names it, as OpenAI does for any object.
    fn needs_cue(&self, prompt: &Prompt<'_>) -> bool {
        let names_it = |text: &str| text.to_ascii_lowercase().contains("json");
        self.format == Some(&shared::ResponseFormat::JsonObject)
            && !names_it(prompt.system)
            && !prompt.messages.iter().any(|message| names_it(&message.content))
    }
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
        let required = properties.keys().map(|key| Value::from(key.as_str())).collect();
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
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
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
