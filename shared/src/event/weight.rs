//! How much of an event stays in memory once it is folded in.

use serde_json::Value;

use super::Event;
use crate::{
    message::{Message, Tool, ToolOutput},
    request::Response,
};

/// What every entry of a list or a map takes besides what it says, in bytes.
const ENTRY: usize = 64;

impl Event {
    /// About how many bytes a thread keeps of it: its words, its facts and its tools. What is small or soon let go is not
    /// counted.
    pub fn weight(&self) -> usize {
        match self {
            Event::Heard(it) => it.messages.iter().map(of_message).sum(),
            Event::Decided(it) => {
                let facts: usize = it.learned.iter().map(of_value).sum();
                facts + it.said.iter().map(of_message).sum::<usize>()
            }
            Event::Answered(it) => match &it.response {
                Response::Tools { tools } => tools.iter().map(of_tool).sum(),
                Response::Output(output) => of_output(output),
                Response::Whole { output, .. } => of_output(output),
                Response::Prompt { messages } => messages.iter().map(of_message).sum(),
                // A reply is said by its node, and counted there.
                Response::Reply(_)
                | Response::SameTools
                | Response::Wants { .. }
                | Response::Prompts { .. }
                | Response::Described(_)
                | Response::Found { .. }
                | Response::Indexed { .. }
                | Response::Echo { .. }
                | Response::Unavailable { .. } => 0,
            },
            Event::Forked(it) => it.learned.iter().map(of_value).sum(),
            Event::Opened(_)
            | Event::Asked(_)
            | Event::Attempted(_)
            | Event::Faltered(_)
            | Event::GaveUp(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Wanted(_)
            | Event::Supplied(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::Cancelled(_) => 0,
        }
    }
}

fn of_message(it: &Message) -> usize {
    let calls = it.tool_calls.iter().map(|it| ENTRY + of_value(&it.arguments)).sum::<usize>();
    ENTRY + it.content.len() + calls
}

fn of_output(it: &ToolOutput) -> usize {
    match it {
        ToolOutput::Ok(text) | ToolOutput::Error(text) | ToolOutput::Refused(text) => text.len(),
    }
}

fn of_tool(it: &Tool) -> usize {
    ENTRY + it.name.len() + it.description.len() + of_value(&it.parameters)
}

fn of_value(it: &Value) -> usize {
    match it {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(all) => all.iter().map(|it| ENTRY + of_value(it)).sum(),
        Value::Object(all) => all.iter().map(|(name, it)| ENTRY + name.len() + of_value(it)).sum(),
    }
}

#[test]
fn what_is_long_weighs() {
    let weight = |json: Value| serde_json::from_value::<Event>(json).unwrap().weight();
    let long = "x".repeat(10_000);
    let tool = serde_json::json!({"name": "a", "parameters": {"properties": {"b": {"description": long}}}});
    let kept = [
        serde_json::json!({"event": "heard", "messages": [{"role": "user", "content": long}]}),
        serde_json::json!({"event": "decided", "node": "a", "learned": [{"b": [long]}], "to": "end"}),
        serde_json::json!({"event": "answered", "slot": 0, "response": {"response": "tools", "tools": [tool]}}),
    ];
    for event in kept {
        assert!((10_000..10_500).contains(&weight(event.clone())), "{event}");
    }
    assert_eq!(weight(serde_json::json!({"event": "failed", "node": "a", "reason": long})), 0);
}
