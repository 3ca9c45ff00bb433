//! How a route reads a request: what cannot be read becomes a problem.

use std::convert::Infallible;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, OptionalFromRequestParts, Request},
    http::{
        HeaderMap,
        header::{ACCEPT, CONTENT_TYPE},
        request::Parts,
    },
};
use serde::de::DeserializeOwned;

use crate::{
    problem::{Kind, Problem},
    said::{self, no_json},
};

/// What stands in the path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Problem))]
pub(crate) struct Path<T>(pub(crate) T);

/// What stands after the question mark.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Problem))]
pub(crate) struct Query<T>(pub(crate) T);

/// A body of JSON, with the bytes it was read from.
pub(crate) struct Body<T> {
    pub(crate) value: T,
    pub(crate) raw: Bytes,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(not_json());
        }
        let raw = Bytes::from_request(request, state).await?;
        Ok(Self { value: read(&raw)?, raw })
    }
}

/// A body of JSON, or none.
pub(crate) struct MaybeBody<T>(pub(crate) Option<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for MaybeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let raw = Bytes::from_request(request, state).await?;
        match raw.is_empty() {
            true => Ok(Self(None)),
            false if is_json => Ok(Self(Some(read(&raw)?))),
            false => Err(not_json()),
        }
    }
}

fn read<T: DeserializeOwned>(raw: &Bytes) -> Result<T, Problem> {
    let mut from = serde_json::Deserializer::from_slice(raw);
    let value = said::read("", &mut from)?;
    from.end().map_err(|err| no_json(&err))?;
    Ok(value)
}

fn not_json() -> Problem {
    Kind::MediaType.because("the body must be JSON").mend("send it with `Content-Type: application/json`")
}

/// A request that no page of another site had a browser send: a form is sent by any page, without asking.
pub(crate) struct NotInPassing;

impl<S: Sync> FromRequestParts<S> for NotInPassing {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match parts.headers.get("sec-fetch-site").and_then(|it| it.to_str().ok()) {
            None | Some("same-origin" | "none") => Ok(Self),
            Some(_) => {
                Err(Kind::Unauthorized.because("a page of another site made the browser send this form"))
            }
        }
    }
}

/// **Invariant:** nothing but JSON is read, so no page of another site can make a browser send one in passing.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()) else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// The key by which a repeated submission is the same one.
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

/// Its greatest length, in characters.
const IDEMPOTENCY_MAX: usize = 255;

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(key) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        let wrong =
            || Kind::Malformed.because(format!("Idempotency-Key is 1 to {IDEMPOTENCY_MAX} ASCII characters"));
        let key = key.to_str().map_err(|_| wrong())?;
        if (1..=IDEMPOTENCY_MAX).contains(&key.len()) { Ok(Self(Some(key.to_owned()))) } else { Err(wrong()) }
    }
}

/// Whether the client has sent the request before and had no answer, as OpenAI's clients tell, which give no key. Others tell
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It has not.
    First,
    /// It has.
    Again,
}

impl<S: Sync> OptionalFromRequestParts<S> for Sent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        let times = parts.headers.get("x-stainless-retry-count").and_then(|it| it.to_str().ok());
        let times = times.and_then(|it| it.parse::<u32>().ok());
        Ok(times.map(|it| if it == 0 { Self::First } else { Self::Again }))
    }
}

/// Where a reader of an event stream was cut off: the number of the last event that it saw.
pub(crate) struct LastEventId(pub(crate) Option<u64>);

impl<S: Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(id) = parts.headers.get("last-event-id") else { return Ok(Self(None)) };
        match id.to_str().ok().map(str::trim).map(str::parse) {
            Some(Ok(seq)) => Ok(Self(Some(seq))),
            Some(Err(_)) | None => Err(Kind::Malformed.because("Last-Event-ID is the number of an event")),
        }
    }
}

/// Whether the reader wants events as they come, and not a page of them.
pub(crate) struct WantsStream(pub(crate) bool);

impl<S: Sync> FromRequestParts<S> for WantsStream {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut accepted = parts.headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok());
        Ok(Self(accepted.any(|it| it.to_ascii_lowercase().contains("text/event-stream"))))
    }
}
