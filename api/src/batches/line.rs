//! One line of a file: what it asks for, or what is wrong with it.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::{
    Opening, Priority,
    bulk::{Batch, Memo},
};

pub(crate) use super::envelope::{Wrong, wrong};
use super::{
    dialect::{Dialect, For},
    envelope::{Envelope, open},
};
use crate::{
    auth::Acting,
    house::House,
    problem::{Kind, Problem},
    submit::overlay,
};

/// Reads the lines of one batch.
pub(crate) struct Judge<'a> {
    house: &'a House,
    dialect: Dialect,
    acting: Acting,
    terms: Terms<'a>,
}

/// What a batch says of all of its lines.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) tenant: &'a str,
    pub(crate) author: &'a str,
    /// How urgent a line is that does not say so itself.
    pub(crate) priority: Priority,
}

impl<'a> From<&'a Batch> for Terms<'a> {
    fn from(it: &'a Batch) -> Self {
        Self { endpoint: &it.endpoint, tenant: &it.tenant, author: &it.author, priority: it.priority }
    }
}

/// A line that was read: its name, if it has one, and what it asks for.
pub(crate) struct Read {
    pub(crate) custom_id: Option<String>,
    pub(crate) asks: Result<store::NewTurn, Wrong>,
}

impl<'a> Judge<'a> {
    /// Of the lines of a batch under these terms.
    pub(crate) fn new(house: &'a House, terms: Terms<'a>) -> Result<Self, Problem> {
        let (dialect, acting) = (Dialect::of_batch(terms.endpoint)?, Acting::of(terms.tenant));
        Ok(Self { house, dialect, acting, terms })
    }

    /// What a line asks for.
    pub(crate) fn read(&self, line: &[u8]) -> Read {
        let (custom_id, envelope) = open(line);
        Read { custom_id, asks: envelope.and_then(|it| self.asks(it)) }
    }

    fn asks(&self, Envelope { url, body }: Envelope) -> Result<store::NewTurn, Wrong> {
        let wanted = self.dialect.url();
        if url != wanted {
            let words = format!("url: it is {url:?} and must be the endpoint of the batch, {wanted:?}");
            return Err(wrong("invalid_url", words));
        }
        let whom = For { acting: &self.acting, author: self.terms.author, priority: self.terms.priority };
        self.dialect.turn(self.house, &whom, body).map_err(|problem| {
            let unknown = matches!(problem.kind, Kind::NamesNoStrategy | Kind::UnknownModel);
            let code = if unknown { "unknown_model" } else { "invalid_body" };
            wrong(code, format!("body: {}", problem.detail()))
        })
    }

    /// Names what a turn asks for by its content; or what is wrong with it.
    pub(crate) fn named(&self, turn: &store::NewTurn) -> Result<Memo, Wrong> {
        let unnamed = || wrong("invalid_body", "body: it asks for nothing that can be named");
        self.memo(turn).ok_or_else(unnamed)
    }

    /// ## What is in it
    ///
    /// What its answer depends on, as far as turnfold knows: the strategy, its version and its prompts, the configuration completed by the defaults of today, the words, the budget. Not in it is what only tells who
    /// asks: metadata, author, priority. Nor is the description of the MCP servers, so that an operator who mends a word of
    /// it does not have everything paid anew.
    fn memo(&self, turn: &store::NewTurn) -> Option<Memo> {
        let Opening::New(opened) = &turn.thread else { return None };
        let graph = self.house.strategies.find(&opened.strategy)?;
        let mut config = graph.defaults();
        if !opened.config.is_null() {
            overlay(&mut config, opened.config.clone());
        }
        let content = json!({
            "endpoint": self.dialect.url(),
            "strategy": opened.strategy,
            "version": opened.version,
            "prompts": self.house.prompts.get(&opened.strategy),
            "config": config,
            "messages": turn.messages,
            "budget": opened.budget,
        });
        let hash = hex::encode(Sha256::digest(sorted(content).to_string()));
        Some(Memo { hash, strategy: opened.strategy.clone(), priority: turn.priority })
    }
}

/// The same with the keys of objects in order, so that the same content has the same text.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().map(|(key, it)| (key, sorted(it))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

/// The field of a line that such a code is about.
pub(crate) fn field_of(code: &str) -> Option<&'static str> {
    match code {
        "missing_custom_id" | "invalid_custom_id" | "duplicate_custom_id" => Some("custom_id"),
        "invalid_method" => Some("method"),
        "invalid_url" => Some("url"),
        "invalid_body" | "unknown_model" => Some("body"),
        _ => None,
    }
}
