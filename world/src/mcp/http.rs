//! MCP servers over streamable HTTP: the client behind rmcp's transport.
//!
//! ## Why not rmcp's own client
//!
//! It reports a refusal by HTTP as a text, so that a write that was refused could not be told from one that may have
//! happened, and it gives a new session only to a server that answers 404.

mod body;
mod events;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::stream::BoxStream;
use reqwest::{
    Method, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
    redirect::{Attempt, Policy},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcRequest},
    transport::{
        StreamableHttpClientTransport,
        common::client_side_sse::ExponentialBackoff,
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use secrecy::{ExposeSecret, SecretString};
use sse_stream::Sse;

use self::{body::read_json, events::Events};
use super::{notifications::Changes, wire::Payload};
use crate::retry_after::delay_ms;

/// Maximum delay before a broken stream is reopened; rmcp has no maximum.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(30);

/// Maximum redirects of one request.
const MAX_REDIRECTS: usize = 10;

const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
const ACCEPTED: &str = "text/event-stream, application/json";

/// Headers that the transport sets.
const RESERVED: [&str; 3] = ["accept", SESSION_ID, LAST_EVENT_ID];

/// Failure of an HTTP request.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    /// The request or its response was lost.
    #[error(transparent)]
    Lost(#[from] reqwest::Error),
    /// The response says that the request was not served.
    #[error("HTTP {status}{}", if .message.is_empty() { String::new() } else { format!(": {message}") })]
    Status {
        /// Status code of the response.
        status: u16,
        /// The server's explanation.
        message: String,
        /// True if the server no longer knows the session of the request.
        is_session_lost: bool,
        /// Delay before a retry that the server asked for, in milliseconds.
        retry_after_ms: Option<u64>,
    },
}

type ClientError = StreamableHttpError<HttpError>;
type Headers = HashMap<HeaderName, HeaderValue>;
type SseStream = BoxStream<'static, Result<Sse, SseError>>;

/// A client for one server.
#[derive(Clone)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    name: Arc<str>,
    changes: Changes,
    has_session: Arc<AtomicBool>,
}

impl HttpClient {
    /// Creates a client and the configuration of its transport. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// A description of the invalid configuration.
    pub(super) fn new(
        name: &str,
        url: &str,
        headers: &BTreeMap<String, SecretString>,
        connect_timeout: Duration,
        changes: Changes,
    ) -> Result<(Self, StreamableHttpClientTransportConfig), String> {
        let mut header_map = HashMap::new();
        for (name, value) in headers {
            let key =
                HeaderName::try_from(name).map_err(|_| format!("{name:?} is not a valid header name"))?;
            if RESERVED.contains(&key.as_str()) {
                return Err(format!("the header {name} is set by the protocol"));
            }
            let mut value = HeaderValue::try_from(value.expose_secret())
                .map_err(|_| format!("the value of header {name} is invalid"))?;
            value.set_sensitive(true);
            header_map.insert(key, value);
        }
        let client = reqwest::Client::builder()
            .connect_timeout(connect_timeout)
            // A connection whose last response was not read to its end would stall the next request.
            .pool_max_idle_per_host(0)
            .redirect(Policy::custom(redirect))
            .build()
            .map_err(|error| format!("cannot build an HTTP client: {error}"))?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(header_map);
        let mut backoff = ExponentialBackoff::default();
        backoff.max_delay = Some(MAX_RECONNECT_DELAY);
        config.retry_config = Arc::new(backoff);
        // A lost session is replaced together with its connection.
        config.reinit_on_expired_session = false;
        let has_session = Arc::default();
        Ok((Self { client, name: name.into(), changes, has_session }, config))
    }

    /// Creates rmcp's transport.
    pub(super) fn transport(
        self,
        config: StreamableHttpClientTransportConfig,
    ) -> StreamableHttpClientTransport<Self> {
        StreamableHttpClientTransport::with_client(self, config)
    }

    /// Returns true if the server has given this client a session.
    pub(super) fn has_session(&self) -> bool {
        self.has_session.load(Ordering::Acquire)
    }

    fn request(&self, method: Method, target: &Target) -> RequestBuilder {
        let mut request = self.client.request(method, target.uri.as_ref()).header(ACCEPT, ACCEPTED);
        if let Some(session) = &target.session {
            self.has_session.store(true, Ordering::Release);
            request = request.header(SESSION_ID, session.as_ref());
        }
        target.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }
}

/// Destination of a request.
#[derive(Clone)]
struct Target {
    uri: Arc<str>,
    session: Option<Arc<str>>,
    headers: Headers,
}

