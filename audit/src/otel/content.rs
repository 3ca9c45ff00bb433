//! Texts of persons, models and tools, as attributes.

use serde_json::{Value, json};
use shared::{Message, Request, Response};

use super::attributes::Attribute;

/// Maximum bytes of one attribute; the rest is cut off.
const MAX_BYTES: usize = 32 << 10;

/// The content of a request. `conversation` is the thread's, which a request refers to by its range.
pub(super) fn of_request(request: &Request, conversation: &[Message]) -> Vec<Attribute> {
    match request {
        Request::Chat { system, context, .. } => {
            let messages = conversation.get(context.clone()).unwrap_or_default();
            let messages: Vec<Value> = messages.iter().map(message).collect();
            vec![
                ("gen_ai.system_instructions", text(&json!([{ "type": "text", "content": system }]))),
                ("gen_ai.input.messages", text(&json!(messages))),
            ]
        }
        Request::CallTool { call, .. } => vec![("gen_ai.tool.call.arguments", text(&call.arguments))],
        Request::ListTools { .. }
        | Request::ReadMore { .. }
        | Request::ListPrompts { .. }
        | Request::GetPrompt { .. }
        | Request::Describe { .. }
        | Request::Search { .. }
        | Request::Index { .. }
        | Request::Simulate(_) => Vec::new(),
    }
}

/// The content of a response to a model's or a tool's request.
pub(super) fn of_response(response: &Response) -> Option<Attribute> {
    match response {
        Response::Reply(reply) => {
            let message = message(&Message {
                role: shared::Role::Assistant,
                content: reply.content.clone(),
                tool_calls: reply.tool_calls.clone(),
                tool_call_id: None,
                attachments: Vec::new(),
            });
            Some(("gen_ai.output.messages", text(&json!([message]))))
        }
        Response::Output(output) | Response::OutputWithExtras { output, .. } => {
            Some(("gen_ai.tool.call.result", text(&json!(output))))
        }
        Response::Tools { .. }
        | Response::ToolsUnchanged
        | Response::Working { .. }
        | Response::InputRequired { .. }
        | Response::Prompts { .. }
        | Response::Prompt { .. }
        | Response::Described(_)
        | Response::SearchResults { .. }
        | Response::Indexed { .. }
        | Response::Echo { .. }
        | Response::Unavailable { .. } => None,
    }
}

/// A message in the form of the semantic conventions: a role and parts.
fn message(message: &Message) -> Value {
    let mut parts = Vec::new();
    if let Some(id) = &message.tool_call_id {
        parts.push(json!({ "type": "tool_call_response", "id": id, "response": message.content }));
    } else if !message.content.is_empty() {
        parts.push(json!({ "type": "text", "content": message.content }));
    }
    for call in &message.tool_calls {
        parts.push(
            json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments }),
        );
    }
    json!({ "role": message.role, "parts": parts })
}

fn text(value: &Value) -> super::AttributeValue {
    let text = value.to_string();
    text[..text.floor_char_boundary(MAX_BYTES)].into()
}
