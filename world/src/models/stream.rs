//! Assembles a reply from its chunks.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use shared::{Citation, EMPTY_REPLY, Fault, Reply, STRAY_CALLS, ToolCall, UnexpectedResponse};

use super::{
    Prompt,
    calls::{self, Call},
    content::Content,
    finish::Finish,
    json_text::join_halves,
    lenient, request,
    structured_output::OutputMode,
    token_counts::TokenCounts,
};
use crate::text::{call_id, truncate};

/// Maximum bytes of a reply: text, reasoning and arguments together.
const MAX_REPLY_BYTES: usize = 4 << 20;

/// Maximum characters of a response without a reply in its error.
const MAX_EXCERPT_CHARS: usize = 300;

/// Maximum bytes of the id of a response that is kept.
const ID_MAX: usize = 128;

/// Returns true if an id of a response is short and printable.
fn is_id(id: &str) -> bool {
    (1..=ID_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Prefix of the error for a reply that the model can fix by a shorter one.
const TRUNCATED: &str = "the reply was cut off at the length limit";

/// Prefix of the error for a reply that calls a function other than the required one.
const WRONG_FUNCTION: &str = "the model called a function other than the required one";

/// Returns true if an error is about the model's reply and not about the connection.
pub(super) fn is_fixable_by_model(error: &str) -> bool {
    let shape = UnexpectedResponse::Schema(String::new()).to_string();
    [TRUNCATED, WRONG_FUNCTION, STRAY_CALLS, EMPTY_REPLY, &shape]
        .iter()
        .any(|problem| error.starts_with(problem))
}

/// Returns true if an error is about a reply that is not in the form that was asked for.
pub(super) fn is_misfit(error: &str) -> bool {
    let shape = UnexpectedResponse::Schema(String::new()).to_string();
    error.starts_with(&shape) || error.starts_with(WRONG_FUNCTION)
}

/// Chunks received so far.
pub(super) struct ReplyStream {
    content: Content,
    refusal: String,
    calls: Vec<Call>,
    /// Calls in the form that OpenAI no longer uses. Some endpoints send every call in both forms.
    old_calls: Vec<Call>,
    /// Names of the tools that may be called, as endpoints know them.
    tools: BTreeSet<String>,
    citations: Vec<Citation>,
    finish: Option<Finish>,
    /// True after the mark at the end of the stream.
    is_done: bool,
    /// Beginning of a chunk without any part of a reply.
    unknown: Option<String>,
    bytes: usize,
    /// Model, as the endpoint names it.
    pub(super) by: Option<String>,
    /// Token counts so far.
    pub(super) tokens: TokenCounts,
    /// Id that the endpoint gave to the reply; empty if it gave none.
    pub(super) id: String,
}

impl ReplyStream {
    /// Begins a reply. `unopened` is true for a model that begins in the middle of its reasoning.
    pub(super) fn new(unopened: bool, prompt: &Prompt<'_>) -> Self {
        Self {
            content: Content::new(unopened),
            refusal: String::new(),
            calls: Vec::new(),
            old_calls: Vec::new(),
            tools: prompt.tools.iter().map(|tool| request::tool_name(&tool.name)).collect(),
            citations: Vec::new(),
            finish: None,
            is_done: false,
            unknown: None,
            bytes: 0,
            by: None,
            tokens: TokenCounts::default(),
            id: String::new(),
        }
    }

    /// Adds a chunk and returns the text of the answer in it.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the reply is too long.
    pub(super) fn add(&mut self, chunk: &Value) -> Result<String, Fault> {
        if let Some(model) = chunk["model"].as_str().filter(|text| !text.is_empty()) {
            self.by = Some(model.to_owned());
        }
        if let Some(id) = chunk["id"].as_str().filter(|id| self.id.is_empty() && is_id(id)) {
            self.id = id.to_owned();
        }
        self.tokens.add(chunk);
        if chunk.get("choices").is_none() && chunk.get("usage").is_none() && self.unknown.is_none() {
            self.unknown = Some(truncate(&chunk.to_string(), MAX_EXCERPT_CHARS));
        }
        let choice = &chunk["choices"][0];
        if let Some(finish) = choice["finish_reason"].as_str().and_then(Finish::of) {
            self.finish = Some(finish);
        }
        let Some(delta) = self.delta(choice) else { return Ok(String::new()) };
        let bytes = self.content.bytes();
        let text = self.content.add(delta);
        self.bytes += self.content.bytes() - bytes;
        let refusal = delta["refusal"].as_str().unwrap_or("");
        self.refusal.push_str(refusal);
        self.bytes += refusal.len();
        for annotation in delta["annotations"].as_array().into_iter().flatten() {
            self.add_citation(annotation);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.bytes += calls::add_piece(&mut self.calls, call, &self.tools);
        }
        if delta["function_call"].is_object() {
            self.bytes += calls::add_piece(&mut self.old_calls, &delta["function_call"], &self.tools);
        }
        if MAX_REPLY_BYTES < self.bytes {
            return Err(Fault::in_doubt(format!("the reply is longer than {MAX_REPLY_BYTES} bytes")));
        }
        Ok(text)
    }

    /// Returns the piece of the reply in a choice. A reply that is not streamed is a message.
    ///
    /// Some endpoints send an empty delta beside a message. The message is then the whole reply, or repeats it.
    fn delta<'a>(&self, choice: &'a Value) -> Option<&'a Value> {
        let (delta, message) = (&choice["delta"], &choice["message"]);
        let has_any = |piece: &Value| {
            let is_empty = |value: &Value| matches!(value, Value::Null) || value == "" || *value == json!([]);
            let fields = piece.as_object().into_iter().flatten();
            fields.filter(|(key, _)| *key != "role").any(|(_, value)| !is_empty(value))
        };
        if !message.is_object() || has_any(delta) {
            return Some(delta);
        }
        (!delta.is_object() || self.is_empty()).then_some(message)
    }

    /// Returns true if nothing of a reply has arrived.
    fn is_empty(&self) -> bool {
        self.content.bytes() == 0
            && self.calls.is_empty()
            && self.old_calls.is_empty()
            && self.refusal.is_empty()
    }

    /// Records that the endpoint called the reply complete.
    pub(super) fn done(&mut self) {
        self.is_done = true;
    }

    /// Adds a citation. Some providers write its fields beside the type and not below it.
    fn add_citation(&mut self, annotation: &Value) {
        let cited =
            if annotation["url_citation"].is_object() { &annotation["url_citation"] } else { annotation };
        let Some(url) = cited["url"].as_str().filter(|_| annotation["type"] == "url_citation") else {
            return;
        };
        let title = cited["title"].as_str().unwrap_or("");
        let end = cited["end_index"].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
        self.bytes += url.len() + title.len() + size_of::<Citation>();
        self.citations.push(Citation { url: url.to_owned(), title: title.to_owned(), end });
    }

    /// Ends the text, and returns the part of it that was still held back.
    pub(super) fn end(&mut self) -> String {
        self.content.end()
    }

    /// Moves reasoning without an opening mark out of the text. Returns true if there was any.
    pub(super) fn take_unopened_reasoning(&mut self) -> bool {
        self.content.take_unopened_reasoning()
    }

    /// Completes the reply.
    ///
    /// # Errors
    ///
    /// [`Fault`] if it is incomplete or was withheld.
    pub(super) fn whole(
        self,
        provider: &str,
        prompt: &Prompt<'_>,
        mode: Option<OutputMode>,
    ) -> Result<Reply, Fault> {
        let finish = self.finish(provider)?;
        let Self { content, refusal, calls, old_calls, citations, .. } = self;
        let mut calls = if calls.is_empty() { old_calls } else { calls };
        let (mut content, reasoning) = content.into_parts();
        let cut_off = finish == Finish::Length;
        if cut_off {
            let has_partial_call = calls.iter().any(|call| !call.is_whole())
                || (calls.is_empty() && !prompt.tools.is_empty() && lenient::starts_partial_call(&content));
            let is_empty = content.trim().is_empty() && calls.is_empty();
            if has_partial_call || is_empty || prompt.shape.is_some() {
                return Err(truncated(provider, prompt.complaint));
            }
        }
        if !refusal.is_empty() && prompt.shape.is_some() {
            return Err(Fault::transient(format!(
                "the model refused to answer: {}",
                truncate(&refusal, 500)
            )));
        }
        content.push_str(&refusal);
        if mode == Some(OutputMode::Tool) {
            extract_answer(&mut content, &mut calls);
            let is_offered =
                |call: &&Call| prompt.tools.iter().any(|tool| request::tool_name(&tool.name) == call.name);
            if let Some(call) = calls.first().filter(|call| content.trim().is_empty() && !is_offered(call)) {
                return Err(Fault::transient(format!(
                    "{WRONG_FUNCTION}: {:?} instead of {:?}",
                    truncate(&call.name, 64),
                    request::ANSWER_FUNCTION
                )));
            }
        }
        let reply = Reply { reasoning, cut_off, ..Reply::default() };
        if prompt.shape.is_some() && (calls.is_empty() || !content.trim().is_empty()) {
            content = lenient::only_object(&content).into_owned();
        } else if calls.is_empty()
            && let Some(call) = call_in_text(&content, prompt)
        {
            return Ok(Reply { tool_calls: vec![call], ..reply });
        }
        Ok(Reply { content, tool_calls: calls::convert(calls, prompt), citations, ..reply })
    }

    /// Determines how the reply ended. Some endpoints give no reason, and only end the stream as they should.
    fn finish(&self, provider: &str) -> Result<Finish, Fault> {
        let mut calls = self.calls.iter().chain(&self.old_calls);
        let is_empty = self.content.text.trim().is_empty()
            && self.calls.is_empty()
            && self.old_calls.is_empty()
            && self.refusal.is_empty();
        match (&self.finish, &self.unknown) {
            (Some(Finish::Withheld), _) => {
                Err(Fault::transient(format!("the content filter of provider {provider} withheld the reply")))
            }
            (Some(Finish::Failed(word)), _) => Err(Fault::transient(format!(
                "provider {provider} broke off the reply: {:?}",
                truncate(word, 64)
            ))),
            (Some(finish), _) => Ok(finish.clone()),
            (None, Some(unknown)) if is_empty => Err(Fault::permanent(format!(
                "the response of provider {provider} holds no reply: {unknown}; hint: check providers.{provider}.base_url"
            ))),
            (None, _) if self.is_done && !is_empty && calls.all(Call::is_whole) => Ok(Finish::Whole),
            (None, _) => Err(Fault::in_doubt(format!("the reply of provider {provider} was interrupted"))),
        }
    }
}

