//! Transport to MCP servers over streamable HTTP.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use reqwest::{
    StatusCode,
    header::{HeaderName, HeaderValue},
    redirect::{Attempt, Policy},
};
use rmcp::transport::{
    StreamableHttpClientTransport, common::client_side_sse::ExponentialBackoff,
    streamable_http_client::StreamableHttpClientTransportConfig,
};
use secrecy::{ExposeSecret, SecretString};

/// Maximum delay before a broken stream is reopened; rmcp has no maximum.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(30);

/// Maximum redirects of one request.
const MAX_REDIRECTS: usize = 10;

/// Creates a transport. Nothing is sent yet.
///
/// # Errors
///
/// A description of the invalid configuration.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, SecretString>,
    connect_timeout: Duration,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut header_map = std::collections::HashMap::new();
    for (name, value) in headers {
        let key = HeaderName::try_from(name).map_err(|_| format!("{name:?} is not a valid header name"))?;
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
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Follows a redirect only if it keeps the method, the body and the origin, because the origin receives the headers.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_method =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same_origin = attempt.previous().first().is_some_and(|it| it.origin() == attempt.url().origin());
    let too_many = attempt.previous().len() > MAX_REDIRECTS;
    if keeps_method && same_origin && !too_many { attempt.follow() } else { attempt.stop() }
}
