//! Memory that a folded event retains.

use serde_json::Value;

use super::Event;
use crate::{
    message::{Message, Tool, ToolOutput},
    request::Response,
};

/// Overhead of an entry in a list or a map, in bytes, in addition to its content.
const ENTRY: usize = 64;

impl Event {
    /// Estimates the bytes that a thread keeps of the event: its messages, facts and tools. Small and short-lived parts
    /// are not counted.
    pub fn retained_bytes(&self) -> usize {
        match self {
            Event::TurnStarted(started) => {
                let options = started.reply_options.as_ref().map_or(0, |options| options.retained_bytes());
                options + started.messages.iter().map(Message::retained_bytes).sum::<usize>()
            }
            Event::Decided(decided) => {
                let facts: usize = decided.facts.iter().map(of_value).sum();
                facts + decided.messages.iter().map(Message::retained_bytes).sum::<usize>()
            }
            Event::Answered(answered) => match &answered.response {
                Response::Tools { tools } => tools.iter().map(of_tool).sum(),
                Response::Output(output) => of_output(output),
                Response::OutputWithExtras { output, .. } => of_output(output),
                Response::Prompt { messages } => messages.iter().map(Message::retained_bytes).sum(),
                // The node adds the reply to the conversation, and it is counted there.
                Response::Reply(_)
                | Response::ToolsUnchanged
                | Response::Working { .. }
                | Response::InputRequired { .. }
                | Response::Prompts { .. }
                | Response::Described(_)
                | Response::SearchResults { .. }
                | Response::Indexed { .. }
                | Response::Echo { .. }
                | Response::Unavailable { .. } => 0,
            },
            Event::Forked(forked) => forked.facts.iter().map(of_value).sum(),
            Event::Opened(_)
            | Event::Asked(_)
            | Event::Attempted(_)
            | Event::AttemptFailed(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::InputProvided(_)
            | Event::Summarised(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::WriteEnded(_)
            | Event::Cancelled(_)
            | Event::TakenOver(_)
            | Event::Rated(_) => 0,
        }
    }
}

impl Message {
    /// Estimates the bytes of the message in memory.
    pub fn retained_bytes(&self) -> usize {
        let calls = self.tool_calls.iter().map(|call| ENTRY + of_value(&call.arguments)).sum::<usize>();
        ENTRY + self.content.len() + calls + self.attachments.len() * 4 * ENTRY
    }
}

fn of_output(output: &ToolOutput) -> usize {
    match output {
        ToolOutput::Ok(text) | ToolOutput::Error(text) | ToolOutput::Refused(text) => text.len(),
    }
}

fn of_tool(tool: &Tool) -> usize {
    ENTRY + tool.name.len() + tool.description.len() + of_value(&tool.parameters)
}

fn of_value(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(all) => all.iter().map(|item| ENTRY + of_value(item)).sum(),
        Value::Object(all) => all.iter().map(|(name, value)| ENTRY + name.len() + of_value(value)).sum(),
    }
}

#[test]
fn long_texts_count_as_retained_bytes() {
    let retained_bytes = |json: Value| serde_json::from_value::<Event>(json).unwrap().retained_bytes();
    let long = "x".repeat(10_000);
    let tool = serde_json::json!({"name": "a", "parameters": {"properties": {"b": {"description": long}}}});
    let kept = [
        serde_json::json!({"event": "turn_started", "messages": [{"role": "user", "content": long}]}),
        serde_json::json!({"event": "decided", "node": "a", "facts": [{"b": [long]}], "to": "end"}),
        serde_json::json!({"event": "answered", "slot": 0, "response": {"response": "tools", "tools": [tool]}}),
    ];
    for event in kept {
        assert!((10_000..10_500).contains(&retained_bytes(event.clone())), "{event}");
    }
    assert_eq!(retained_bytes(serde_json::json!({"event": "failed", "node": "a", "reason": long})), 0);
}
