//! Requests to the routes of the REST API in the same process.
//!
//! **Invariant:** a part of the API that acts for a client has no path of its own to turns, threads and questions. It sends
//! requests to the routes, as the client's principal, and each of them checks scope, tenant and limits as it always does.

use api_types::Problem;
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{HeaderName, HeaderValue, Method, Request, StatusCode, header::CONTENT_TYPE},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt as _;

use super::{
    principal::Principal,
    problem::{ApiError, Kind},
};

/// Error of a route.
pub(crate) type Refusal = Box<Problem>;

/// Maximum size of a response of the REST API in bytes.
const RESPONSE_MAX: usize = 256 << 20;

/// The sender of requests, and the routes of the REST API.
pub(crate) struct Rest {
    routes: Router,
    principal: Principal,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Rest {
    /// Sends requests as `principal`, with these headers.
    pub(crate) fn new(
        routes: &Router,
        principal: Principal,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Self {
        Self { routes: routes.clone(), principal, headers }
    }

    /// Identifies repetitions of the next requests by this key.
    pub(crate) fn with_idempotency_key(mut self, key: &str) -> Self {
        let key = HeaderValue::from_str(key).map(|key| (HeaderName::from_static("idempotency-key"), key));
        self.headers.extend(key);
        self
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refusal> {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Refusal> {
        self.post_text(path, body.to_string()).await
    }

    /// Sends a body of JSON, byte for byte.
    pub(crate) async fn post_text<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
    ) -> Result<T, Refusal> {
        self.send(Method::POST, path, Some(body)).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<T, Refusal> {
        let body = body.map_or_else(Body::empty, Body::from);
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        let mut request = request.body(body).map_err(|error| internal(&error))?;
        request.headers_mut().extend(self.headers.iter().cloned());
        request.extensions_mut().insert(self.principal.clone());
        let Ok(response) = self.routes.clone().oneshot(request).await;
        let status = response.status();
        let body = to_bytes(response.into_body(), RESPONSE_MAX).await.map_err(|error| internal(&error))?;
        read(status, &body)
    }
}

fn read<T: DeserializeOwned>(status: StatusCode, body: &Bytes) -> Result<T, Refusal> {
    match status.is_success() {
        true => serde_json::from_slice(body).map_err(|error| internal(&error)),
        false => Err(serde_json::from_slice(body).unwrap_or_else(|error| internal(&error))),
    }
}

fn internal(error: &dyn std::error::Error) -> Refusal {
    tracing::error!(%error, "a response of the REST API cannot be passed on");
    refusal(&Kind::Internal.because("the response cannot be passed on"))
}

/// Returns the error as a route would.
pub(crate) fn refusal(error: &ApiError) -> Refusal {
    Box::new(error.body())
}
