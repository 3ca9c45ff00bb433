//! Requests to an endpoint, and what happens to them on the way.

use std::time::Duration;

use reqwest::{Response, header::CONTENT_TYPE};
use serde_json::Value;
use shared::Fault;

use super::Endpoint;
use crate::{
    models::{
        http_error::HttpError,
        sse::{Chunk, ChunkReader, ReadError},
    },
    text::error_chain,
};

/// Path of the list of models.
const MODELS: &str = "/models";

/// A failed request, and the endpoint's refusal if its form may be the cause.
pub(super) struct FailedRequest {
    pub(super) fault: Fault,
    pub(super) refusal: Option<HttpError>,
}

impl From<Fault> for FailedRequest {
    fn from(fault: Fault) -> Self {
        Self { fault, refusal: None }
    }
}

impl Endpoint {
    /// Posts `body` to `path` and returns the JSON response, which is not a stream.
    pub(in crate::models) async fn post(&self, path: &str, body: &Value) -> Result<Value, Fault> {
        let response = self.send(path, body).await.map_err(|error| error.fault)?;
        let headers = response.headers().clone();
        let body = match ChunkReader::new(response).next().await {
            Ok(Some(Chunk::Json(body))) => body,
            Ok(Some(Chunk::Done) | None) => return Err(self.unusable_response("is empty")),
            Err(error @ ReadError::NotJson(_)) => {
                return Err(self.unusable_response(&self.redact(&format!("cannot be used, {error}"))));
            }
            Err(error) => return Err(self.unreadable(error)),
        };
        match HttpError::of_chunk(&body, &headers) {
            Some(refusal) => Err(refusal.fault(&self.name, |text| self.redact(text))),
            None => Ok(body),
        }
    }

    /// Requests the list of models and returns the status of the response, whose body is not read.
    pub(in crate::models) async fn list_models(&self, timeout: Duration) -> Result<u16, Fault> {
        let Self { http, target, .. } = self;
        let request = http.get(target.url(MODELS)).headers(target.headers()).timeout(timeout);
        Ok(request.send().await.map_err(|error| self.unsent(error))?.status().as_u16())
    }

    /// Sends a request once and returns the response if it is successful.
    pub(super) async fn send(&self, path: &str, body: &Value) -> Result<Response, FailedRequest> {
        let target = &self.target;
        let request =
            self.http.post(target.url(path)).headers(target.headers()).timeout(self.timeout).json(body);
        let response = request.send().await.map_err(|error| self.unsent(error))?;
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|header| header.to_str().ok());
        let is_page = content_type.is_some_and(|kind| kind.starts_with("text/html"));
        if response.status().is_success() && !is_page {
            return Ok(response);
        }
        let refusal = HttpError::read(response).await;
        Err(FailedRequest {
            fault: refusal.fault(&self.name, |text| self.redact(text)),
            refusal: Some(refusal),
        })
    }

    /// The fault of an unusable response; a retry would get the same.
    pub(in crate::models) fn unusable_response(&self, why: &str) -> Fault {
        let name = &self.name;
        Fault::permanent(format!(
            "the response of provider {name} {why}; hint: check providers.{name}.base_url"
        ))
    }

    /// The fault of a request without a response.
    ///
    /// ## Why it is in doubt once it was sent
    ///
    /// The endpoint may have worked on it and charge for it, so the reserved cost is not given back.
    fn unsent(&self, error: reqwest::Error) -> Fault {
        let Self { name, timeout, .. } = self;
        let (is_connect, is_timeout) = (error.is_connect(), error.is_timeout());
        let is_sent = !error.is_builder() && !error.is_redirect();
        // The URL may hold a secret.
        let why = self.redact(&error_chain(&error.without_url()));
        if is_connect {
            let error = format!("cannot reach provider {name}: {why}; hint: check providers.{name}.base_url");
            Fault::unavailable(error, None)
        } else if is_timeout {
            Fault::unanswered(format!("provider {name} did not respond within {timeout:?}"))
        } else if is_sent {
            Fault::in_doubt(format!("the reply of provider {name} was interrupted: {why}"))
        } else {
            Fault::transient(format!("the request to provider {name} cannot be sent: {why}"))
        }
    }

    /// The fault of a response that cannot be read to its end.
    pub(super) fn unreadable(&self, error: ReadError) -> Fault {
        let Self { name, timeout, .. } = self;
        let why = match error {
            ReadError::Connection(error) if error.is_timeout() => {
                return Fault::unanswered(format!(
                    "the reply of provider {name} did not end within {timeout:?}"
                ));
            }
            ReadError::Connection(error) => error_chain(&error.without_url()),
            error @ (ReadError::TooLong { .. } | ReadError::NotJson(_)) => error.to_string(),
        };
        Fault::in_doubt(format!("the reply of provider {name} was interrupted: {}", self.redact(&why)))
    }

    /// Replaces the key in a text.
    pub(super) fn redact(&self, text: &str) -> String {
        self.target.redact(text)
    }
}
