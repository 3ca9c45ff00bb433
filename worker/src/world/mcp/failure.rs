//! Why a server did not answer: the one thing to know is whether it may have heard.

use std::time::Duration;

use rmcp::{
    ServiceError,
    service::ClientInitializeError,
    transport::{
        DynamicTransportError,
        streamable_http_client::{HttpStatusError, StreamableHttpError},
    },
};
use shared::{Fault, Remedy};

use crate::world::{chain, pause::pause_ms};

/// Why a server did not answer.
pub(super) enum Failure {
    /// It never heard.
    Unsent(String),
    /// It heard, and refused in these words.
    Refused(String),
    /// It heard nothing of use, and this is what may be done about it.
    Fault(Fault),
    /// It may have heard, and its answer is lost.
    Lost {
        /// Why.
        why: String,
        /// How long it wants to be left alone, in milliseconds, if it said so.
        after_ms: Option<u64>,
    },
    /// It may have heard, and said nothing for so long.
    Silent(Duration),
}

impl Failure {
    /// What a failed request to `name` means.
    ///
    /// `hide` strikes out what nobody may read.
    pub(super) fn of(name: &str, error: ServiceError, hide: impl Fn(&str) -> String) -> Self {
        match error {
            ServiceError::McpError(error) => Failure::Refused(hide(&error.message)),
            ServiceError::TransportSend(error) => Self::of_sending(name, &error, hide),
            ServiceError::Timeout { timeout } => Failure::Silent(timeout),
            ServiceError::TransportClosed => Self::lost("it closed the connection".to_owned()),
            error @ (ServiceError::UnexpectedResponse
            | ServiceError::SubscriptionLagged { .. }
            | ServiceError::Cancelled { .. }
            | ServiceError::InputRequiredRoundsExceeded { .. }
            | _) => Self::lost(hide(&chain(&error))),
        }
    }

    /// Over HTTP, an answer that is no answer counts as a failure to send.
    fn of_sending(name: &str, error: &DynamicTransportError, hide: impl Fn(&str) -> String) -> Self {
        let over_http = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        if let Some(StreamableHttpError::Client(error)) = over_http {
            let why = hide(&chain(error));
            return if error.is_connect() { Failure::Unsent(why) } else { Self::lost(why) };
        }
        if let Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) =
            over_http
        {
            return Failure::Fault(locked(name));
        }
        let refused = over_http.and_then(refused);
        if let Some((429, after_ms)) = refused {
            return Failure::Fault(pause_asked(name, 429, after_ms));
        }
        let after_ms = refused.and_then(|(_, after_ms)| after_ms);
        Failure::Lost { why: hide(&chain(error.error.as_ref())), after_ms }
    }

    fn lost(why: String) -> Self {
        Failure::Lost { why, after_ms: None }
    }

    /// What it means for a request that changes nothing.
    pub(super) fn of_a_question(self, name: &str) -> Fault {
        match self {
            Failure::Fault(fault) => fault,
            Failure::Unsent(why) => unreachable(name, &why, None),
            Failure::Lost { why, after_ms } => unreachable(name, &why, after_ms),
            Failure::Refused(words) => Fault::again(format!("MCP server {name} refuses to answer: {words}")),
            Failure::Silent(time) => Fault::again(format!("MCP server {name} gave no answer in {time:?}")),
        }
    }
}

/// Why no connection came about.
pub(super) fn of_connecting(name: &str, error: &ClientInitializeError) -> Result<String, Fault> {
    if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
        return of_connecting(name, fallback);
    }
    if error.is_authorization_required() {
        return Err(locked(name));
    }
    if let ClientInitializeError::ConnectionClosed(_) = error {
        return Ok("it closed the connection".to_owned());
    }
    // What rmcp says around its cause names its own types, and nothing that a person could mend.
    if let ClientInitializeError::TransportError { error, .. } = error {
        let over_http = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        if let Some((status, after_ms @ Some(_))) = over_http.and_then(refused) {
            return Err(pause_asked(name, status, after_ms));
        }
        return Ok(match over_http {
            Some(StreamableHttpError::Client(error)) => chain(error),
            Some(_) | None => chain(error.error.as_ref()),
        });
    }
    Ok(chain(error))
}

/// The status of an answer over HTTP that is a refusal, and how long the server wants to be left alone, if it says so.
fn refused(error: &StreamableHttpError<reqwest::Error>) -> Option<(u16, Option<u64>)> {
    let StreamableHttpError::HttpStatus(HttpStatusError { status, retry_after, .. }) = error else {
        return None;
    };
    Some((*status, retry_after.as_deref().and_then(pause_ms)))
}

fn pause_asked(name: &str, status: u16, after_ms: Option<u64>) -> Fault {
    Fault::new(format!("MCP server {name} asks for a pause ({status})"), Remedy::Again { after_ms })
}

/// The words for a server that cannot be reached, and how long it wants to be left alone, if it said so.
pub(super) fn unreachable(name: &str, why: &str, after_ms: Option<u64>) -> Fault {
    let error = format!("MCP server {name} cannot be reached: {why}; check [mcp.{name}] in turnfold.toml");
    Fault::new(error, Remedy::Again { after_ms })
}

fn locked(name: &str) -> Fault {
    Fault::operator(format!(
        "MCP server {name} refuses who we are: check [mcp.{name}.headers] in turnfold.toml"
    ))
}
