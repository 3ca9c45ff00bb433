//! The indexed parts of an event: texts of people, models and tools, and the names of what was asked.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::Value;
use shared::{
    Answered, Asked, Decided, Event, Goto, InputProvided, InputResponse, Message, Rating, Reconciled,
    Request, Response, Role, ToolCall, ToolOutput, Verdict,
};

/// Maximum characters that are indexed of one text.
const TEXT_CHARS: usize = 32_768;

/// Maximum size of a name in bytes. Longer ones are not indexed.
const NAME_BYTES: usize = 256;

/// Maximum depth of arguments that is read.
const DEPTH: usize = 32;

/// Author of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speaker {
    /// A person, or a program in the place of one.
    User,
    /// Instructions of the client.
    System,
    /// A model, or the strategy on its behalf.
    Assistant,
    /// The arguments of a call.
    Arguments,
    /// A tool, in its result.
    Tool,
}

impl Speaker {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Speaker::User => "user",
            Speaker::System => "system",
            Speaker::Assistant => "assistant",
            Speaker::Arguments => "arguments",
            Speaker::Tool => "tool",
        }
    }
}

/// A text of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) by: Speaker,
    pub(crate) text: Cow<'a, str>,
}

/// Kind of a name that is searched for exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TermKind {
    /// A tool that was called, with its server and alone.
    Tool,
    /// A model that was asked, with its provider and alone.
    Model,
    /// The hash of a configured prompt.
    Prompt,
    /// A worker that attempted a call, took a thread over or lost it.
    Worker,
}

impl TermKind {
    /// Returns the number in the database.
    pub(crate) fn number(self) -> i32 {
        match self {
            TermKind::Tool => 0,
            TermKind::Model => 1,
            TermKind::Prompt => 2,
            TermKind::Worker => 3,
        }
    }
}

/// Returns the number of a rating in the database.
pub(crate) fn rating_number(rating: Rating) -> i32 {
    match rating {
        Rating::Bad => 0,
        Rating::Good => 1,
    }
}

/// Returns the texts of an event.
pub(crate) fn pieces(event: &Event) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    match event {
        Event::TurnStarted(started) => of_messages(&started.messages, &mut pieces),
        Event::Asked(Asked { requests, .. }) => of_requests(requests, &mut pieces),
        Event::Answered(answered) => of_answer(answered, &mut pieces),
        Event::Decided(Decided { messages, to, .. }) => {
            of_messages(messages, &mut pieces);
            if let Goto::Interrupt(question) = to {
                pieces.push(piece(Speaker::Assistant, &question.question));
            }
        }
        Event::InputProvided(InputProvided { response: InputResponse::Accept(value), .. }) => {
            pieces.push(Piece { by: Speaker::User, text: lines(value).into() });
        }
        Event::Reconciled(Reconciled { verdict: Verdict::Happened { result }, .. }) => {
            pieces.push(piece(Speaker::Tool, result));
        }
        Event::WriteEnded(ended) => pieces.push(piece(Speaker::Tool, &ended.text)),
        Event::Rated(rated) => pieces.push(piece(Speaker::User, &rated.note)),
        Event::InputProvided(_)
        | Event::Reconciled(_)
        | Event::Opened(_)
        | Event::Attempted(_)
        | Event::AttemptFailed(_)
        | Event::Abandoned(_)
        | Event::InDoubt(_)
        | Event::TaskStarted(_)
        | Event::InputRequired(_)
        | Event::Summarised(_)
        | Event::Failed(_)
        | Event::Retried(_)
        | Event::Cancelled(_)
        | Event::Forked(_)
        | Event::TakenOver(_) => {}
    }
    pieces.retain(|piece| !piece.text.is_empty());
    pieces
}

fn piece(by: Speaker, text: &str) -> Piece<'_> {
    let end = text.char_indices().nth(TEXT_CHARS).map_or(text.len(), |(at, _)| at);
    Piece { by, text: text[..end].into() }
}

fn of_messages<'a>(messages: &'a [Message], pieces: &mut Vec<Piece<'a>>) {
    for message in messages {
        let by = match message.role {
            Role::System => Speaker::System,
            Role::User => Speaker::User,
            Role::Assistant => Speaker::Assistant,
            Role::Tool => Speaker::Tool,
        };
        pieces.push(piece(by, &message.content));
        of_calls(&message.tool_calls, pieces);
    }
}

fn of_calls(calls: &[ToolCall], pieces: &mut Vec<Piece<'_>>) {
    let texts = calls.iter().map(|call| lines(&call.arguments));
    pieces.extend(texts.map(|text| Piece { by: Speaker::Arguments, text: text.into() }));
}

