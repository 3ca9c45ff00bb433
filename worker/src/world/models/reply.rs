//! A reply, put together from the pieces in which it is streamed.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use shared::{Citation, Fault, Refused, Reply, ToolCall};

use super::{Prompt, form::Form, tolerant, wire};
use crate::world::{call_id, cut};

/// The longest reply that is taken, in bytes: of words and arguments together.
const REPLY_MAX: usize = 4 << 20;

/// How a complaint begins that the model can mend by saying less.
const CUT_OFF: &str = "the reply was cut off at the length limit";

/// How a complaint begins about a model that was told what to call and called something else.
const ANOTHER: &str = "the model called another function than it was asked for";

/// Whether a complaint is about what the model said, and not about a line that was down.
pub(super) fn is_the_models_to_mend(complaint: &str) -> bool {
    let shape = Refused::Shape(String::new()).to_string();
    [CUT_OFF, ANOTHER, &shape].iter().any(|it| complaint.starts_with(it))
}

/// What has come in so far.
#[derive(Default)]
pub(super) struct Pieces {
    content: String,
    refusal: String,
    calls: Vec<Call>,
    citations: Vec<Citation>,
    finish: Option<String>,
    bytes: usize,
    /// The model, as the endpoint names it.
    pub(super) by: Option<String>,
    /// Tokens read.
    pub(super) input_tokens: u64,
    /// Tokens written.
    pub(super) output_tokens: u64,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Pieces {
    /// Takes in one more piece, and gives back the words in it.
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
        let words = choice["delta"]["content"].as_str().unwrap_or("");
        self.content.push_str(words);
        let refusal = choice["delta"]["refusal"].as_str().unwrap_or("");
        self.refusal.push_str(refusal);
        self.bytes += words.len() + refusal.len();
        for note in choice["delta"]["annotations"].as_array().into_iter().flatten() {
            self.add_note(note);
        }
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            self.add_call(call);
        }
        if REPLY_MAX < self.bytes {
            return Err(Fault::doubt(format!("the reply is longer than {REPLY_MAX} bytes")));
        }
        Ok(words)
    }

    /// Takes in a page that the provider says was read. Some write its particulars beside the kind and not below it.
    fn add_note(&mut self, note: &Value) {
        let cited = if note["url_citation"].is_object() { &note["url_citation"] } else { note };
        let Some(url) = cited["url"].as_str().filter(|_| note["type"] == "url_citation") else { return };
        let title = cited["title"].as_str().unwrap_or("");
        let end = cited["end_index"].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
        self.bytes += url.len() + title.len() + size_of::<Citation>();
        self.citations.push(Citation { url: url.to_owned(), title: title.to_owned(), end });
    }

    /// Endpoints differ: some number the calls, some only name them, some number all of them zero.
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

    /// The whole reply.
    ///
    /// # Errors
    ///
    /// [`Fault`] if it is not whole, or was withheld.
    pub(super) fn whole(
        self,
        provider: &str,
        prompt: &Prompt<'_>,
        form: Option<Form>,
    ) -> Result<Reply, Fault> {
        let Self { mut content, refusal, mut calls, finish, citations, .. } = self;
        let half = calls.last().is_some_and(|it| serde_json::from_str::<Value>(&it.arguments).is_err());
        let begun = calls.is_empty() && !prompt.tools.is_empty() && tolerant::is_call_begun(&content);
        match finish.as_deref() {
            None => return Err(Fault::doubt(format!("the reply of provider {provider} broke off"))),
            Some("length") if half || begun || prompt.shape.is_some() => {
                return Err(cut_off(provider, prompt.complaint));
            }
            Some("content_filter") => {
                return Err(Fault::again(format!(
                    "the content filter of provider {provider} withheld the reply"
                )));
            }
            Some(_) => (),
        }
        if !refusal.is_empty() && prompt.shape.is_some() {
            return Err(Fault::again(format!("the model refuses to answer: {}", cut(&refusal, 500))));
        }
        content.push_str(&refusal);
        if form == Some(Form::Tool) {
            answered(&mut content, &mut calls);
            if let Some(call) = calls.first().filter(|_| content.trim().is_empty()) {
                return Err(Fault::again(format!(
                    "{ANOTHER}: {:?} and not {:?}",
                    cut(&call.name, 64),
                    wire::ANSWER
                )));
            }
        }
        if prompt.shape.is_some() {
            content = tolerant::bare(&content).to_owned();
        } else if calls.is_empty()
            && let Some(call) = told(&content, prompt)
        {
            return Ok(Reply { tool_calls: vec![call], ..Reply::default() });
        }
        Ok(Reply { content, tool_calls: named(calls, prompt), citations })
    }
}

/// A model that was told to say it in less and rambles on is not likely to get better by being asked a third time.
fn cut_off(provider: &str, complaint: Option<&str>) -> Fault {
    if complaint.is_some_and(|it| it.starts_with(CUT_OFF)) {
        return Fault::operator(format!(
            "{CUT_OFF} of provider {provider} twice: allow its replies more tokens, or take another model"
        ));
    }
    Fault::again(format!("{CUT_OFF} of provider {provider}: its model must say it in less"))
}

/// Takes the answer out of the call through which it was asked for, be it made or written as words; a model that just
/// said it is fine as well.
fn answered(content: &mut String, calls: &mut Vec<Call>) {
    if let Some(at) = calls.iter().position(|it| it.name == wire::ANSWER) {
        *content = std::mem::take(&mut calls[at].arguments);
        calls.retain(|it| it.name != wire::ANSWER);
    } else if let Some((_, arguments)) = tolerant::call(content).filter(|(name, _)| name == wire::ANSWER) {
        *content = match arguments {
            Value::String(written) => written,
            Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
                arguments.to_string()
            }
        };
    }
}

/// The call that the words are, of a model that was never taught to call otherwise.
fn told(content: &str, prompt: &Prompt<'_>) -> Option<ToolCall> {
    let (name, written) = tolerant::call(content)?;
    let tool = prompt.tools.iter().find(|it| it.name == name || wire::tool_name(&it.name) == name)?;
    let arguments = match written {
        Value::String(written) => arguments(&written),
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => written,
    };
    Some(ToolCall { id: call_id(prompt.at, 0), name: tool.name.clone(), arguments })
}

/// The calls, each with an id of its own and the name of a tool as its server knows it.
fn named(calls: Vec<Call>, prompt: &Prompt<'_>) -> Vec<ToolCall> {
    let mut ids = BTreeSet::new();
    let own_name = |name: String| match prompt.tools.iter().find(|it| wire::tool_name(&it.name) == name) {
        Some(tool) => tool.name.clone(),
        None => name,
    };
    let call = |(nth, it): (usize, Call)| {
        let fresh = !it.id.is_empty() && ids.insert(it.id.clone());
        let id = if fresh { it.id } else { call_id(prompt.at, nth) };
        ToolCall { id, name: own_name(it.name), arguments: arguments(&it.arguments) }
    };
    calls.into_iter().enumerate().map(call).collect()
}

/// What the model wrote: none is an empty object, and what is no JSON stays a string.
fn arguments(written: &str) -> Value {
    if written.trim().is_empty() {
        return Map::new().into();
    }
    match serde_json::from_str(written) {
        Ok(Value::Null) => Map::new().into(),
        Ok(value) => value,
        Err(_) => written.into(),
    }
}
