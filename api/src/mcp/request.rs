//! Requests to the routes of the REST API, as the principal of an MCP request.

use api_types::Problem;
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{HeaderName, HeaderValue, Method, Request, StatusCode, header::CONTENT_TYPE, request::Parts},
};
use rmcp::{ErrorData, RoleServer, service::RequestContext};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::server::{
    principal::{Principal, TENANT_HEADER, USER_HEADER},
    problem::{ApiError, Kind},
};

/// Field of `_meta` with the key that identifies repetitions of a call.
const IDEMPOTENCY_KEY: &str = "turnfold/idempotency-key";

/// Field of `_meta`, and header, with the client's span.
const TRACE_PARENT: &str = "traceparent";

/// Error of a route.
pub(super) type Refusal = Box<Problem>;

/// Maximum size of a response of the REST API in bytes.
const RESPONSE_MAX: usize = 256 << 20;

/// The sender of an MCP request, and the routes of the REST API.
pub(super) struct Rest {
    routes: Router,
    principal: Principal,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Rest {
    /// Takes the sender from the HTTP request of an MCP request.
    ///
    /// # Errors
    ///
    /// An internal error if the request was not authenticated.
    pub(super) fn new(routes: &Router, context: &RequestContext<RoleServer>) -> Result<Self, ErrorData> {
        let parts = context.extensions.get::<Parts>();
        let principal = parts.and_then(|parts| parts.extensions.get::<Principal>()).cloned();
        let (Some(parts), Some(principal)) = (parts, principal) else {
            return Err(ErrorData::internal_error("the request was not authenticated", None));
        };
        let sent = [USER_HEADER, TENANT_HEADER, TRACE_PARENT].map(HeaderName::from_static);
        let sent = sent.into_iter().filter_map(|name| Some((name.clone(), parts.headers.get(name)?.clone())));
        let mut headers: Vec<_> = sent.collect();
        for (field, header) in [(IDEMPOTENCY_KEY, "idempotency-key"), (TRACE_PARENT, TRACE_PARENT)] {
            let value = context.meta.get(field).and_then(Value::as_str);
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.retain(|(name, _)| name != header);
                headers.push((HeaderName::from_static(header), value));
            }
        }
        Ok(Self { routes: routes.clone(), principal, headers })
    }

    pub(super) fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refusal> {
        self.send(Method::GET, path, None).await
    }

    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Refusal> {
        self.send(Method::POST, path, Some(body)).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Refusal> {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
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
pub(super) fn refusal(error: &ApiError) -> Refusal {
    Box::new(error.body())
}

/// Converts an error of a request that is not a call of a tool.
pub(super) fn error_data(problem: &Problem) -> ErrorData {
    let data = Some(json!(problem));
    match problem.status {
        400..=499 => ErrorData::invalid_params(problem.error.message.clone(), data),
        _ => ErrorData::internal_error(problem.error.message.clone(), data),
    }
}

/// Reports whether an error is of this kind.
pub(super) fn is(problem: &Problem, kind: Kind) -> bool {
    problem.urn == kind.because("").urn()
}
