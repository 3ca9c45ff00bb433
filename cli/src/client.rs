//! Client of the HTTP API.

use std::{env, error::Error as _, sync::Arc, time::Duration};

use anyhow::Context as _;
use api_types::Page;
use axum::{Router, body::Body};
use reqwest::{Method, RequestBuilder, Response, Url, header::HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tower::ServiceExt as _;
use tracing::{instrument::WithSubscriber as _, subscriber::NoSubscriber};

use crate::{
    config::Settings,
    exit::{self, CliError, Exit},
    user::user_name,
};

/// Variable with the API key.
///
/// ## Why there is no flag for the key
///
/// Every user of the machine can read the command lines of all processes.
const KEY: &str = "TURNFOLD_KEY";

/// Header with the name of the user, which is recorded in the log.
const USER_HEADER: &str = "x-turnfold-user";

/// Maximum number of elements on a page of the API.
const PAGE: u64 = 1_000;

/// Maximum outage of the API that a waiting command tolerates.
pub(crate) const OUTAGE_MAX: Duration = Duration::from_secs(60);

/// Returns true if the API could not be reached or its response broke off.
pub(crate) fn is_outage(err: &anyhow::Error) -> bool {
    err.downcast_ref::<CliError>().is_some_and(|failure| failure.exit == Exit::Unreachable)
        || err.downcast_ref::<reqwest::Error>().is_some()
}

/// Returns the status with which the API refused a request (4xx), which therefore changed nothing.
pub(crate) fn refusal(err: &anyhow::Error) -> Option<u16> {
    err.downcast_ref::<CliError>()
        .and_then(|failure| failure.status)
        .filter(|status| (400..500).contains(status))
}

/// A client for one address, key and tenant.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// The API in this process that answers instead of the one at `base`.
    embedded: Option<Router>,
    base: String,
    key: Option<Key>,
    tenant: Option<HeaderValue>,
    user: HeaderValue,
}

/// An API key and its origin.
#[derive(Clone)]
struct Key {
    secret: SecretString,
    from: &'static str,
}

impl Key {
    /// Returns the key in [`KEY`]; else the first configured key that can be resolved, of an operator or of the tenant.
    fn find(settings: &Settings, tenant: Option<&str>) -> anyhow::Result<Option<Self>> {
        if let Some(own) = env::var(KEY).ok().filter(|key| !key.is_empty()) {
            return Ok(Some(Self { secret: own.into(), from: KEY }));
        }
        let of_tenant = tenant
            .and_then(|name| settings.tenants.get(name))
            .into_iter()
            .flat_map(|settings| &settings.keys);
        let mut unresolved = None;
        for key in settings.api.keys.iter().chain(of_tenant) {
            match key.resolve() {
                Ok(secret) => return Ok(Some(Self { secret, from: "the configuration" })),
                Err(err) => unresolved = unresolved.or(Some(err)),
            }
        }
        let message = format!("cannot read any configured API key\nhint: set {KEY} to your key");
        unresolved.map_or(Ok(None), |err| Err(anyhow::Error::from(err).context(message)))
    }
}

/// Builds the path `/v1/…` from segments, with special characters escaped.
pub(crate) fn path(parts: &[&str]) -> anyhow::Result<String> {
    // The URL type does the escaping.
    let mut url = Url::parse("http://api/v1")?;
    for part in parts {
        // These would name another path, however they are escaped.
        if ["", ".", ".."].contains(part) {
            return Err(CliError::with_exit(Exit::Usage, format!("{part:?} is not a valid name or id")));
        }
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.push(part);
        }
    }
    Ok(url.path().to_owned())
}

/// Checks `--url` and removes a trailing slash.
fn base_url(url: &str) -> anyhow::Result<String> {
    let base = url.trim_end_matches('/');
    let invalid = |why: &str, fix: &str| {
        Err(CliError::with_exit(Exit::Usage, format!("--url {url:?} {why}\nhint: use --url {fix}")))
    };
    match base.split_once("://") {
        None => invalid("has no scheme", &format!("http://{base}")),
        Some((scheme, rest)) if !["http", "https"].contains(&scheme.to_lowercase().as_str()) => {
            invalid("is neither http nor https", &format!("http://{rest}"))
        }
        Some(_) => match base.strip_suffix("/v1") {
            Some(short) => invalid("must not end with /v1", short),
            None => Ok(base.to_owned()),
        },
    }
}

