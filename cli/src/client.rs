//! The api, as the command line calls it.

use std::error::Error as _;

use anyhow::Context as _;
use reqwest::{Method, RequestBuilder, Response, Url, header::HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use crate::{
    config::Settings,
    exit::{Exit, Stop},
};

/// The api at one address.
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<SecretString>,
    tenant: Option<HeaderValue>,
}

/// Where something of the api is. Whatever has a meaning in a path, such as a slash within an id, is escaped.
pub(crate) fn path(parts: &[&str]) -> anyhow::Result<String> {
    // Only for its way of writing them.
    let mut url = Url::parse("http://api/v1")?;
    for part in parts {
        // These name another place however they are written.
        if ["", ".", ".."].contains(part) {
            return Err(Stop::because(Exit::Usage, format!("{part:?} names nothing")));
        }
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.push(part);
        }
    }
    Ok(url.path().to_owned())
}

/// A text of the command line as the value of a header; errors call it `what`.
fn header(what: &str, text: String) -> anyhow::Result<HeaderValue> {
    HeaderValue::try_from(text).map_err(|_| {
        Stop::because(Exit::Usage, format!("{what} must be one line, without control characters"))
    })
}

/// The request under an idempotency key, if there is one.
pub(crate) fn keyed(request: RequestBuilder, key: Option<String>) -> anyhow::Result<RequestBuilder> {
    Ok(match key {
        Some(key) => request.header("idempotency-key", header("--idempotency-key", key)?),
        None => request,
    })
}

impl Client {
    /// The api at `url`, or where the configuration says that it listens, for this tenant: with an operator's key, or,
    /// if the configuration has none, with one of the tenant's own.
    pub(crate) fn new(settings: &Settings, url: Option<&str>, tenant: Option<&str>) -> anyhow::Result<Self> {
        let base = url.map_or_else(|| format!("http://{}", settings.api.listen), str::to_owned);
        let own = || settings.tenants.get(tenant?)?.keys.first();
        let key = settings.api.keys.first().or_else(own).map(|it| it.resolve()).transpose()?;
        let base = base.trim_end_matches('/').to_owned();
        let tenant = tenant.map(|it| header("--tenant", it.to_owned())).transpose()?;
        Ok(Self { http: reqwest::Client::new(), base, key, tenant })
    }

    /// A request that is not sent yet.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        let request = match &self.tenant {
            Some(tenant) => request.header("x-turnfold-tenant", tenant),
            None => request,
        };
        match &self.key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        }
    }

    /// What a `GET` answers.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(self.send(self.request(Method::GET, path)).await?.json().await?)
    }

    /// What a `POST` of `body` answers.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        Ok(self.send(self.request(Method::POST, path).json(body)).await?.json().await?)
    }

    /// Sends a request; an answer that is a problem is an error in its own words.
    pub(crate) async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let response = request.send().await.map_err(|err| self.unreachable(&err))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let problem: Value = response.json().await.unwrap_or_default();
        let words = |name: &str| problem[name].as_str().map(str::to_owned);
        let in_dialect = || problem["error"]["message"].as_str().map(str::to_owned);
        let told = words("detail")
            .or_else(in_dialect)
            .or(words("title"))
            .unwrap_or_else(|| format!("the api answered {status}"));
        let mend = words("mend").map(|it| format!(" ({it})")).unwrap_or_default();
        let exit = match status.as_u16() {
            400 | 404 | 422 => Exit::Usage,
            503 => Exit::Unreachable,
            _ => Exit::Finding,
        };
        Err(Stop::because(exit, format!("{told}{mend}")))
    }

    fn unreachable(&self, err: &reqwest::Error) -> anyhow::Error {
        let base = &self.base;
        if err.is_builder() {
            let why = err.source().map(|it| format!(": {it}")).unwrap_or_default();
            return Stop::because(Exit::Usage, format!("the api cannot be asked at {base:?}{why}"));
        }
        let words = if err.is_connect() {
            format!("nobody answers at {base}: start `turnfold dev`, or name the api with --url")
        } else {
            format!("the api at {base} did not answer: {err}")
        };
        Stop::because(Exit::Unreachable, words)
    }

    /// The bytes of an event stream.
    pub(crate) async fn stream(&self, path: &str) -> anyhow::Result<Response> {
        let request = self.request(Method::GET, path).header("accept", "text/event-stream");
        self.send(request).await.context("cannot follow the thread")
    }
}
