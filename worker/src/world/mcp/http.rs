//! An MCP server over streamable HTTP.

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

/// The longest pause before a broken stream is opened again; rmcp has no such limit of its own.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The most redirects that one request follows.
const REDIRECTS_MAX: usize = 10;

/// A way to a server. Nothing is sent yet.
///
/// # Errors
///
/// What is wrong with the configuration, in words.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, SecretString>,
    connect_timeout: Duration,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut carried = std::collections::HashMap::new();
    for (name, value) in headers {
        let key = HeaderName::try_from(name).map_err(|_| format!("{name:?} is no name of a header"))?;
        let mut value = HeaderValue::try_from(value.expose_secret())
            .map_err(|_| format!("the header {name} has no legal value"))?;
        value.set_sensitive(true);
        carried.insert(key, value);
    }
    let client = reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        // A connection whose last answer was not read to its end stalls the next request.
        .pool_max_idle_per_host(0)
        .redirect(Policy::custom(redirect))
        .build()
        .map_err(|error| format!("no HTTP client can be built: {error}"))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(carried);
    let mut backoff = ExponentialBackoff::default();
    backoff.max_delay = Some(PAUSE_MAX);
    config.retry_config = Arc::new(backoff);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Follows only where the request stays what it is and its headers stay with whom they were meant for.
fn redirect(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let stays = attempt.previous().first().is_some_and(|it| it.origin() == attempt.url().origin());
    let enough = attempt.previous().len() > REDIRECTS_MAX;
    if keeps && stays && !enough { attempt.follow() } else { attempt.stop() }
}