/// Converts a command-line value to a header value; `option` names it in the error.
fn header(option: &str, text: String) -> anyhow::Result<HeaderValue> {
    HeaderValue::try_from(text).map_err(|_| {
        CliError::with_exit(Exit::Usage, format!("{option} must be one line without control characters"))
    })
}

/// Adds an idempotency key to a request.
pub(crate) fn with_idempotency_key(
    request: RequestBuilder,
    key: Option<String>,
) -> anyhow::Result<RequestBuilder> {
    Ok(match key {
        Some(key) => request.header("idempotency-key", header("--idempotency-key", key)?),
        None => request,
    })
}

/// Adds the reason of an administrative decision to a request.
pub(crate) fn with_reason(request: RequestBuilder, reason: Option<&str>) -> anyhow::Result<RequestBuilder> {
    let Some(reason) = reason else { return Ok(request) };
    // The API reads this header as UTF-8.
    let value = HeaderValue::from_bytes(reason.as_bytes()).map_err(|_| {
        CliError::with_exit(Exit::Usage, "--reason must be one line without control characters")
    })?;
    Ok(request.header("x-turnfold-reason", value))
}

impl Client {
    /// Creates a client of the API at `url`, or at `api.listen`.
    pub(crate) fn new(settings: &Settings, url: Option<&str>, tenant: Option<&str>) -> anyhow::Result<Self> {
        let configured = || Ok(format!("http://{}", settings.api.listen));
        let base = url.filter(|url| !url.is_empty()).map_or_else(configured, base_url)?;
        let key = Key::find(settings, tenant)?;
        let tenant = tenant.map(|tenant| header("--tenant", tenant.to_owned())).transpose()?;
        // The API reads this header as UTF-8.
        let user = HeaderValue::from_bytes(user_name().as_bytes())?;
        Ok(Self { http: reqwest::Client::new(), embedded: None, base, key, tenant, user })
    }

    /// Creates a client of an API in this process, which needs no key.
    pub(crate) fn embedded(api: Router, tenant: Option<&str>) -> anyhow::Result<Self> {
        let tenant = tenant.map(|name| header("--tenant", name.to_owned())).transpose()?;
        let user = HeaderValue::from_bytes(user_name().as_bytes())?;
        // Only builds requests, so it needs none of the certificates that take time to read.
        let http = reqwest::Client::builder().tls_certs_only([]).build()?;
        let base = "http://localhost".to_owned();
        Ok(Self { http, embedded: Some(api), base, key: None, tenant, user })
    }

    /// Replaces the key.
    pub(crate) fn with_key(self, secret: SecretString) -> Self {
        Self { key: Some(Key { secret, from: "this process" }), ..self }
    }

    /// Returns the API's address.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Returns the number of events to read in one request: few without latency, because each may have megabytes.
    pub(crate) fn events_at_once(&self) -> u64 {
        if self.embedded.is_some() { 100 } else { 1_000 }
    }

    /// Returns true if a tenant was named.
    pub(crate) fn names_tenant(&self) -> bool {
        self.tenant.is_some()
    }

