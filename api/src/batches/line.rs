//! Parsing of a batch line to a turn.

use queue::Priority;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shared::overlay;
use store::{
    Opening,
    batches::{Batch, CacheKey},
};

pub(crate) use super::envelope::{LineError, line_error};
use super::{
    endpoint::{BatchEndpoint, LineContext},
    envelope::{Envelope, open},
};
use crate::server::{
    principal::Actor,
    problem::{ApiError, Kind},
    state::AppState,
    tenant_rules::Submitter,
};

/// Parser of the lines of one batch.
pub(crate) struct LineReader<'a> {
    app: &'a AppState,
    endpoint: BatchEndpoint,
    terms: BatchTerms<'a>,
}

/// Settings of a batch that apply to all of its lines.
pub(crate) struct BatchTerms<'a> {
    pub(crate) submitter: Submitter<'a>,
    pub(crate) author: Actor,
    /// Priority of lines that do not set one.
    pub(crate) priority: Priority,
}

impl<'a> From<&'a Batch> for BatchTerms<'a> {
    fn from(batch: &'a Batch) -> Self {
        let submitter = Submitter { tenant: &batch.tenant, is_operator: batch.by_operator };
        let author = Actor {
            name: batch.author.clone(),
            caller: batch.caller.clone(),
            trace_parent: batch.trace_parent.clone(),
        };
        Self { submitter, author, priority: batch.priority }
    }
}

/// A parsed line: its `custom_id`, if it has one, and its turn or an error.
pub(crate) struct ParsedLine {
    pub(crate) custom_id: Option<String>,
    pub(crate) turn: Result<store::NewTurn, LineError>,
}

impl<'a> LineReader<'a> {
    /// Creates the parser of an existing batch. Fails if a newer build created the batch.
    pub(crate) fn of_batch(app: &'a AppState, batch: &'a Batch) -> Result<Self, ApiError> {
        Ok(Self::new(app, BatchEndpoint::of_batch(&batch.endpoint)?, batch.into()))
    }

    /// Creates a parser.
    pub(crate) fn new(app: &'a AppState, endpoint: BatchEndpoint, terms: BatchTerms<'a>) -> Self {
        Self { app, endpoint, terms }
    }

    /// Checks a line. Returns its `custom_id`, if it has one, and its cache key or its first error.
    pub(super) fn check(&self, line: &[u8]) -> (Option<String>, Result<CacheKey, LineError>) {
        let ParsedLine { custom_id, turn } = self.read(line);
        (custom_id, turn.and_then(|turn| self.named(&turn)))
    }

    /// Parses a line.
    pub(crate) fn read(&self, line: &[u8]) -> ParsedLine {
        let (custom_id, envelope) = open(line);
        ParsedLine { custom_id, turn: envelope.and_then(|envelope| self.turn(envelope)) }
    }

    fn turn(&self, Envelope { url, body }: Envelope) -> Result<store::NewTurn, LineError> {
        check_url(self.endpoint, &url)?;
        let context = LineContext {
            submitter: self.terms.submitter,
            author: &self.terms.author,
            priority: self.terms.priority,
        };
        self.endpoint.turn(self.app, &context, body).map_err(|error| {
            let unknown = matches!(error.kind, Kind::NamesNoStrategy | Kind::UnknownModel);
            let code = if unknown { "unknown_model" } else { "invalid_body" };
            line_error(code, format!("body: {}", error.detail()))
        })
    }

    /// Returns the cache key of a turn.
    pub(crate) fn named(&self, turn: &store::NewTurn) -> Result<CacheKey, LineError> {
        let no_key = || line_error("invalid_body", "body: it does not start a new thread");
        self.cache_key(turn).ok_or_else(no_key)
    }

    /// Computes the cache key of a turn.
    ///
    /// The key covers everything that the result depends on, as far as turnfold knows: the strategy with its version
    /// and prompts, the configuration completed by today's defaults, the messages, the budget and the context settings. It excludes
    /// everything that only identifies the request: metadata, author, priority. It also excludes the descriptions of
    /// MCP servers, so that correcting one does not make every result be paid for again.
    fn cache_key(&self, turn: &store::NewTurn) -> Option<CacheKey> {
        let Opening::New(opened) = &turn.thread else { return None };
        let graph = self.app.strategies.find(&opened.strategy)?;
        let mut config = graph.defaults();
        if !opened.config.is_null() {
            overlay(&mut config, opened.config.clone());
        }
        let mut content = json!({
            "endpoint": self.endpoint.url(),
            "strategy": opened.strategy,
            "version": opened.version,
            "prompts": self.app.prompts.get(&opened.strategy),
            "config": config,
            "messages": turn.messages,
            "budget": opened.budget,
            "context": opened.context,
        });
        if let Some(options) = turn.reply_options.as_deref().filter(|options| !options.is_default()) {
            content["reply_options"] = json!(options);
        }
        let hash = hex::encode(Sha256::digest(sorted(content).to_string()));
        Some(CacheKey { hash, strategy: opened.strategy.clone(), priority: turn.priority })
    }
}

/// Checks that a line is sent to the endpoint of its batch.
pub(super) fn check_url(endpoint: BatchEndpoint, url: &str) -> Result<(), LineError> {
    let endpoint = endpoint.url();
    if url == endpoint {
        return Ok(());
    }
    let message = format!("url must be the endpoint of the batch, {endpoint:?}, but is {url:?}");
    Err(line_error("invalid_url", message))
}

/// Sorts the keys of all objects, so that equal content has equal text.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}

/// Returns the field that an error code is about.
pub(crate) fn field_of(code: &str) -> Option<&'static str> {
    match code {
        "missing_custom_id" | "invalid_custom_id" | "duplicate_custom_id" => Some("custom_id"),
        "invalid_method" => Some("method"),
        "invalid_url" => Some("url"),
        "invalid_body" | "unknown_model" => Some("body"),
        _ => None,
    }
}
