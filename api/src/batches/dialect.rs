//! What the lines of a batch are written in: to which endpoint they would be sent one by one.

use serde_json::Value;
use store::{Opening, Priority, Turn};

use crate::{
    auth::Acting,
    house::House,
    openai::{
        ask::{Asked, Manner},
        completion::completion,
        error::{self, ErrorReply},
    },
    problem::{Kind, Problem},
    said, schema,
    submit::{Tuned, opened, words},
};

/// What the lines of a batch are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `POST /v1/turns`.
    Turns,
    /// `POST /v1/chat/completions`.
    Chat,
}

/// Where lines of batches may go.
pub fn endpoints() -> [&'static str; 2] {
    Dialect::ALL.map(Dialect::url)
}

/// For whom a line is run.
pub(crate) struct For<'a> {
    pub(crate) acting: &'a Acting,
    pub(crate) author: &'a str,
    /// How urgent it is, if it does not say so itself.
    pub(crate) priority: Priority,
}

impl Dialect {
    /// Every one there is.
    pub(crate) const ALL: [Self; 2] = [Self::Turns, Self::Chat];

    /// The endpoint.
    pub(crate) fn url(self) -> &'static str {
        match self {
            Self::Turns => "/v1/turns",
            Self::Chat => "/v1/chat/completions",
        }
    }

    /// The one of this endpoint.
    pub(crate) fn of(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.url() == url)
    }

    /// That of a batch that is there: if it is none of ours, a newer build has made it.
    pub(crate) fn of_batch(url: &str) -> Result<Self, Problem> {
        let unknown = || Kind::Internal.because(format!("this build does not know the endpoint {url:?}"));
        Self::of(url).ok_or_else(unknown)
    }

    /// The turn that a body asks for, on a thread of its own.
    pub(crate) fn turn(self, house: &House, whom: &For<'_>, body: Value) -> Result<store::NewTurn, Problem> {
        match self {
            Self::Turns => turn(house, whom, body),
            Self::Chat => chat(house, whom, body),
        }
    }

    /// What a request for this turn is answered once it has ended: the status and the body.
    pub(crate) fn answer(self, row: &Turn, shown: &schema::Turn) -> Result<(u16, Value), Problem> {
        let lost = |err| Kind::Internal.because(format!("turn {} has no JSON: {err}", row.id));
        match self {
            Self::Turns => Ok((200, serde_json::to_value(shown).map_err(lost)?)),
            Self::Chat => match completion(shown, row.created_at) {
                Ok(it) => Ok((200, serde_json::to_value(it).map_err(lost)?)),
                Err(problem) => {
                    let reply = serde_json::to_value(ErrorReply::from(&problem)).map_err(lost)?;
                    Ok((error::status(&problem).as_u16(), reply))
                }
            },
        }
    }
}

fn turn(house: &House, whom: &For<'_>, body: Value) -> Result<store::NewTurn, Problem> {
    let new: schema::NewTurn = said::read("", body)?;
    if new.thread_id.is_some() {
        return Err(Kind::Invalid.because("thread_id: each line of a batch opens a thread of its own"));
    }
    if new.not_before.is_some() || new.delay_seconds.is_some() {
        return Err(Kind::Invalid.because("not_before, delay_seconds: a batch feeds its lines by itself"));
    }
    let strategy = new.strategy.ok_or_else(|| Kind::Invalid.because("strategy: it is missing"))?;
    let tuned = Tuned { config: new.config, budget: new.budget };
    let opening = Opening::New(opened(house, whom.acting, &strategy, tuned, whom.author)?);
    Ok(store::NewTurn {
        policy: new.policy.into(),
        priority: new.priority.map_or(whom.priority, Into::into),
        metadata: Value::Object(new.metadata.unwrap_or_default()),
        ..store::NewTurn::of(opening, words(new.input)?, whom.author.to_owned())
    })
}

fn chat(house: &House, whom: &For<'_>, body: Value) -> Result<store::NewTurn, Problem> {
    let Value::Object(body) = body else { return Err(Kind::Invalid.because("it is no JSON object")) };
    let asked = Asked::read(body, None)?;
    if asked.manner != Manner::Whole {
        return Err(Kind::Unsupported.because("stream: a batch does not stream; leave `stream` out"));
    }
    asked.or_priority(whom.priority).opening(house, whom.acting, whom.author)
}