    /// Builds a request.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        let request = request.header(USER_HEADER, &self.user);
        let request = match &self.tenant {
            Some(tenant) => request.header("x-turnfold-tenant", tenant),
            None => request,
        };
        match &self.key {
            Some(key) => request.bearer_auth(key.secret.expose_secret()),
            None => request,
        }
    }

    /// Sends a `GET` request and reads the response.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.fetch(self.request(Method::GET, path)).await
    }

    /// Reads the pages of a list, at most `limit` elements. `id` names an element.
    pub(crate) async fn all<T: DeserializeOwned>(
        &self,
        path: &str,
        limit: u64,
        id: impl Fn(&T) -> String,
    ) -> anyhow::Result<Vec<T>> {
        let mut all: Vec<T> = Vec::new();
        loop {
            let wanted = limit.saturating_sub(all.len() as u64).min(PAGE);
            let after = all.last().map(|last| format!("&after={}", id(last))).unwrap_or_default();
            let page: Page<T> = self.get(&format!("{path}?limit={wanted}{after}")).await?;
            let has_more = page.has_more && !page.data.is_empty();
            all.extend(page.data);
            if !has_more || limit <= all.len() as u64 {
                return Ok(all);
            }
        }
    }

    /// Sends a `POST` request and reads the response.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        self.fetch(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a request and reads the response.
    ///
    /// # Errors
    ///
    /// [`Exit::Unreachable`] if the API cannot be reached or the response breaks off, [`Exit::Unchecked`] if this version
    /// cannot read the response, otherwise as [`Self::send`].
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, request: RequestBuilder) -> anyhow::Result<T> {
        let bytes = self.send(request).await?.bytes().await?;
        serde_json::from_slice(&bytes).map_err(|err| {
            let message = format!(
                "cannot read the response of the API at {}: {err}\nhint: it may be another version; compare with: turnfold --version",
                self.base
            );
            CliError::with_exit(Exit::Unchecked, message)
        })
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// [`Exit::Unreachable`] if the API cannot be reached; for an error response, the code of its status.
    pub(crate) async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let response = self.execute(request).await.map_err(|err| self.unreachable(&err))?;
        let store_error = response.extensions().get::<Arc<store::Error>>().cloned();
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if let Some(error) = store_error {
            return Err(CliError::from_response(status.as_u16(), exit::of_store(&error), error.to_string()));
        }
        let problem: Value = response.json().await.unwrap_or_default();
        let text = |name: &str| problem[name].as_str().map(str::to_owned);
        let cause =
            text("detail").or(text("title")).unwrap_or_else(|| format!("the API responded with {status}"));
        let hint = text("hint").map(|text| format!("\nhint: {text}")).unwrap_or_default();
        let (exit, hint) = match status.as_u16() {
            401 => (Exit::Unauthorized, format!("\nhint: {}", self.key_hint())),
            403 => (Exit::Unauthorized, hint),
            404 => (Exit::NotFound, hint),
            400 | 422 => (Exit::Usage, hint),
            500 if text("type").is_some_and(|urn| urn.ends_with(":damaged")) => (Exit::Unchecked, hint),
            502..=504 => (Exit::Unreachable, hint),
            _ => (Exit::Finding, hint),
        };
        let message = with_commands(&format!("{cause}{hint}"));
        Err(CliError::from_response(status.as_u16(), exit, message))
    }

    async fn execute(&self, request: RequestBuilder) -> reqwest::Result<Response> {
        let Some(api) = &self.embedded else { return request.send().await };
        let request = axum::http::Request::try_from(request.build()?)?.map(Body::new);
        // The error of the response says what the API would log.
        let Ok(response) = api.clone().oneshot(request).with_subscriber(NoSubscriber::default()).await;
        Ok(response.map(|body| reqwest::Body::wrap_stream(body.into_data_stream())).into())
    }

    /// Names the key that was sent.
    fn key_hint(&self) -> String {
        match &self.key {
            Some(key) if key.from == KEY => format!("the key in {KEY} was sent; set it to a valid key"),
            Some(key) => format!("a key from {} was sent; set {KEY} to yours", key.from),
            None => format!("no key was sent; set {KEY} to yours"),
        }
    }

    fn unreachable(&self, err: &reqwest::Error) -> anyhow::Error {
        let base = &self.base;
        let why = innermost(err);
        if err.is_builder() {
            return CliError::with_exit(Exit::Usage, format!("invalid API address {base:?}: {why}"));
        }
        let message = if err.is_connect() {
            format!(
                "cannot reach the API at {base}: {why}\nhint: start it with turnfold dev (which also continues what ran with \
                 --local), or set TURNFOLD_URL"
            )
        } else {
            format!("the API at {base} did not respond: {why}")
        };
        CliError::with_exit(Exit::Unreachable, message)
    }

    /// Opens an event stream.
    pub(crate) async fn stream(&self, path: &str) -> anyhow::Result<Response> {
        let request = self.request(Method::GET, path).header("accept", "text/event-stream");
        self.send(request).await.context("cannot follow the thread")
    }
}

/// Returns the text of an error's last cause, without the operating system's error number.
fn innermost(err: &reqwest::Error) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}

