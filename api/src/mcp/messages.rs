//! Turns and errors as results of tools.

use api_types::{Problem, Turn};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Map, Value, json};
use shared::TurnStatus;

/// Converts a turn to the result of the tool that ran it. An unfinished turn is no error: `next` says how to go on, in the text and
/// beside the fields, because some clients show their model only one of both.
pub(super) fn turn_result(turn: &Turn) -> CallToolResult {
    let next = next(turn);
    let (text, is_error) = match turn.status {
        TurnStatus::Completed => {
            (turn.output.as_ref().and_then(|output| output.reply.clone()).unwrap_or_default(), false)
        }
        TurnStatus::Interrupted => (question(turn), false),
        TurnStatus::Queued | TurnStatus::Running => (format!("Turn {} is {}.", turn.id, turn.status), false),
        TurnStatus::Failed => {
            (format!("The turn failed: {}", turn.error.as_deref().unwrap_or("unknown cause")), true)
        }
        TurnStatus::Cancelled => ("The turn was cancelled.".to_owned(), true),
    };
    let text = next.iter().fold(text, |text, next| format!("{text}\n{next}"));
    let mut result = match is_error {
        true => CallToolResult::error(vec![ContentBlock::text(text)]),
        false => CallToolResult::success(vec![ContentBlock::text(text)]),
    };
    result.structured_content = Some(fields(turn, next));
    result
}

fn question(turn: &Turn) -> String {
    let Some(interrupt) = &turn.interrupt else { return "The turn waits for an answer.".to_owned() };
    let mut text = format!("The agent asks: {}", interrupt.question);
    if !interrupt.options.is_empty() {
        text.push_str(&format!("\nOptions: {}", interrupt.options.join(", ")));
    }
    text
}

/// Returns the call that goes on with an unfinished turn.
fn next(turn: &Turn) -> Option<String> {
    let Turn { id, thread_id, .. } = turn;
    match turn.status {
        TurnStatus::Interrupted => Some(format!("Answer it with the tool `answer`, thread_id {thread_id}.")),
        TurnStatus::Queued | TurnStatus::Running => {
            Some(format!("Call turn_status with turn_id {id} to wait for its end."))
        }
        TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Cancelled => None,
    }
}

/// Returns the fields of a turn that programs need.
fn fields(turn: &Turn, next: Option<String>) -> Value {
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
        "next": next,
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
