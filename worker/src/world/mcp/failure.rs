//! Failures of requests to MCP servers. The decisive question is whether the server may have received the request.

use std::time::Duration;

use rmcp::{
    ServiceError,
    service::ClientInitializeError,
    transport::{
        DynamicTransportError,
        streamable_http_client::{HttpStatusError, StreamableHttpError},
    },
};
use shared::{Fault, FaultKind};

use crate::world::{error_chain, retry_after::delay_ms};

/// Failure of a request.
pub(super) enum Failure {
    /// The request was not sent.
    Unsent(String),
    /// The server rejected the request with this message.
    Refused(String),
    /// The request had no effect; the fault says whether it can be retried.
    Fault(Fault),
    /// The server may have received the request, and its response is lost.
    Lost {
        /// Cause of the loss.
        why: String,
        /// Delay before a retry that the server asked for, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The server may have received the request, and did not respond for this long.
    Silent(Duration),
}

impl Failure {
    /// Converts an error of a request to `name`. `redact` removes secrets.
    pub(super) fn of(name: &str, error: ServiceError, redact: impl Fn(&str) -> String) -> Self {
        match error {
            ServiceError::McpError(error) => Failure::Refused(redact(&error.message)),
            ServiceError::TransportSend(error) => Self::of_send_error(name, &error, redact),
            ServiceError::Timeout { timeout } => Failure::Silent(timeout),
            ServiceError::TransportClosed => Self::lost("it closed the connection".to_owned()),
            error @ (ServiceError::UnexpectedResponse
            | ServiceError::SubscriptionLagged { .. }
            | ServiceError::Cancelled { .. }
            | ServiceError::InputRequiredRoundsExceeded { .. }
            | _) => Self::lost(redact(&error_chain(&error))),
        }
    }

    /// Over HTTP, rmcp reports a response that is not an answer as a failure to send.
    fn of_send_error(name: &str, error: &DynamicTransportError, redact: impl Fn(&str) -> String) -> Self {
        let over_http = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        if let Some(StreamableHttpError::Client(error)) = over_http {
            let why = redact(&error_chain(error));
            return if error.is_connect() { Failure::Unsent(why) } else { Self::lost(why) };
        }
        if let Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) =
            over_http
        {
            return Failure::Fault(unauthorized(name));
        }
        let http_refusal = over_http.and_then(http_refusal);
        if let Some((429, retry_after_ms)) = http_refusal {
            return Failure::Fault(rate_limited(name, 429, retry_after_ms));
        }
        let retry_after_ms = http_refusal.and_then(|(_, retry_after_ms)| retry_after_ms);
        Failure::Lost { why: redact(&error_chain(error.error.as_ref())), retry_after_ms }
    }

    fn lost(why: String) -> Self {
        Failure::Lost { why, retry_after_ms: None }
    }

    /// Maps the failure of a request without side effects.
    pub(super) fn of_query(self, name: &str) -> Fault {
        match self {
            Failure::Fault(fault) => fault,
            Failure::Unsent(why) => unreachable(name, &why, None),
            Failure::Lost { why, retry_after_ms } => unreachable(name, &why, retry_after_ms),
            Failure::Refused(message) => {
                Fault::transient(format!("MCP server {name} refuses to answer: {message}"))
            }
            Failure::Silent(time) => {
                Fault::transient(format!("MCP server {name} did not respond within {time:?}"))
            }
        }
    }
}

/// Cause of a failed connection.
pub(super) fn connect_error(name: &str, error: &ClientInitializeError) -> Result<String, Fault> {
    if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
        return connect_error(name, fallback);
    }
    if error.is_authorization_required() {
        return Err(unauthorized(name));
    }
    if let ClientInitializeError::ConnectionClosed(_) = error {
        return Ok("it closed the connection".to_owned());
    }
    // rmcp's outer message names its own types, which help no operator.
    if let ClientInitializeError::TransportError { error, .. } = error {
        let over_http = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        if let Some((status, retry_after_ms @ Some(_))) = over_http.and_then(http_refusal) {
            return Err(rate_limited(name, status, retry_after_ms));
        }
        return Ok(match over_http {
            Some(StreamableHttpError::Client(error)) => error_chain(error),
            Some(_) | None => error_chain(error.error.as_ref()),
        });
    }
    Ok(error_chain(error))
}

/// Returns the status of an HTTP response that is a refusal, and the requested delay, if any.
fn http_refusal(error: &StreamableHttpError<reqwest::Error>) -> Option<(u16, Option<u64>)> {
    let StreamableHttpError::HttpStatus(HttpStatusError { status, retry_after, .. }) = error else {
        return None;
    };
    Some((*status, retry_after.as_deref().and_then(delay_ms)))
}

fn rate_limited(name: &str, status: u16, retry_after_ms: Option<u64>) -> Fault {
    Fault::new(
        format!("MCP server {name} is rate limited (http status {status})"),
        FaultKind::Transient { retry_after_ms },
    )
}

/// The fault of an unreachable server, with the delay it asked for, if any.
pub(super) fn unreachable(name: &str, why: &str, retry_after_ms: Option<u64>) -> Fault {
    let error = format!("cannot reach MCP server {name}: {why}; hint: check [mcp.{name}] in turnfold.toml");
    Fault::new(error, FaultKind::Transient { retry_after_ms })
}

fn unauthorized(name: &str) -> Fault {
    Fault::permanent(format!(
        "MCP server {name} rejected the credentials; hint: fix mcp.{name}.headers in turnfold.toml, then run: turnfold turn retry"
    ))
}
