//! Turns and errors as results of tools.

use api_types::{Problem, Turn};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Map, Value, json};
use shared::TurnStatus;

/// Converts a turn to the result of the tool that ran it. An unfinished turn is no error: the text says how to go on.
pub(super) fn turn_result(turn: &Turn) -> CallToolResult {
    let (text, is_error) = match turn.status {
        TurnStatus::Completed => {
            (turn.output.as_ref().and_then(|output| output.reply.clone()).unwrap_or_default(), false)
        }
        TurnStatus::Interrupted => (question(turn), false),
        TurnStatus::Queued | TurnStatus::Running => {
            let id = turn.id;
            (
                format!("Turn {id} is {}. Call turn_status with this id to wait for its end.", turn.status),
                false,
            )
        }
        TurnStatus::Failed => {
            (format!("The turn failed: {}", turn.error.as_deref().unwrap_or("unknown cause")), true)
        }
        TurnStatus::Cancelled => ("The turn was cancelled.".to_owned(), true),
    };
    let mut result = match is_error {
        true => CallToolResult::error(vec![ContentBlock::text(text)]),
        false => CallToolResult::success(vec![ContentBlock::text(text)]),
    };
    result.structured_content = Some(fields(turn));
    result
}

fn question(turn: &Turn) -> String {
    let Some(interrupt) = &turn.interrupt else { return "The turn waits for an answer.".to_owned() };
    let mut text = format!("The agent asks: {}", interrupt.question);
    if !interrupt.options.is_empty() {
        text.push_str(&format!("\nOptions: {}", interrupt.options.join(", ")));
    }
    text.push_str(&format!("\nAnswer it with the tool `answer`, thread_id {}.", turn.thread_id));
    text
}

/// Returns the fields of a turn that programs need.
fn fields(turn: &Turn) -> Value {
    let all = json!({
        "turn_id": turn.id,
        "thread_id": turn.thread_id,
        "strategy": turn.strategy,
        "status": turn.status,
        "reply": turn.output.as_ref().and_then(|output| output.reply.as_ref()),
        "outcome": turn.outcome,
        "cause": turn.cause,
        "error": turn.error,
        "question": turn.interrupt,
        "usage": turn.usage,
    });
    let fields = all.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
}

/// Converts a response of the REST API to the result of a tool.
pub(super) fn response_result(response: &impl Serialize) -> CallToolResult {
    CallToolResult::structured(json!(response))
}

/// Converts an error to the result of a tool, so that a model can read it and do better.
pub(super) fn problem_result(problem: &Problem) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(problem.error.message.clone())]);
    result.structured_content = Some(json!(problem));
    result
}
