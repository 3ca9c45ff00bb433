//! A collector of OpenTelemetry, over HTTP with JSON.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::Url;
use serde_json::Value;

use crate::exit::{CliError, Exit};

/// Address of a collector on this machine.
pub(crate) const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:4318";

/// Path of traces.
const PATH: &str = "/v1/traces";

/// Maximum time of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes of an error that are shown.
const SHOWN_MAX: usize = 200;

/// A client of a collector.
pub(crate) struct Collector {
    http: reqwest::Client,
    url: Url,
}

impl Collector {
    /// Creates a client of the collector at this address, with or without the path `/v1/traces`.
    pub(crate) fn new(endpoint: &str) -> anyhow::Result<Self> {
        let base = endpoint.trim_end_matches('/');
        let base = base.strip_suffix(PATH).unwrap_or(base);
        let url =
            Url::parse(&format!("{base}{PATH}")).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
        let Some(url) = url else {
            let message = format!(
                "{endpoint:?} is no address of a collector\nhint: use one such as {DEFAULT_ENDPOINT}"
            );
            return Err(CliError::with_exit(Exit::Usage, message));
        };
        Ok(Self { http: reqwest::Client::builder().timeout(TIMEOUT).build()?, url })
    }

    /// Sends a request. Returns the number of spans that the collector rejected.
    ///
    /// # Errors
    ///
    /// [`Exit::Unreachable`] if the collector cannot be reached or refuses the request.
    pub(crate) async fn send(&self, request: &Value) -> anyhow::Result<u64> {
        let refused = |why: String| {
            CliError::with_exit(
                Exit::Unreachable,
                format!("the collector at {} {why}", self.url.origin().ascii_serialization()),
            )
        };
        let response = self.http.post(self.url.clone()).json(request).send().await;
        let response =
            response.map_err(|err| refused(format!("cannot be reached: {}", err.without_url())))?;
        let status = response.status();
        let text = response.text().await.context("the response of the collector broke off")?;
        if !status.is_success() {
            let text = &text[..text.floor_char_boundary(SHOWN_MAX)];
            return Err(refused(format!("answers {status}: {text}")));
        }
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let rejected = &answer["partialSuccess"]["rejectedSpans"];
        // 64-bit numbers are strings in this protocol, and some collectors write numbers.
        Ok(rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or_default())
    }
}
