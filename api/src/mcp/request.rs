//! The principal of an MCP request, and errors of the routes as errors of MCP.

use api_types::Problem;
use axum::{
    Router,
    http::{HeaderName, HeaderValue, request::Parts},
};
use rmcp::{ErrorData, RoleServer, service::RequestContext};
use serde_json::{Value, json};

use crate::server::{
    principal::{Principal, TENANT_HEADER, USER_HEADER},
    problem::Kind,
    rest::Rest,
};

/// Field of `_meta` with the key that identifies repetitions of a call.
const IDEMPOTENCY_KEY: &str = "turnfold/idempotency-key";

/// Field of `_meta`, and header, with the client's span.
const TRACE_PARENT: &str = "traceparent";

/// Takes the sender from the HTTP request of an MCP request.
///
/// # Errors
///
/// An internal error if the request was not authenticated.
pub(super) fn rest(routes: &Router, context: &RequestContext<RoleServer>) -> Result<Rest, ErrorData> {
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
    Ok(Rest::new(routes, principal, headers))
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