/// Replaces requests (`POST /v1/turns/ID/retry`) in a text from the API by the commands that send them.
fn with_commands(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((at, method)) = ["GET ", "POST ", "PUT ", "DELETE "]
        .into_iter()
        .filter_map(|method| Some((rest.find(&format!("{method}/v1/"))?, method)))
        .min()
    {
        let route = &rest[at + method.len()..];
        let end =
            route.find(|char: char| char.is_whitespace() || ",;)`\"".contains(char)).unwrap_or(route.len());
        let route = route[..end].trim_end_matches(['.', ':']);
        out += &rest[..at];
        out += &command(method.trim(), route).unwrap_or_else(|| format!("{method}{route}"));
        rest = &rest[at + method.len() + route.len()..];
    }
    out + rest
}

/// Returns the command that sends a request.
fn command(method: &str, route: &str) -> Option<String> {
    let route = route.split('?').next()?.strip_prefix("/v1/")?;
    let parts: Vec<&str> =
        route.split('/').map(|part| if part.starts_with('{') { "ID" } else { part }).collect();
    let command = match (method, parts.as_slice()) {
        ("POST", ["turns"]) => "turn send".to_owned(),
        ("GET", ["turns"]) => "turn list".to_owned(),
        ("GET", ["turns", "causes"]) => "turn list --group-by cause".to_owned(),
        ("GET", ["turns", id]) => format!("turn show {id}"),
        ("POST", ["turns", id, verb @ ("retry" | "cancel")]) => format!("turn {verb} {id}"),
        ("GET", ["threads"]) => "thread list".to_owned(),
        ("GET", ["threads", id]) => format!("thread show {id}"),
        ("GET", ["threads", id, verb @ ("events" | "state" | "why" | "verify" | "replay")]) => {
            format!("thread {verb} {id}")
        }
        ("POST", ["threads", id, verb @ ("reconcile" | "fork")]) => format!("thread {verb} {id}"),
        ("DELETE", ["threads", id, "hold"]) => format!("thread release {id}"),
        ("GET", ["holds"]) => "thread list --held".to_owned(),
        ("POST", ["inbox", "settle"]) => "inbox settle SERVER.TOOL".to_owned(),
        ("POST", ["threads", id, "answer"] | ["inbox", id]) => format!("inbox answer {id}"),
        ("GET", ["inbox"]) => "inbox list".to_owned(),
        ("GET", ["inbox", id]) => format!("inbox show {id}"),
        ("GET", ["queue"]) => "queue list".to_owned(),
        ("GET", ["pauses"]) => "queue pauses".to_owned(),
        ("DELETE", ["pauses", ..]) => "queue resume".to_owned(),
        ("GET", ["strategies" | "models"]) => "strategy list".to_owned(),
        ("GET", ["strategies", ..]) => "config default".to_owned(),
        ("GET", ["workers"]) => "worker list".to_owned(),
        ("POST", ["keys"]) => "key create".to_owned(),
        ("DELETE", ["keys", id]) => format!("key revoke {id}"),
        ("GET", ["webhooks"]) => "webhook list".to_owned(),
        ("DELETE", ["webhooks", id]) => format!("webhook remove {id}"),
        ("GET", ["deliveries"]) => "webhook deliveries".to_owned(),
        ("POST", ["deliveries", id, "redeliver"]) => format!("webhook redeliver {id}"),
        ("GET", ["batches"]) => "batch list".to_owned(),
        ("GET", ["batches", id]) => format!("batch show {id}"),
        ("POST", ["batches", id, verb @ ("pause" | "resume" | "cancel")]) => format!("batch {verb} {id}"),
        _ => return None,
    };
    Some(format!("turnfold {command}"))
}

#[test]
fn requests_in_errors_become_commands() {
    let cases = [
        ("send a new message with POST /v1/turns", "send a new message with turnfold turn send"),
        ("POST /v1/turns/019a/retry has it try again", "turnfold turn retry 019a has it try again"),
        ("see `GET /v1/queue`.", "see `turnfold queue list`."),
        ("DELETE /v1/webhooks/{id}: removes one", "turnfold webhook remove ID: removes one"),
        ("GET /v1/turns/{id}?wait=60, or GET /v1/pauses", "turnfold turn show ID, or turnfold queue pauses"),
        ("PUT /v1/unknown stays", "PUT /v1/unknown stays"),
        ("the url is /v1/turns", "the url is /v1/turns"),
    ];
    for (text, wanted) in cases {
        assert_eq!(with_commands(text), wanted);
    }
}
