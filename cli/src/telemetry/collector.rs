//! A collector of OpenTelemetry, over HTTP.

use std::time::Duration;

use anyhow::Context as _;
use audit::otel::{Span, export_protobuf, export_request, rejected_spans};
use reqwest::{
    Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::{
    config::{OtlpProtocol, TelemetrySettings},
    exit::{CliError, Exit},
};

/// Address of a collector on this machine.
const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:4318";

/// Path of traces.
const PATH: &str = "/v1/traces";

/// Maximum time of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes of an error that are shown.
const SHOWN_MAX: usize = 200;

/// Version that spans are exported with.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A client of a collector.
pub(crate) struct Collector {
    http: reqwest::Client,
    url: Url,
    protocol: OtlpProtocol,
}

impl Collector {
    /// Creates a client of the configured collector. `endpoint` and `protocol` take precedence; an address may have the path `/v1/traces`.
    ///
    /// # Errors
    ///
    /// The address is invalid, a header is none that HTTP allows, or its secret cannot be read.
    pub(crate) fn new(
        settings: &TelemetrySettings,
        endpoint: Option<String>,
        protocol: Option<OtlpProtocol>,
    ) -> anyhow::Result<Self> {
        let endpoint = endpoint.as_deref().or(settings.otlp_endpoint.as_deref()).unwrap_or(DEFAULT_ENDPOINT);
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
        let http = reqwest::Client::builder().timeout(TIMEOUT).default_headers(headers(settings)?).build()?;
        Ok(Self { http, url, protocol: protocol.unwrap_or(settings.otlp_protocol) })
    }

    /// Sends spans. Returns the number of those that the collector rejected.
    ///
    /// # Errors
    ///
    /// [`Exit::Unreachable`] if the collector cannot be reached or refuses the request.
    pub(crate) async fn send(&self, spans: &[Span]) -> anyhow::Result<u64> {
        let refused = |why: String| {
            CliError::with_exit(
                Exit::Unreachable,
                format!("the collector at {} {why}", self.url.origin().ascii_serialization()),
            )
        };
        let request = self.http.post(self.url.clone());
        let request = match self.protocol {
            OtlpProtocol::Protobuf => {
                request.header(CONTENT_TYPE, "application/x-protobuf").body(export_protobuf(spans, VERSION))
            }
            OtlpProtocol::Json => request.json(&export_request(spans, VERSION)),
        };
        let response = request.send().await;
        let response =
            response.map_err(|err| refused(format!("cannot be reached: {}", err.without_url())))?;
        let status = response.status();
        let body = response.bytes().await.context("the response of the collector broke off")?;
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body);
            let text = &text[..text.floor_char_boundary(SHOWN_MAX)];
            let hint = match status.as_u16() {
                415 => "\nhint: choose the other form with telemetry.otlp_protocol, or --protocol",
                _ => "",
            };
            return Err(refused(format!("answers {status}: {text}{hint}")));
        }
        Ok(match self.protocol {
            OtlpProtocol::Protobuf => rejected_spans(&body),
            OtlpProtocol::Json => rejected_in_json(&body),
        })
    }
}

/// Returns the number of rejected spans. 64-bit numbers are strings in JSON, and some collectors write numbers.
fn rejected_in_json(body: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or_default()
}

/// Returns the configured headers. Their values are never displayed.
fn headers(settings: &TelemetrySettings) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in &settings.headers {
        let wrong = |what: &str| {
            CliError::with_exit(
                Exit::Usage,
                format!("telemetry.headers.{name}: {what} that HTTP does not allow"),
            )
        };
        let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong("a name"))?;
        let secret = value.resolve()?;
        let mut value = HeaderValue::try_from(secret.expose_secret()).map_err(|_| wrong("a value"))?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}
