//! Assembles a reply from the chunks of a stream.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use shared::{Citation, Fault, Reply, ToolCall, UnexpectedResponse};

use super::{Prompt, lenient, request, structured_output::OutputMode};
use crate::world::{call_id, truncate};

/// Maximum bytes of a reply, text and arguments together.
const MAX_REPLY_BYTES: usize = 4 << 20;

/// Prefix of the error for a reply that the model can fix by a shorter one.
const TRUNCATED: &str = "the reply was cut off at the length limit";

/// Prefix of the error for a reply that calls a function other than the required one.
const WRONG_FUNCTION: &str = "the model called a function other than the required one";

/// Returns true if an error is about the model's reply and not about the connection.
pub(super) fn is_fixable_by_model(error: &str) -> bool {
    let shape = UnexpectedResponse::Schema(String::new()).to_string();
    [TRUNCATED, WRONG_FUNCTION, &shape].iter().any(|it| error.starts_with(it))
}

/// Chunks received so far.
#[derive(Default)]
pub(super) struct ReplyStream {
    content: String,
    refusal: String,
    calls: Vec<Call>,
    citations: Vec<Citation>,
    finish: Option<String>,
    bytes: usize,
    /// Model, as the endpoint names it.
    pub(super) by: Option<String>,
    /// Number of tokens in the prompt.
    pub(super) input_tokens: u64,
    /// Number of tokens in the reply.
    pub(super) output_tokens: u64,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl ReplyStream {
    /// Adds a chunk and returns the text in it.
    pub(super) fn add<'c>(&mut self, chunk: &'c Value) -> Result<&'c str, Fault> {
        if let Some(model) = chunk["model"].as_str().filter(|it| !it.is_empty()) {
            self.by = Some(model.to_owned());
        }
        if let Value::Object(usage) = &chunk["usage"] {
            let tokens = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
            (self.input_tokens, self.output_tokens) = (tokens("prompt_tokens"), tokens("completion_tokens"));
        }
        let choice = &chunk["choices"][0];
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish = Some(reason.to_owned());
        }
        let text = choice["delta"]["content"].as_str().unwrap_or("");
        self.content.push_str(text);
        let refusal = choice["delta"]["refusal"].as_str().unwrap_or("");
        self.refusal.push_str(refusal);
        self.bytes += text.len() + refusal.len();
        for annotation in choice["delta"]["annotations"].as_array().into_iter().flatten() {
            self.add_citation(annotation);
        }
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            self.add_call(call);
        }
        if MAX_REPLY_BYTES < self.bytes {
            return Err(Fault::in_doubt(format!("the reply is longer than {MAX_REPLY_BYTES} bytes")));
        }
        Ok(text)
    }

    /// Adds a citation. Some providers write its fields beside the type and not below it.
    fn add_citation(&mut self, annotation: &Value) {
        let cited =
            if annotation["url_citation"].is_object() { &annotation["url_citation"] } else { annotation };
        let Some(url) = cited["url"].as_str().filter(|_| annotation["type"] == "url_citation") else {
            return;
        };
        let title = cited["title"].as_str().unwrap_or("");
        let end = cited["end_index"].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
        self.bytes += url.len() + title.len() + size_of::<Citation>();
        self.citations.push(Citation { url: url.to_owned(), title: title.to_owned(), end });
    }

    /// Adds a chunk of a tool call. Endpoints differ: some number the calls, some only name them, some number all of
    /// them zero.
    fn add_call(&mut self, delta: &Value) {
        let index = delta["index"].as_u64();
        let id = delta["id"].as_str().unwrap_or("");
        let name = delta["function"]["name"].as_str().unwrap_or("");
        let arguments = delta["function"]["arguments"].as_str().unwrap_or("");
        self.bytes += id.len() + name.len() + arguments.len() + size_of::<Call>();
        let same = |it: &Call| match index {
            Some(_) => it.index == index && (id.is_empty() || it.id.is_empty() || it.id == id),
            None => (id.is_empty() && name.is_empty()) || (!id.is_empty() && it.id == id),
        };
        let at = self.calls.iter().rposition(same).unwrap_or_else(|| {
            self.calls.push(Call { index, ..Call::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id.to_owned();
        }
        if call.name.is_empty() {
            call.name = name.to_owned();
        }
        call.arguments.push_str(arguments);
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
        let Self { mut content, refusal, mut calls, finish, citations, .. } = self;
        let has_partial_arguments =
            calls.last().is_some_and(|it| serde_json::from_str::<Value>(&it.arguments).is_err());
        let has_partial_call =
            calls.is_empty() && !prompt.tools.is_empty() && lenient::starts_partial_call(&content);
        match finish.as_deref() {
            None => return Err(Fault::in_doubt(format!("the reply of provider {provider} was interrupted"))),
            Some("length") if has_partial_arguments || has_partial_call || prompt.shape.is_some() => {
                return Err(truncated(provider, prompt.complaint));
            }
            Some("content_filter") => {
                return Err(Fault::transient(format!(
                    "the content filter of provider {provider} withheld the reply"
                )));
            }
            Some(_) => (),
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
            if let Some(call) = calls.first().filter(|_| content.trim().is_empty()) {
                return Err(Fault::transient(format!(
                    "{WRONG_FUNCTION}: {:?} instead of {:?}",
                    truncate(&call.name, 64),
                    request::ANSWER_FUNCTION
                )));
            }
        }
        if prompt.shape.is_some() {
            content = lenient::only_object(&content).to_owned();
        } else if calls.is_empty()
            && let Some(call) = call_in_text(&content, prompt)
        {
            return Ok(Reply { tool_calls: vec![call], ..Reply::default() });
        }
        Ok(Reply { content, tool_calls: convert_calls(calls, prompt), citations })
    }
}

/// A model that was asked for a shorter reply and exceeds the limit again is unlikely to succeed a third time.
fn truncated(provider: &str, complaint: Option<&str>) -> Fault {
    if complaint.is_some_and(|it| it.starts_with(TRUNCATED)) {
        return Fault::permanent(format!(
            "{TRUNCATED} of provider {provider} twice; hint: allow its replies more tokens, or use another model, then run: turnfold turn retry"
        ));
    }
    Fault::transient(format!("{TRUNCATED} of provider {provider}; a shorter reply is needed"))
}

/// Extracts the answer from the call of the answer function, made or written as text. An answer as plain text is
/// accepted too.
fn extract_answer(content: &mut String, calls: &mut Vec<Call>) {
    if let Some(at) = calls.iter().position(|it| it.name == request::ANSWER_FUNCTION) {
        *content = std::mem::take(&mut calls[at].arguments);
        calls.retain(|it| it.name != request::ANSWER_FUNCTION);
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
        Value::String(raw) => arguments(&raw),
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => raw,
    };
    Some(ToolCall { id: call_id(prompt.position, 0), name: tool.name.clone(), arguments })
}

/// Converts the calls: unique ids, and tool names as their server knows them.
fn convert_calls(calls: Vec<Call>, prompt: &Prompt<'_>) -> Vec<ToolCall> {
    let mut ids = BTreeSet::new();
    let server_name = |name: String| match prompt.tools.iter().find(|it| request::tool_name(&it.name) == name)
    {
        Some(tool) => tool.name.clone(),
        None => name,
    };
    let call = |(nth, it): (usize, Call)| {
        let is_unique = !it.id.is_empty() && ids.insert(it.id.clone());
        let id = if is_unique { it.id } else { call_id(prompt.position, nth) };
        ToolCall { id, name: server_name(it.name), arguments: arguments(&it.arguments) }
    };
    calls.into_iter().enumerate().map(call).collect()
}

/// Parses arguments: an empty string is an empty object, and invalid JSON stays a string.
fn arguments(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return Map::new().into();
    }
    match serde_json::from_str(raw) {
        Ok(Value::Null) => Map::new().into(),
        Ok(value) => value,
        Err(_) => raw.into(),
    }
}
