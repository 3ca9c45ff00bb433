//! Checks that a fixture tests something: a byte of each recorded answer is flipped, and the tests must notice.
//!
//! ## Why the transcript alone does not count
//!
//! A transcript shows the answers, so it changes with every flipped byte. A flip is noticed only if it also changes a
//! decision, a request (with its tools and schema), the state, or whether the answer is usable.

use serde_json::{Value, json};
use shared::{Answered, Event, Graph, Request, Response, rerun};

use crate::generic::final_transcript;

/// Results of the flips.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flips {
    /// Number of answers in which a flipped byte was noticed.
    pub answers: usize,
    /// Sequence numbers of answers in which no flipped byte was noticed.
    pub green: Vec<usize>,
    /// Number of irrelevant answers: the turn ended before the answer was read, nothing in it can be flipped, or it
    /// lists tools or prompts and none was used.
    pub unread: usize,
    /// Number of answers left out because the log has more than the maximum.
    pub left_out: usize,
}

/// Maximum answers of a log that are flipped. Each flip replays the whole log.
const MOST: usize = 200;

/// Flips a byte of each recorded answer and checks that the tests notice.
///
/// # Errors
///
/// The reason why today's code rejects `log` itself.
pub fn flips(graph: &'static dyn Graph, log: &[Event]) -> Result<Flips, String> {
    let (before, shown) = (derived(graph, log)?, final_transcript(graph, log)?);
    let used_answers = used_answers(log);
    let mut flips = Flips::default();
    let mut script = log.to_vec();
    let every = used_answers.len().div_ceil(MOST).max(1);
    for (n, event) in log.iter().enumerate() {
        let Event::Answered(answer) = event else { continue };
        let Ok(nth) = used_answers.binary_search(&n) else {
            flips.unread += 1;
            continue;
        };
        if nth % every != 0 {
            flips.left_out += 1;
            continue;
        }
        let mut flipped = flipped(answer).peekable();
        if flipped.peek().is_none() {
            flips.unread += 1;
            continue;
        }
        let red = flipped.any(|answer| {
            script[n] = answer.into();
            // A log that is rejected was noticed as well.
            derived(graph, &script).ok().as_ref() != Some(&before)
                && final_transcript(graph, &script).ok().as_ref() != Some(&shown)
        });
        script[n] = event.clone();
        match (red, is_list(&answer.response)) {
            (false, true) => flips.unread += 1,
            (false, false) => flips.green.push(n),
            (true, _) => {}
        }
        flips.answers += usize::from(red);
    }
    Ok(flips)
}

/// Everything that the code derives from a script, without the script's own content.
fn derived(graph: &'static dyn Graph, script: &[Event]) -> Result<Vec<Value>, String> {
    let text = |error: shared::InvalidLog| error.to_string();
    let log = rerun(graph, script).map_err(text)?.log;
    let mut thread = graph.begin();
    let mut derived = Vec::new();
    for event in &log {
        thread.apply(event).map_err(text)?;
        derived.push(if let Event::Asked(asked) = event {
            let tool_servers: Vec<_> = asked.requests.iter().flat_map(named_servers).map(|server| thread.server_tools(server)).collect();
            let summaries: Vec<_> = asked.requests.iter().filter(|request| is_summarised(request)).map(|request| thread.messages_of(request)).collect();
            json!({
                "event": event, "tools": thread.tools(), "tool_servers": tool_servers, "schema": thread.schema(),
                "summaries": summaries,
            })
        } else if event.is_decision() {
            json!(event)
        } else {
            json!([event.kind(), event.slot()])
        });
    }
    derived.push(thread.state().map_err(|error| error.to_string())?);
    Ok(derived)
}

/// Reports whether a request shows its model a summary, which only an earlier answer contains.
fn is_summarised(request: &Request) -> bool {
    matches!(request, Request::Chat { summarised: true, .. })
}

/// Servers whose tools a request names.
fn named_servers(request: &Request) -> &[String] {
    match request {
        Request::Chat { tool_servers, .. } => tool_servers,
        Request::ListTools { .. }
        | Request::CallTool { .. }
        | Request::ReadMore { .. }
        | Request::ListPrompts { .. }
        | Request::GetPrompt { .. }
        | Request::Describe { .. }
        | Request::Search { .. }
        | Request::Index { .. }
        | Request::Simulate(_) => &[],
    }
}

/// Reports whether an answer only lists tools or prompts, which a node need not use.
fn is_list(response: &Response) -> bool {
    match response {
        Response::Tools { .. }
        | Response::ToolsUnchanged
        | Response::Prompts { .. }
        | Response::SearchResults { .. }
        | Response::Echo { .. }
        | Response::Unavailable { .. } => true,
        Response::Reply(_)
        | Response::Output(_)
        | Response::OutputWithExtras { .. }
        | Response::Working { .. }
        | Response::InputRequired { .. }
        | Response::Prompt { .. }
        | Response::Described(_)
        | Response::Indexed { .. } => false,
    }
}

/// Sequence numbers of answers to nodes that decided.
fn used_answers(log: &[Event]) -> Vec<usize> {
    let (mut used_answers, mut open) = (Vec::new(), Vec::new());
    for (n, event) in log.iter().enumerate() {
        match event {
            Event::Answered(_) => open.push(n),
            Event::Decided(decided) if decided.budget_exceeded.is_none() => used_answers.append(&mut open),
            Event::Summarised(_) => used_answers.append(&mut open),
            Event::Asked(_) | Event::Decided(_) | Event::Cancelled(_) | Event::TurnStarted(_) => open.clear(),
            Event::Opened(_)
            | Event::Attempted(_)
            | Event::AttemptFailed(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::InputProvided(_)
            | Event::Failed(_)
            | Event::WriteEnded(_)
            | Event::Forked(_)
            | Event::TakenOver(_)
            | Event::Rated(_)
            | Event::Retried(_) => {}
        }
    }
    used_answers
}

/// All variants of an answer with one byte flipped.
fn flipped(answer: &Answered) -> impl Iterator<Item = Answered> {
    let value = serde_json::to_value(&answer.response).unwrap_or_default();
    let mut places = Vec::new();
    texts(&value, String::new(), &mut places);
    places.into_iter().filter_map(move |(pointer, at)| {
        let mut value = value.clone();
        let Some(Value::String(text)) = value.pointer_mut(&pointer) else { return None };
        let other = if text.as_bytes()[at] == b'x' { "y" } else { "x" };
        text.replace_range(at..=at, other);
        let response = serde_json::from_value(value).ok()?;
        Some(Answered { response, ..answer.clone() })
    })
}

/// Maximum letters of a text that are flipped.
const LETTERS: usize = 16;

/// Collects every text of an answer by its JSON pointer, with positions spread from the first letter to the last.
fn texts(value: &Value, pointer: String, places: &mut Vec<(String, usize)>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                texts(field, format!("{pointer}/{name}"), places);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| texts(item, format!("{pointer}/{n}"), places));
        }
        Value::String(text) => {
            let is_letter = |(_, byte): &(usize, u8)| byte.is_ascii_alphanumeric();
            let letters: Vec<usize> = text.bytes().enumerate().filter(is_letter).map(|(n, _)| n).collect();
            let some = letters.iter().step_by(letters.len().div_ceil(LETTERS).max(1));
            places.extend(some.map(|at| (pointer.clone(), *at)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
