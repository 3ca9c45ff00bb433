//! Request parsing. Whatever cannot be parsed becomes an [`ApiError`].

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
use serde::{Deserializer, de::DeserializeOwned};

use super::{
    objects::ObjectsOnly,
    problem::{ApiError, Kind},
    rejections::{invalid_json, unfaithful},
};

/// Hint of an error in the body.
const BODY_HINT: &str = "the fields of the body are listed at /docs";

/// Maximum length of an idempotency key in characters.
const IDEMPOTENCY_MAX: usize = 255;

/// Path parameters; invalid ones are rejected with a problem document.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(ApiError))]
pub(crate) struct Path<T>(pub(crate) T);

/// Query parameters; invalid ones are rejected with a problem document.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(ApiError))]
pub(crate) struct Query<T>(pub(crate) T);

/// A JSON body with its bytes.
pub(crate) struct Body<T> {
    pub(crate) value: T,
    pub(crate) raw: Bytes,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(not_json());
        }
        let raw = Bytes::from_request(request, state).await?;
        Ok(Self { value: parse(&raw)?, raw })
    }
}

/// An optional JSON body.
pub(crate) struct MaybeBody<T>(pub(crate) Option<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for MaybeBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let is_json = is_json(request.headers());
        let raw = Bytes::from_request(request, state).await?;
        match raw.is_empty() {
            true => Ok(Self(None)),
            false if is_json => Ok(Self(Some(parse(&raw)?))),
            false => Err(not_json()),
        }
    }
}

fn parse<T: DeserializeOwned>(raw: &Bytes) -> Result<T, ApiError> {
    shared::check_json(raw).map_err(|error| unfaithful(&error))?;
    let mut deserializer = serde_json::Deserializer::from_slice(raw);
    let value = deserialize("", &mut deserializer)?;
    deserializer.end().map_err(|err| invalid_json(&err))?;
    Ok(value)
}

/// Deserializes the value at `path` of the body; an empty path is the whole body.
///
/// # Errors
///
/// An error that names the field at fault.
pub(crate) fn deserialize<'a, T: DeserializeOwned, D>(path: &str, deserializer: D) -> Result<T, ApiError>
where
    D: Deserializer<'a, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(ObjectsOnly(deserializer)).map_err(|err| {
        let inner = Some(err.path().to_string()).filter(|inner| inner != ".");
        let error = err.into_inner();
        let parts = [Some(path.to_owned()).filter(|path| !path.is_empty()), inner];
        let place = parts.into_iter().flatten().collect::<Vec<_>>().join(".");
        match (error.is_data(), place.is_empty()) {
            (false, _) => invalid_json(&error),
            (true, true) => Kind::Invalid.because(format!("the body: {error}")).hint(BODY_HINT),
            (true, false) => {
                Kind::Invalid.because(format!("{place}: {error}")).hint(BODY_HINT).with_param(place)
            }
        }
    })
}

fn not_json() -> ApiError {
    Kind::MediaType.because("the body must be JSON").hint("send it with `Content-Type: application/json`")
}

/// Proof that the request was not sent by a page of another site. Browsers send forms across sites without asking the
/// server.
pub(crate) struct SameSite;

impl<S: Sync> FromRequestParts<S> for SameSite {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match parts.headers.get("sec-fetch-site").and_then(|site| site.to_str().ok()) {
            None | Some("same-origin" | "none") => Ok(Self),
            Some(_) => Err(Kind::Unauthorized.because("the form was sent by a page of another site")),
        }
    }
}

/// Reports whether the body is declared as JSON.
///
/// **Invariant:** only JSON bodies are parsed, so a page of another site cannot submit one with a plain form.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// The `Idempotency-Key` header, if present.
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(key) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        let wrong = || {
            Kind::Malformed
                .because(format!("Idempotency-Key must have 1 to {IDEMPOTENCY_MAX} ASCII characters"))
        };
        let key = key.to_str().map_err(|_| wrong())?;
        if (1..=IDEMPOTENCY_MAX).contains(&key.len()) { Ok(Self(Some(key.to_owned()))) } else { Err(wrong()) }
    }
}

/// Number of the attempt, as OpenAI's clients report it. They send no idempotency key. Other clients report nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// First attempt.
    First,
    /// Repetition of a request without a response.
    Retry,
}

impl<S: Sync> OptionalFromRequestParts<S> for Attempt {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        let retries = parts.headers.get("x-stainless-retry-count").and_then(|count| count.to_str().ok());
        let retries = retries.and_then(|count| count.parse::<u32>().ok());
        Ok(retries.map(|count| if count == 0 { Self::First } else { Self::Retry }))
    }
}

/// The `Last-Event-ID` header: the last event that the reader of a stream received.
pub(crate) struct LastEventId(pub(crate) Option<u64>);

impl<S: Sync> FromRequestParts<S> for LastEventId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(id) = parts.headers.get("last-event-id") else { return Ok(Self(None)) };
        match id.to_str().ok().map(str::trim).map(str::parse) {
            Some(Ok(seq)) => Ok(Self(Some(seq))),
            Some(Err(_)) | None => {
                Err(Kind::Malformed.because("Last-Event-ID must be the number of an event"))
            }
        }
    }
}

/// True if the client accepts an event stream.
pub(crate) struct WantsStream(pub(crate) bool);

impl<S: Sync> FromRequestParts<S> for WantsStream {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut accepted = parts.headers.get_all(ACCEPT).iter().filter_map(|kind| kind.to_str().ok());
        Ok(Self(accepted.any(|kind| kind.to_ascii_lowercase().contains("text/event-stream"))))
    }
}
