//! Failures of requests to MCP servers. The decisive question is whether the server may have received the request.

use std::time::Duration;

use rmcp::{
    ServiceError,
    model::ErrorCode,
    service::ClientInitializeError,
    transport::{DynamicTransportError, streamable_http_client::StreamableHttpError},
};
use shared::Fault;

use super::{
    doubt,
    http::HttpError,
    last_output::{self, with_last_output, with_line},
    wire::Unreadable,
};
use crate::text::error_chain;

/// Codes of errors that a server reports before it carries a request out: parse error, no such method, invalid parameters, no
/// such resource, and those of protocol 2026-07-28 for the headers, the capabilities and the version of a request, and for a URL
/// that a person must visit first.
///
/// ## Why all others leave a doubt
///
/// Bridges report a connection that closed in the middle of a write as -32603, -32000 or -32600.
const NOT_MADE: [i32; 8] = [-32700, -32601, -32602, -32002, -32020, -32021, -32022, -32042];

/// Failure of a request.
pub(super) enum Failure {
    /// The request was not sent.
    Unsent(String),
    /// The server rejected the request with this message.
    Refused(String),
    /// The server answered with an error that does not say whether it carried the request out.
    Unclear(String),
    /// The server refused the request by HTTP.
    Status {
        /// Status code of the response.
        status: u16,
        /// The server's explanation.
        message: String,
        /// True if the server no longer knows the session.
        is_session_lost: bool,
        /// Delay before a retry that the server asked for, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The server answered, and the answer cannot be used.
    Unreadable(Unreadable),
    /// The request had no effect; the fault says whether it can be retried.
    Fault(Fault),
    /// The server may have received the request, and its response is lost.
    Lost {
        /// Cause of the loss.
        why: String,
        /// Delay before a retry that the server asked for, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The server may have received the request, and did not respond.
    Silent {
        /// Time without a response.
        time: Duration,
        /// The server's last output, if known.
        last_output: Option<String>,
    },
}

impl Failure {
    /// Converts an error of a request. `redact` removes secrets.
    pub(super) fn of(error: ServiceError, redact: impl Fn(&str) -> String) -> Self {
        match error {
            ServiceError::McpError(error) => match Unreadable::of(&error) {
                Some(reply) => Failure::Unreadable(Unreadable { why: redact(&reply.why), ..reply }),
                None => Self::of_error(error.code, redact(&error.message)),
            },
            ServiceError::TransportSend(error) => Self::of_send_error(&error, redact),
            ServiceError::Timeout { timeout } => Failure::Silent { time: timeout, last_output: None },
            ServiceError::TransportClosed => Self::lost("it closed the connection".to_owned()),
            error @ (ServiceError::UnexpectedResponse
            | ServiceError::SubscriptionLagged { .. }
            | ServiceError::Cancelled { .. }
            | ServiceError::InputRequiredRoundsExceeded { .. }
            | _) => Self::lost(redact(&error_chain(&error))),
        }
    }

    /// Decides what an error of JSON-RPC says about a request.
    fn of_error(code: ErrorCode, message: String) -> Self {
        let message = if message.trim().is_empty() { doubt::WITHOUT_MESSAGE.to_owned() } else { message };
        // SDKs check the output of a tool after it has run, and report a misfit as an invalid request or invalid parameters.
        match NOT_MADE.contains(&code.0) {
            _ if doubt::is_of_output(&message) => {
                Failure::Unreadable(Unreadable { why: format!("was withheld: {message}"), has_result: true })
            }
            true => Failure::Refused(message),
            false => Failure::Unclear(message),
        }
    }

    /// Over HTTP, rmcp reports a response that is not an answer as a failure to send.
    fn of_send_error(error: &DynamicTransportError, redact: impl Fn(&str) -> String) -> Self {
        if error.error.is::<std::io::Error>() {
            // A child that did not receive the end of a line has received no message.
            return Failure::Unsent(redact(&error_chain(error.error.as_ref())));
        }
        match http_error(error) {
            Some(HttpError::Lost(error)) => {
                let why = redact(&error_chain(error));
                if error.is_connect() { Failure::Unsent(why) } else { Self::lost(why) }
            }
            Some(HttpError::Status { status, message, is_session_lost, retry_after_ms }) => Failure::Status {
                status: *status,
                message: redact(message),
                is_session_lost: *is_session_lost,
                retry_after_ms: *retry_after_ms,
            },
            None => Self::lost(redact(&error_chain(error.error.as_ref()))),
        }
    }

    fn lost(why: String) -> Self {
        Failure::Lost { why, retry_after_ms: None }
    }

    /// Returns true if the request can be sent again over a new connection: it was not sent, or the server refused
    /// the session that it belonged to. After a server error it may have been carried out.
    pub(super) fn is_for_new_connection(&self, may_repeat: bool) -> bool {
        match self {
            Failure::Unsent(_) => true,
            // Time-outs and rate limits concern the request, whatever its session.
            Failure::Status { status: 408 | 429, .. } => false,
            Failure::Status { status: 500.., is_session_lost, .. } => *is_session_lost && may_repeat,
            Failure::Status { is_session_lost, .. } => *is_session_lost,
            Failure::Refused(_)
            | Failure::Unclear(_)
            | Failure::Unreadable(_)
            | Failure::Fault(_)
            | Failure::Lost { .. }
            | Failure::Silent { .. } => false,
        }
    }

    /// Returns true if the connection is of no further use.
    pub(super) fn is_of_connection(&self) -> bool {
        match self {
            Failure::Unsent(_) | Failure::Lost { .. } => true,
            Failure::Status { is_session_lost, .. } => *is_session_lost,
            Failure::Refused(_)
            | Failure::Unclear(_)
            | Failure::Unreadable(_)
            | Failure::Fault(_)
            | Failure::Silent { .. } => false,
        }
    }

    /// Returns true if the failure does not tell its cause, which the server may have written elsewhere.
    pub(super) fn is_wordless(&self) -> bool {
        match self {
            Failure::Unsent(_) | Failure::Lost { .. } | Failure::Silent { .. } => true,
            Failure::Refused(message) | Failure::Unclear(message) => last_output::is_wordless(message),
            Failure::Status { .. } | Failure::Unreadable(_) | Failure::Fault(_) => false,
        }
    }

    /// Adds the server's last output.
    pub(super) fn with_last_output(self, line: String) -> Self {
        let add = |error: String| with_last_output(&error, &line);
        match self {
            Failure::Unsent(why) => Failure::Unsent(add(why)),
            Failure::Lost { why, retry_after_ms } => Failure::Lost { why: add(why), retry_after_ms },
            Failure::Refused(message) => Failure::Refused(add(message)),
            Failure::Unclear(message) => Failure::Unclear(add(message)),
            Failure::Silent { time, .. } => Failure::Silent { time, last_output: Some(line) },
            failure @ (Failure::Status { .. } | Failure::Unreadable(_) | Failure::Fault(_)) => failure,
        }
    }

    /// Decides what a refusal by HTTP means: below 500, the request was not carried out.
    pub(super) fn without_status(self, name: &str) -> Self {
        let Failure::Status { status, message, is_session_lost: _, retry_after_ms } = self else {
            return self;
        };
        let why = status_text(status, &message);
        match status {
            401 | 403 => Failure::Fault(unauthorized(name)),
            429 => Failure::Fault(rate_limited(name, status, retry_after_ms)),
            500.. => Failure::Lost { why, retry_after_ms },
            _ => Failure::Refused(format!("the request was refused and had no effect: {why}")),
        }
    }

    /// Maps the failure of a request without side effects.
    pub(super) fn of_query(self, name: &str) -> Fault {
        match self.without_status(name) {
            Failure::Fault(fault) => fault,
            Failure::Unsent(why) => unreachable(name, &why, None),
            Failure::Lost { why, retry_after_ms } => unreachable(name, &why, retry_after_ms),
            Failure::Refused(message) | Failure::Unclear(message) => {
                Fault::transient(format!("MCP server {name} refuses to answer: {message}"))
            }
            Failure::Unreadable(reply) => {
                Fault::transient(format!("MCP server {name} answered, but its answer {}", reply.why))
            }
            Failure::Silent { time, last_output } => {
                let error = format!("MCP server {name} did not respond within {time:?}");
                Fault::unanswered(with_line(&error, last_output.as_deref()))
            }
            Failure::Status { status, message, .. } => {
                Fault::transient(format!("MCP server {name}: {}", status_text(status, &message)))
            }
        }
    }
}

fn http_error(error: &DynamicTransportError) -> Option<&HttpError> {
    let error = error.error.downcast_ref::<StreamableHttpError<HttpError>>()?;
    if let StreamableHttpError::Client(error) = error { Some(error) } else { None }
}

fn status_text(status: u16, message: &str) -> String {
    if message.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {message}") }
}

/// Cause of a failed connection.
///
/// # Errors
///
/// [`Fault`] if the cause has a fault of its own.
pub(super) fn connect_error(name: &str, error: &ClientInitializeError) -> Result<String, Fault> {
    // rmcp's outer messages name its own types, which help no operator.
    if let ClientInitializeError::TransportError { error, .. } = error {
        return http_error(error)
            .map_or_else(|| Ok(error_chain(error.error.as_ref())), |error| connect_http_error(name, error));
    }
    if let ClientInitializeError::JsonRpcError(error) = error {
        return Ok(match Unreadable::of(error) {
            Some(reply) => format!("its answer {}", reply.why),
            None => format!("it refused the handshake: {}", error.message),
        });
    }
    if let ClientInitializeError::ExpectedInitResult(_) = error {
        return Ok("its answer is not the result of a handshake".to_owned());
    }
    Ok(error_chain(error))
}

/// Cause of a connection that failed by HTTP.
///
/// # Errors
///
/// [`Fault`] if the cause has a fault of its own.
pub(super) fn connect_http_error(name: &str, error: &HttpError) -> Result<String, Fault> {
    match error {
        HttpError::Lost(error) => Ok(error_chain(error)),
        HttpError::Status { status: 401 | 403, .. } => Err(unauthorized(name)),
        HttpError::Status { status, retry_after_ms: retry_after_ms @ Some(_), .. } => {
            Err(rate_limited(name, *status, *retry_after_ms))
        }
        HttpError::Status { status, message, .. } => Ok(status_text(*status, message)),
    }
}

fn rate_limited(name: &str, status: u16, retry_after_ms: Option<u64>) -> Fault {
    Fault::unavailable(format!("MCP server {name} is rate limited (http status {status})"), retry_after_ms)
}

/// The fault of an unreachable server, with the delay it asked for, if any.
pub(super) fn unreachable(name: &str, why: &str, retry_after_ms: Option<u64>) -> Fault {
    let error = format!("cannot reach MCP server {name}: {why}; hint: check [mcp.{name}] in turnfold.toml");
    Fault::unavailable(error, retry_after_ms)
}

fn unauthorized(name: &str) -> Fault {
    Fault::permanent(format!(
        "MCP server {name} rejected the credentials; hint: fix mcp.{name}.headers in turnfold.toml, then run: turnfold turn retry"
    ))
}
