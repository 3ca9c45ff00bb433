//! Texts of persons, models and tools, as attributes.

use serde_json::{Value, json};
use shared::{Message, Reply, Request, Response, Role};

use super::{
    attributes::Attribute,
    fit::{MAX_BYTES, fitted},
};

/// The content of a request. `conversation` is the thread's, which a request refers to by its range.
pub(super) fn of_request(request: &Request, conversation: &[Message]) -> Vec<Attribute> {
    match request {
        Request::Chat { system, context, .. } => {
            let messages = conversation.get(context.clone()).unwrap_or_default();
            let instructions = (!system.is_empty()).then(|| {
                let text = json!([{ "type": "text", "content": system }]);
                ("gen_ai.system_instructions", fitted(text))
            });
            instructions.into_iter().chain([("gen_ai.input.messages", input(messages))]).collect()
        }
        Request::CallTool { call, .. } => {
            vec![("gen_ai.tool.call.arguments", fitted(call.arguments.clone()))]
        }
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
            let message = Message {
                role: Role::Assistant,
                content: reply.content.clone(),
                tool_calls: reply.tool_calls.clone(),
                tool_call_id: None,
                attachments: Vec::new(),
            };
            Some(("gen_ai.output.messages", output(&message, finish_reason(reply))))
        }
        Response::Output(output) | Response::OutputWithExtras { output, .. } => {
            Some(("gen_ai.tool.call.result", fitted(json!(output))))
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

/// Returns the reason for which a model stopped, in the words of the conventions.
pub(super) fn finish_reason(reply: &Reply) -> &'static str {
    match reply {
        Reply { cut_off: true, .. } => "length",
        Reply { tool_calls, .. } if !tool_calls.is_empty() => "tool_call",
        Reply { .. } => "stop",
    }
}

/// Returns the value of `gen_ai.input.messages`.
pub(super) fn input(messages: &[Message]) -> super::AttributeValue {
    fitted(messages.iter().map(message).collect())
}

/// Returns the value of `gen_ai.output.messages`. The conventions require the reason for which it ends.
pub(super) fn output(last: &Message, finish_reason: &str) -> super::AttributeValue {
    let mut last = message(last);
    last["finish_reason"] = finish_reason.into();
    fitted(json!([last]))
}

/// Returns a text as it is, cut if it is too long.
pub(super) fn plain(text: &str) -> super::AttributeValue {
    text[..text.floor_char_boundary(MAX_BYTES)].into()
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
