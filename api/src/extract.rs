//! How a route reads a request: what cannot be read becomes a problem.

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, header::CONTENT_TYPE},
};
use serde::de::DeserializeOwned;

use crate::problem::{Kind, Problem};

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
            return Err(Kind::MediaType
                .because("the body must be JSON")
                .mend("send it with `Content-Type: application/json`"));
        }
        let raw = Bytes::from_request(request, state).await?;
        let value = serde_json::from_slice(&raw).map_err(|err| {
            let kind = if err.is_data() { Kind::Invalid } else { Kind::Malformed };
            kind.because(format!("the body: {err}"))
        })?;
        Ok(Self { value, raw })
    }
}

/// **Invariant:** nothing but JSON is read, so no page of another site can make a browser send one in passing.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()) else { return false };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}
