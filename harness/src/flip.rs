//! Whether a fixture tests anything: one byte of each recorded answer is flipped, and something must turn red.
//!
//! ## Why the transcript alone does not count
//!
//! It shows the answers, so whatever is flipped in one is seen in it. Red is what also changes a decision, a request that is
//! put to the world (with the tools and the schema that go along), the state, or whether the answer is of use at all.

use serde_json::{Value, json};
use shared::{Answered, Event, Graph, Request, Response, reenact};

use crate::generic::lived;

/// What came of the flips.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flips {
    /// In how many answers a flipped byte turned something red.
    pub answers: usize,
    /// Those in which no byte did, by their numbers in the log.
    pub green: Vec<usize>,
    /// How many do not matter: the turn ended before anybody heard them, there is nothing to flip in them, or they are lists
    /// of what there is, of which nothing was used.
    pub unheard: usize,
    /// How many were left out, because there are too many.
    pub left_out: usize,
}

/// In how many answers of one log a byte is flipped at most: each flip lives the whole log again.
const MOST: usize = 200;

/// Flips one byte of each recorded answer, and looks whether that turns the tests red.
///
/// # Errors
///
/// Why today's code cannot go on in `log` as it stands.
pub fn flips(graph: &'static dyn Graph, log: &[Event]) -> Result<Flips, String> {
    let (before, shown) = (derived(graph, log)?, lived(graph, log)?);
    let heard = heard(log);
    let mut flips = Flips::default();
    let mut script = log.to_vec();
    let every = heard.len().div_ceil(MOST).max(1);
    for (n, event) in log.iter().enumerate() {
        let Event::Answered(answer) = event else { continue };
        let Ok(nth) = heard.binary_search(&n) else {
            flips.unheard += 1;
            continue;
        };
        if nth % every != 0 {
            flips.left_out += 1;
            continue;
        }
        let mut flipped = flipped(answer).peekable();
        if flipped.peek().is_none() {
            flips.unheard += 1;
            continue;
        }
        let red = flipped.any(|it| {
            script[n] = it.into();
            // What cannot be lived any more is red as well.
            derived(graph, &script).ok().as_ref() != Some(&before)
                && lived(graph, &script).ok().as_ref() != Some(&shown)
        });
        script[n] = event.clone();
        match (red, is_list(&answer.response)) {
            (false, true) => flips.unheard += 1,
            (false, false) => flips.green.push(n),
            (true, _) => {}
        }
        flips.answers += usize::from(red);
    }
    Ok(flips)
}

/// All that the code makes of a script, and nothing of what the script itself says.
fn derived(graph: &'static dyn Graph, script: &[Event]) -> Result<Vec<Value>, String> {
    let told = |error: shared::Corrupt| error.to_string();
    let log = reenact(graph, script).map_err(told)?.log;
    let mut thread = graph.begin();
    let mut derived = Vec::new();
    for event in &log {
        thread.apply(event).map_err(told)?;
        derived.push(if let Event::Asked(it) = event {
            let toolboxes: Vec<_> = it.requests.iter().flat_map(named).map(|it| thread.toolbox(it)).collect();
            json!({"event": event, "tools": thread.tools(), "toolboxes": toolboxes, "schema": thread.schema()})
        } else if event.is_decision() {
            json!(event)
        } else {
            json!([event.kind(), event.slot()])
        });
    }
    derived.push(thread.state().map_err(|error| error.to_string())?);
    Ok(derived)
}

/// The servers whose tools a request names.
fn named(request: &Request) -> &[String] {
    match request {
        Request::Chat { toolboxes, .. } => toolboxes,
        Request::ListTools { .. }
        | Request::CallTool { .. }
        | Request::ListPrompts { .. }
        | Request::GetPrompt { .. }
        | Request::Describe { .. }
        | Request::Search { .. }
        | Request::Index { .. }
        | Request::Rehearse(_) => &[],
    }
}

/// Whether it only lists what there is. What was said and done must matter, or the node is not tested; of what there is nothing
/// need be used.
fn is_list(response: &Response) -> bool {
    match response {
        Response::Tools { .. }
        | Response::SameTools
        | Response::Prompts { .. }
        | Response::Found { .. }
        | Response::Echo { .. }
        | Response::Unavailable { .. } => true,
        Response::Reply(_)
        | Response::Output(_)
        | Response::Whole { .. }
        | Response::Wants { .. }
        | Response::Prompt { .. }
        | Response::Described(_)
        | Response::Indexed { .. } => false,
    }
}

/// The answers of nodes that drew their conclusions, by number.
fn heard(log: &[Event]) -> Vec<usize> {
    let (mut heard, mut open) = (Vec::new(), Vec::new());
    for (n, event) in log.iter().enumerate() {
        match event {
            Event::Answered(_) => open.push(n),
            Event::Decided(it) if it.spent.is_none() => heard.append(&mut open),
            Event::Asked(_) | Event::Decided(_) | Event::Cancelled(_) | Event::Heard(_) => open.clear(),
            Event::Opened(_)
            | Event::Attempted(_)
            | Event::Faltered(_)
            | Event::GaveUp(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Wanted(_)
            | Event::Supplied(_)
            | Event::Failed(_)
            | Event::Forked(_)
            | Event::Retried(_) => {}
        }
    }
    heard
}

/// The answer with one byte of it flipped, in every way that is tried.
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

/// How many letters of a text are tried at most.
const LETTERS: usize = 16;

/// Every text of an answer, by its pointer, with letters of it from the first to the last.
fn texts(value: &Value, pointer: String, places: &mut Vec<(String, usize)>) {
    match value {
        Value::Object(fields) => {
            for (name, it) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                texts(it, format!("{pointer}/{name}"), places);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, it)| texts(it, format!("{pointer}/{n}"), places));
        }
        Value::String(text) => {
            let is_letter = |(_, it): &(usize, u8)| it.is_ascii_alphanumeric();
            let letters: Vec<usize> = text.bytes().enumerate().filter(is_letter).map(|(n, _)| n).collect();
            let some = letters.iter().step_by(letters.len().div_ceil(LETTERS).max(1));
            places.extend(some.map(|at| (pointer.clone(), *at)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