fn of_requests<'a>(requests: &'a [Request], pieces: &mut Vec<Piece<'a>>) {
    for request in requests {
        match request {
            Request::CallTool { call, .. } => of_calls(std::slice::from_ref(call), pieces),
            Request::Search { query, .. } => pieces.push(piece(Speaker::Arguments, query)),
            Request::Chat { .. }
            | Request::ListTools { .. }
            | Request::ReadMore { .. }
            | Request::ListPrompts { .. }
            | Request::GetPrompt { .. }
            | Request::Describe { .. }
            | Request::Index { .. }
            | Request::Simulate(_) => {}
        }
    }
}

fn of_answer<'a>(answered: &'a Answered, pieces: &mut Vec<Piece<'a>>) {
    match &answered.response {
        Response::Reply(reply) => {
            pieces.push(piece(Speaker::Assistant, &reply.content));
            of_calls(&reply.tool_calls, pieces);
        }
        Response::Output(output) | Response::OutputWithExtras { output, .. } => {
            let (ToolOutput::Ok(text) | ToolOutput::Error(text) | ToolOutput::Refused(text)) = output;
            pieces.push(piece(Speaker::Tool, text));
        }
        Response::Echo { text } => pieces.push(piece(Speaker::Assistant, text)),
        Response::Tools { .. }
        | Response::ToolsUnchanged
        | Response::Working { .. }
        | Response::InputRequired { .. }
        | Response::Prompts { .. }
        | Response::Prompt { .. }
        | Response::Described(_)
        | Response::SearchResults { .. }
        | Response::Indexed { .. }
        | Response::Unavailable { .. } => {}
    }
}

/// Writes arguments as text: `city: Oslo, days: 2`.
fn lines(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    if TEXT_CHARS < text.len() || DEPTH < depth {
        return;
    }
    let separate = |text: &mut String, nth: usize| {
        if 0 < nth {
            text.push_str(", ");
        }
    };
    match value {
        Value::Null => {}
        Value::Bool(is) => text.push_str(if *is { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::String(string) => text.push_str(&piece(Speaker::Arguments, string).text),
        Value::Array(values) => values.iter().enumerate().for_each(|(nth, value)| {
            separate(text, nth);
            write(value, depth + 1, text);
        }),
        Value::Object(fields) => fields.iter().enumerate().for_each(|(nth, (name, value))| {
            separate(text, nth);
            text.push_str(name);
            text.push_str(": ");
            write(value, depth + 1, text);
        }),
    }
}

/// Adds the names that an event brings to its turn.
pub(crate) fn add_terms(event: &Event, terms: &mut BTreeSet<(TermKind, String)>) {
    if let Event::Asked(Asked { requests, .. }) = event {
        requests.iter().for_each(|request| of_request(request, terms));
    }
    let workers = match event {
        Event::Attempted(attempted) => vec![&attempted.worker],
        Event::TakenOver(taken) => vec![&taken.worker, &taken.from],
        Event::Opened(_)
        | Event::TurnStarted(_)
        | Event::Asked(_)
        | Event::Answered(_)
        | Event::AttemptFailed(_)
        | Event::Abandoned(_)
        | Event::InDoubt(_)
        | Event::Reconciled(_)
        | Event::TaskStarted(_)
        | Event::InputRequired(_)
        | Event::InputProvided(_)
        | Event::Summarised(_)
        | Event::Decided(_)
        | Event::Failed(_)
        | Event::Retried(_)
        | Event::WriteEnded(_)
        | Event::Cancelled(_)
        | Event::Rated(_)
        | Event::Forked(_) => vec![],
    };
    let named = workers.into_iter().filter(|name| !name.is_empty());
    terms.extend(named.map(|name| (TermKind::Worker, name.clone())));
    terms.retain(|(_, name)| name.len() <= NAME_BYTES);
}

fn of_request(request: &Request, terms: &mut BTreeSet<(TermKind, String)>) {
    if let Request::CallTool { server, call } = request {
        terms.insert((TermKind::Tool, call.name.clone()));
        terms.insert((TermKind::Tool, format!("{server}.{}", call.name)));
    }
    if let Request::Chat { model, prompt, .. } = request {
        terms.insert((TermKind::Model, model.clone()));
        if let Some((_, name)) = model.split_once('/') {
            terms.insert((TermKind::Model, name.to_owned()));
        }
        terms.extend(prompt.iter().map(|prompt| (TermKind::Prompt, prompt.clone())));
    }
}
