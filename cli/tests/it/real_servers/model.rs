//! A scripted model behind an endpoint that rejects the requests OpenAI rejects.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};

#[path = "../../../../world/tests/it/world/strictness.rs"]
mod strictness;

/// The reply to requests of a given form. If several rules match, the first one applies.
#[derive(Clone)]
pub(super) struct Rule {
    shape: &'static str,
    system: Vec<String>,
    last: String,
    replies: Reply,
}

#[derive(Clone)]
enum Reply {
    Text(String),
    Calls(Vec<(String, Value)>),
}

/// Matches requests without structured output whose system prompt contains `system` and whose last message is from the
/// role `last` or contains that text. An empty text matches every message.
pub(super) fn matching(system: &str, last: &str) -> Rule {
    Rule {
        shape: "",
        system: vec![system.to_owned()],
        last: last.to_owned(),
        replies: Reply::Text(String::new()),
    }
}

/// Matches requests for structured output of this shape.
pub(super) fn shaped(shape: &'static str, answer: &Value) -> Rule {
    Rule { shape, ..matching("", "") }.replies(&answer.to_string())
}

impl Rule {
    /// Restricts the rule to requests whose system prompt also contains this text.
    pub(super) fn with_system(mut self, system: &str) -> Self {
        self.system.push(system.to_owned());
        self
    }

    /// Replies with this text, in which `{results}` is replaced by all tool results so far.
    pub(super) fn replies(self, text: &str) -> Self {
        Self { replies: Reply::Text(text.to_owned()), ..self }
    }

    /// Replies with concurrent calls of these tools.
    pub(super) fn calls<'a>(self, calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let calls = calls.into_iter().map(|(name, arguments)| (name.to_owned(), arguments));
        Self { replies: Reply::Calls(calls.collect()), ..self }
    }

    fn fits(&self, request: &Value) -> bool {
        let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let last = messages.last().unwrap_or(&Value::Null);
        let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
        let shape = request["response_format"]["json_schema"]["name"].as_str().unwrap_or_default();
        shape == self.shape
            && self.system.iter().all(|part| text(&messages[0]).contains(part))
            && match &*self.last {
                role @ ("user" | "assistant" | "tool") => last["role"] == *role,
                part => text(last).contains(part),
            }
    }
}

/// A running endpoint with its scripted models.
pub(super) struct Model {
    pub(super) base_url: String,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    rules: Mutex<BTreeMap<&'static str, Vec<Rule>>>,
    refused: Mutex<Vec<String>>,
    calls: AtomicUsize,
}

impl Model {
    pub(super) async fn serve() -> Self {
        let script = Arc::new(Script::default());
        let app = Router::new()
            .route("/v1/chat/completions", post(complete))
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&script));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { base_url, script }
    }

    /// Sets the rules of the model with this name.
    pub(super) fn set_rules(&self, name: &'static str, rules: Vec<Rule>) {
        self.script.rules.lock().unwrap().insert(name, rules);
    }

    /// Returns the requests that OpenAI would reject or that no rule matches.
    pub(super) fn refused(&self) -> Vec<String> {
        self.script.refused.lock().unwrap().clone()
    }
}

async fn complete(State(script): State<Arc<Script>>, Json(request): Json<Value>) -> Response {
    match strictness::check(&request).and_then(|()| reply(&script, &request)) {
        Ok(pieces) => {
            let events = pieces.iter().map(|piece| format!("data: {piece}\n\n"));
            let body: String = events.chain(["data: [DONE]\n\n".to_owned()]).collect();
            ([("content-type", "text/event-stream")], body).into_response()
        }
        Err(problem) => {
            script.refused.lock().unwrap().push(format!("{}: {problem}", request["model"]));
            let error = json!({"error": {"message": problem, "type": "invalid_request_error", "code": null}});
            (StatusCode::BAD_REQUEST, Json(error)).into_response()
        }
    }
}

/// Returns the chunks of the reply by the first matching rule.
fn reply(script: &Script, request: &Value) -> Result<Vec<Value>, String> {
    let name = request["model"].as_str().unwrap_or_default();
    let rules = script.rules.lock().unwrap().get(name).cloned().unwrap_or_default();
    let rule = rules.into_iter().find(|rule| rule.fits(request));
    let rule = rule.ok_or_else(|| format!("no rule fits {}", cut(&request.to_string())))?;
    let piece = |delta: Value| json!({"model": name, "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let (mut pieces, reason) = match rule.replies {
        Reply::Text(text) => {
            let text = text.replace("{results}", &tool_results(request));
            let reply =
                text.split_inclusive(' ').map(|word| piece(json!({"content": word}))).collect::<Vec<_>>();
            (reply, "stop")
        }
        Reply::Calls(calls) => {
            let mut pieces = Vec::new();
            for (index, (name, arguments)) in calls.into_iter().enumerate() {
                offered(request, &name)?;
                let id = format!("call_{}", script.calls.fetch_add(1, Ordering::Relaxed));
                let arguments = arguments.to_string();
                // The arguments arrive in two chunks, as from real endpoints.
                let (one, other) = arguments.split_at(1);
                let first = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": one}});
                pieces.push(piece(json!({"tool_calls": [first]})));
                let second = json!({"index": index, "function": {"arguments": other}});
                pieces.push(piece(json!({"tool_calls": [second]})));
            }
            (pieces, "tool_calls")
        }
    };
    pieces.push(json!({"model": name, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}));
    pieces
        .push(json!({"model": name, "choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}));
    Ok(pieces)
}

/// Checks that a tool was offered: a model can call no other tool.
fn offered(request: &Value, name: &str) -> Result<(), String> {
    let mut tools = request["tools"].as_array().into_iter().flatten().map(|tool| &tool["function"]["name"]);
    if tools.any(|offered| offered == name) {
        Ok(())
    } else {
        Err(format!("the tool {name} was not offered"))
    }
}

/// Returns the beginning of every tool result.
fn tool_results(request: &Value) -> String {
    let messages = request["messages"].as_array().into_iter().flatten();
    let tools = messages
        .filter(|message| message["role"] == "tool")
        .filter_map(|message| message["content"].as_str());
    tools.map(cut).collect::<Vec<_>>().join("\n")
}

fn cut(text: &str) -> String {
    text.chars().take(2_000).collect()
}
