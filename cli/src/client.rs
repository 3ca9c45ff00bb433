//! The api, as the command line calls it.

use std::{env, error::Error as _, time::Duration};

use anyhow::Context as _;
use reqwest::{Method, RequestBuilder, Response, Url, header::HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use crate::{
    config::Settings,
    exit::{Exit, Stop},
    person::person,
};

/// Holds the key of whoever calls.
///
/// ## Why there is no flag for it
///
/// What stands on a command line, everybody on the machine can read.
const KEY: &str = "TURNFOLD_KEY";

/// Says who does it; the log keeps it.
const USER_HEADER: &str = "x-turnfold-user";

/// How long the api may be away before nobody waits any more. What goes on there does not need to be waited for.
pub(crate) const AWAY: Duration = Duration::from_secs(60);

/// Whether it is the api that cannot be reached, or whose answer broke off.
pub(crate) fn is_away(err: &anyhow::Error) -> bool {
    err.downcast_ref::<Stop>().is_some_and(|it| it.exit == Exit::Unreachable)
        || err.downcast_ref::<reqwest::Error>().is_some()
}

/// The status with which the api refused a request, which has changed nothing then.
pub(crate) fn refusal(err: &anyhow::Error) -> Option<u16> {
    err.downcast_ref::<Stop>().and_then(|it| it.status).filter(|it| (400..500).contains(it))
}

/// The api at one address.
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    key: Option<Key>,
    tenant: Option<HeaderValue>,
    user: HeaderValue,
}

/// What opens the door, and where it is from.
struct Key {
    secret: SecretString,
    from: &'static str,
}

impl Key {
    /// That of whoever calls; else the first of the configuration that is at hand: an operator's, or one of the tenant's own.
    fn find(settings: &Settings, tenant: Option<&str>) -> anyhow::Result<Option<Self>> {
        if let Some(own) = env::var(KEY).ok().filter(|it| !it.is_empty()) {
            return Ok(Some(Self { secret: own.into(), from: KEY }));
        }
        let of_tenant = tenant.and_then(|it| settings.tenants.get(it)).into_iter().flat_map(|it| &it.keys);
        let mut lacking = None;
        for key in settings.api.keys.iter().chain(of_tenant) {
            match key.resolve() {
                Ok(secret) => return Ok(Some(Self { secret, from: "the configuration" })),
                Err(err) => lacking = lacking.or(Some(err)),
            }
        }
        let words = format!("no key of the configuration is at hand: put yours into {KEY}");
        lacking.map_or(Ok(None), |err| Err(anyhow::Error::from(err).context(words)))
    }
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

/// The text of a field, or nothing.
pub(crate) fn name<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// What a page lists.
pub(crate) fn listed(page: &Value) -> &[Value] {
    page["data"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The api's address, to which paths are added.
fn base(url: &str) -> anyhow::Result<String> {
    let base = url.trim_end_matches('/');
    let wrong = |why: &str, mend: &str| {
        Err(Stop::because(Exit::Usage, format!("--url {url:?} {why}: write --url {mend}")))
    };
    match base.split_once("://") {
        None => wrong("says no scheme", &format!("http://{base}")),
        Some((scheme, rest)) if !["http", "https"].contains(&scheme.to_lowercase().as_str()) => {
            wrong("is neither http nor https", &format!("http://{rest}"))
        }
        Some(_) => match base.strip_suffix("/v1") {
            Some(short) => wrong("ends with /v1, which every path here begins with", short),
            None => Ok(base.to_owned()),
        },
    }
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
    /// The api at `url`, or where the configuration says that it listens, for this tenant.
    pub(crate) fn new(settings: &Settings, url: Option<&str>, tenant: Option<&str>) -> anyhow::Result<Self> {
        let listens = || Ok(format!("http://{}", settings.api.listen));
        let base = url.filter(|it| !it.is_empty()).map_or_else(listens, base)?;
        let key = Key::find(settings, tenant)?;
        let tenant = tenant.map(|it| header("--tenant", it.to_owned())).transpose()?;
        // Bytes of UTF-8, as the api reads it.
        let user = HeaderValue::from_bytes(person().as_bytes())?;
        Ok(Self { http: reqwest::Client::new(), base, key, tenant, user })
    }

    /// The same, with this key.
    pub(crate) fn with_key(self, secret: SecretString) -> Self {
        Self { key: Some(Key { secret, from: "this process" }), ..self }
    }

    /// Where the api is.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Whether it acts for a tenant that was named.
    pub(crate) fn names_tenant(&self) -> bool {
        self.tenant.is_some()
    }

    /// A request that is not sent yet.
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
        let (exit, more) = match status.as_u16() {
            401 => (Exit::Usage, self.shown()),
            400 | 403 | 404 | 422 => (Exit::Usage, String::new()),
            503 => (Exit::Unreachable, String::new()),
            _ => (Exit::Finding, String::new()),
        };
        Err(Stop::answered(status.as_u16(), exit, format!("{told}{mend}{more}")))
    }

    /// Which key is shown, for whoever showed the wrong one or none.
    fn shown(&self) -> String {
        match &self.key {
            Some(key) if key.from == KEY => format!("; the key in {KEY} was sent"),
            Some(key) => format!("; a key of {} was sent: put yours into {KEY}", key.from),
            None => format!("; turnfold sends the key in {KEY}, which is not set"),
        }
    }

    fn unreachable(&self, err: &reqwest::Error) -> anyhow::Error {
        let base = &self.base;
        if err.is_builder() {
            let why = err.source().map(|it| format!(": {it}")).unwrap_or_default();
            return Stop::because(Exit::Usage, format!("the api cannot be asked at {base:?}{why}"));
        }
        let words = if err.is_connect() {
            format!(
                "nobody answers at {base}: start `turnfold dev`, which also knows what was run here with --local, or \
                 name the api with --url"
            )
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
