//! Assembles a reply from its chunks.

use serde_json::Value;
use shared::{Citation, EMPTY_REPLY, Fault, Reply, STRAY_CALLS, ToolCall, UnexpectedResponse};

use super::{
    Prompt,
    calls::{self, Call},
    content::Content,
    json_text::join_halves,
    lenient, request,
    structured_output::OutputMode,
};
use crate::text::{call_id, truncate};

/// Maximum bytes of a reply: text, reasoning and arguments together.
const MAX_REPLY_BYTES: usize = 4 << 20;

/// Maximum characters of a response without a reply in its error.
const MAX_EXCERPT_CHARS: usize = 300;

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

/// Chunks received so far.
pub(super) struct ReplyStream {
    content: Content,
    refusal: String,
    calls: Vec<Call>,
    citations: Vec<Citation>,
    finish: Option<Finish>,
    /// True after the mark at the end of the stream.
    is_done: bool,
    /// Beginning of a chunk without any part of a reply.
    unknown: Option<String>,
    bytes: usize,
    /// Model, as the endpoint names it.
    pub(super) by: Option<String>,
    /// Number of tokens in the prompt.
    pub(super) input_tokens: u64,
    /// Number of tokens in the reply.
    pub(super) output_tokens: u64,
}

/// Reason why a reply ended.
#[derive(Clone, Debug, PartialEq)]
enum Finish {
    Whole,
    Length,
    Withheld,
    /// The endpoint gave up, and says so in this word.
    Failed(String),
}

impl Finish {
    /// Reads the reason; endpoints have several words for each. An empty word is none.
    fn of(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "" | "null" => return None,
            "length" | "max_tokens" | "max_output_tokens" | "model_length" | "token_limit" => Self::Length,
            "content_filter" | "safety" | "recitation" | "prohibited_content" | "blocklist" | "spii" => {
                Self::Withheld
            }
            "error"
            | "abort"
            | "cancelled"
            | "timeout"
            | "insufficient_system_resource"
            | "network_error"
            | "malformed_function_call" => Self::Failed(word.to_owned()),
            _ => Self::Whole,
        })
    }
}

impl ReplyStream {
    /// Begins a reply. `unopened` is true for a model that begins in the middle of its reasoning.
    pub(super) fn new(unopened: bool) -> Self {
        Self {
            content: Content::new(unopened),
            refusal: String::new(),
            calls: Vec::new(),
            citations: Vec::new(),
            finish: None,
            is_done: false,
            unknown: None,
            bytes: 0,
            by: None,
            input_tokens: 0,
            output_tokens: 0,
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
        for usage in [&chunk["x_groq"]["usage"], &chunk["usage"]] {
            if let Value::Object(usage) = usage {
                let tokens = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
                (self.input_tokens, self.output_tokens) =
                    (tokens("prompt_tokens"), tokens("completion_tokens"));
            }
        }
        if chunk.get("choices").is_none() && chunk.get("usage").is_none() && self.unknown.is_none() {
            self.unknown = Some(truncate(&chunk.to_string(), MAX_EXCERPT_CHARS));
        }
        let choice = &chunk["choices"][0];
        if let Some(finish) = choice["finish_reason"].as_str().and_then(Finish::of) {
            self.finish = Some(finish);
        }
        // A reply that is not streamed is a message.
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
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
            self.bytes += calls::add_piece(&mut self.calls, call);
        }
        if delta["function_call"].is_object() {
            self.bytes += calls::add_piece(&mut self.calls, &delta["function_call"]);
        }
        if MAX_REPLY_BYTES < self.bytes {
            return Err(Fault::in_doubt(format!("the reply is longer than {MAX_REPLY_BYTES} bytes")));
        }
        Ok(text)
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
        let Self { content, refusal, mut calls, citations, .. } = self;
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
            if let Some(call) = calls.first().filter(|_| content.trim().is_empty()) {
                return Err(Fault::transient(format!(
                    "{WRONG_FUNCTION}: {:?} instead of {:?}",
                    truncate(&call.name, 64),
                    request::ANSWER_FUNCTION
                )));
            }
        }
        let reply = Reply { reasoning, cut_off, ..Reply::default() };
        if prompt.shape.is_some() {
            content = lenient::only_object(&content).to_owned();
        } else if calls.is_empty()
            && let Some(call) = call_in_text(&content, prompt)
        {
            return Ok(Reply { tool_calls: vec![call], ..reply });
        }
        Ok(Reply { content, tool_calls: calls::convert(calls, prompt), citations, ..reply })
    }

    /// Determines how the reply ended. Some endpoints give no reason, and only end the stream as they should.
    fn finish(&self, provider: &str) -> Result<Finish, Fault> {
        let is_empty =
            self.content.text.trim().is_empty() && self.calls.is_empty() && self.refusal.is_empty();
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
            (None, _) if self.is_done && !is_empty && self.calls.iter().all(Call::is_whole) => {
                Ok(Finish::Whole)
            }
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