/// Statuses by which a proxy, or a server that did not look at the request, speaks. An error beside them is not the
/// server's own answer.
const NOT_ITS_ANSWER: [u16; 6] = [401, 403, 429, 502, 503, 504];

/// Returns the server's answer to a request, if a response that is no success carries it, or the refusal.
///
/// ## Why the body decides
///
/// Servers answer with 400, 404, 409, 422 and 500 what they have carried out. The call was answered then: sent again, in a
/// new session or the same, it would be made twice.
async fn answer_or_refusal(
    response: Response,
    message: &ClientJsonRpcMessage,
    in_session: bool,
    server: &str,
) -> Result<StreamableHttpPostResponse, ClientError> {
    let (status, retry_after_ms) = (response.status().as_u16(), retry_after(&response));
    let refused = body::read_refusal(response).await;
    let request = if let ClientJsonRpcMessage::Request(request) = message { Some(request) } else { None };
    let mut is_unnamed = false;
    for answer in refused.answers {
        is_unnamed |= answer.id.is_none();
        let Some(request) = request.filter(|request| answer.id.as_ref() == Some(&request.id)) else {
            continue;
        };
        // Anything but a call is repeated without harm, so a 404 may still mean the session.
        let is_refusal = matches!(answer.payload, Payload::Error(_))
            && (NOT_ITS_ANSWER.contains(&status) || in_session && status == 404 && !is_call(request));
        if !is_refusal {
            let message = answer.payload.into_message(request.id.clone(), server);
            return Ok(StreamableHttpPostResponse::Json(message, None));
        }
    }
    let is_session_lost = in_session && (status == 404 || is_unnamed || !request.is_some_and(is_call));
    let error = HttpError::Status { status, message: refused.explanation, is_session_lost, retry_after_ms };
    Err(StreamableHttpError::Client(error))
}

fn is_call(request: &JsonRpcRequest<ClientRequest>) -> bool {
    matches!(request.request, ClientRequest::CallToolRequest(_))
}

fn retry_after(response: &Response) -> Option<u64> {
    response.headers().get(RETRY_AFTER).and_then(|header| header.to_str().ok()).and_then(delay_ms)
}

fn is_event_stream(response: &Response) -> bool {
    let kind =
        response.headers().get(CONTENT_TYPE).and_then(|header| header.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("text/event-stream")
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, ClientError> {
        let target = Target { uri, session, headers };
        let in_session = target.session.is_some();
        let response = self.request(Method::POST, &target).json(&message).send().await.map_err(lost)?;
        if !response.status().is_success() {
            return answer_or_refusal(response, &message, in_session, &self.name).await;
        }
        let session =
            response.headers().get(SESSION_ID).and_then(|header| header.to_str().ok()).map(str::to_owned);
        let ClientJsonRpcMessage::Request(request) = message else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let is_empty = matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT);
        if is_empty && in_session {
            // The answer may follow on the stream of the session.
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if is_event_stream(&response) {
            let events = Events::new(self, target, Some(request.id), response);
            return Ok(StreamableHttpPostResponse::Sse(events.into_stream(), session));
        }
        let payload = read_json(response).await.map_err(lost)?;
        Ok(StreamableHttpPostResponse::Json(payload.into_message(request.id, &self.name), session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), ClientError> {
        let target = Target { uri, session: Some(session), headers };
        // A server need not support it, and a session that it does not know is gone.
        self.request(Method::DELETE, &target).send().await.map_err(lost)?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<SseStream, ClientError> {
        let target = Target { uri, session, headers };
        let mut request = self.request(Method::GET, &target);
        if let Some(id) = last_event_id {
            request = request.header(LAST_EVENT_ID, id);
        }
        let response = request.send().await.map_err(lost)?;
        // Asking again would be refused again. A server may have no stream, or no longer know the session.
        if response.status().is_client_error() {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !response.status().is_success() {
            let (status, retry_after_ms) = (response.status().as_u16(), retry_after(&response));
            let message = body::read_refusal(response).await.explanation;
            let is_session_lost = target.session.is_some();
            let error = HttpError::Status { status, message, is_session_lost, retry_after_ms };
            return Err(StreamableHttpError::Client(error));
        }
        if !is_event_stream(&response) {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(Events::new(self, target, None, response).into_stream())
    }
}

fn lost(error: reqwest::Error) -> ClientError {
    StreamableHttpError::Client(HttpError::Lost(error))
}

/// Follows a redirect only if it keeps the method, the body and the origin, because the origin receives the headers.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_method =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same_origin = attempt.previous().first().is_some_and(|url| url.origin() == attempt.url().origin());
    let too_many = attempt.previous().len() > MAX_REDIRECTS;
    if keeps_method && same_origin && !too_many { attempt.follow() } else { attempt.stop() }
}
