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

use crate::world::chain;

/// Why a server did not answer.
pub(super) enum Failure {
    /// It never heard.
    Unsent(String),
    /// It heard, and refused in these words.
    Refused(String),
    /// It heard nothing of use, and this is what may be done about it.
    Fault(Fault),
    /// It may have heard, and its answer is lost.
    Lost(String),
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
            ServiceError::TransportClosed => Failure::Lost("it closed the connection".to_owned()),
            error @ (ServiceError::UnexpectedResponse
            | ServiceError::SubscriptionLagged { .. }
            | ServiceError::Cancelled { .. }
            | ServiceError::InputRequiredRoundsExceeded { .. }
            | _) => Failure::Lost(hide(&chain(&error))),
        }
    }

    /// Over HTTP, an answer that is no answer counts as a failure to send.
    fn of_sending(name: &str, error: &DynamicTransportError, hide: impl Fn(&str) -> String) -> Self {
        let over_http = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        if let Some(StreamableHttpError::Client(error)) = over_http {
            let why = hide(&chain(error));
            return if error.is_connect() { Failure::Unsent(why) } else { Failure::Lost(why) };
        }
        if let Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_)) =
            over_http
        {
            return Failure::Fault(locked(name));
        }
        if let Some(StreamableHttpError::HttpStatus(HttpStatusError { status: 429, retry_after, .. })) =
            over_http
        {
            let seconds = retry_after.as_ref().and_then(|it| it.trim().parse::<u64>().ok());
            let after_ms = seconds.map(|it| it.min(PAUSE_MAX.as_secs()) * 1_000);
            let error = format!("MCP server {name} asks for a pause (429)");
            return Failure::Fault(Fault::new(error, Remedy::Again { after_ms }));
        }
        Failure::Lost(hide(&chain(error.error.as_ref())))
    }

    /// What it means for a request that changes nothing.
    pub(super) fn of_a_question(self, name: &str) -> Fault {
        match self {
            Failure::Fault(fault) => fault,
            Failure::Unsent(why) | Failure::Lost(why) => unreachable(name, &why),
            Failure::Refused(words) => Fault::again(format!("MCP server {name} refuses to answer: {words}")),
            Failure::Silent(time) => Fault::again(format!("MCP server {name} gave no answer in {time:?}")),
        }
    }
}

/// The longest pause that a server may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(600);

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
        return Ok(match over_http {
            Some(StreamableHttpError::Client(error)) => chain(error),
            Some(_) | None => chain(error.error.as_ref()),
        });
    }
    Ok(chain(error))
}

/// The words for a server that cannot be reached.
pub(super) fn unreachable(name: &str, why: &str) -> Fault {
    Fault::again(format!("MCP server {name} cannot be reached: {why}; check [mcp.{name}] in turnfold.toml"))
}

fn locked(name: &str) -> Fault {
    Fault::operator(format!(
        "MCP server {name} refuses who we are: check [mcp.{name}.headers] in turnfold.toml"
    ))
}