/// A model that was asked for a shorter reply and exceeds the limit again is unlikely to succeed a third time.
fn truncated(provider: &str, complaint: Option<&str>) -> Fault {
    if complaint.is_some_and(|complaint| complaint.starts_with(TRUNCATED)) {
        return Fault::permanent(format!(
            "{TRUNCATED} of provider {provider} twice; hint: allow its replies more tokens, or use another model, then run: turnfold turn retry"
        ));
    }
    Fault::transient(format!("{TRUNCATED} of provider {provider}; a shorter reply is needed"))
}

/// Extracts the answer from the call of the answer function, made or written as text. An answer as plain text is
/// accepted too.
fn extract_answer(content: &mut String, calls: &mut Vec<Call>) {
    if let Some(at) = calls.iter().position(|call| call.name == request::ANSWER_FUNCTION) {
        let raw = join_halves(&calls[at].arguments).into_owned();
        let arguments = calls::arguments(&raw);
        let is_plain = raw.trim().is_empty() || (raw.trim_start().starts_with('{') && calls[at].is_whole());
        *content = if arguments.is_object() && !is_plain { arguments.to_string() } else { raw };
        calls.retain(|call| call.name != request::ANSWER_FUNCTION);
    } else if let Some((_, arguments)) =
        lenient::call(content).filter(|(name, _)| name == request::ANSWER_FUNCTION)
    {
        *content = match arguments {
            Value::String(raw) => raw,
            Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
                arguments.to_string()
            }
        };
    }
}

/// Parses a call that the model wrote as text instead of calling.
fn call_in_text(content: &str, prompt: &Prompt<'_>) -> Option<ToolCall> {
    let (name, raw) = lenient::call(content)?;
    let legal = request::tool_name(&name);
    let tool = prompt.tools.iter().find(|it| it.name == name || request::tool_name(&it.name) == legal)?;
    let arguments = match raw {
        Value::String(raw) => calls::arguments(&raw),
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => raw,
    };
    Some(ToolCall { id: call_id(prompt.position, 0), name: tool.name.clone(), arguments })
}
