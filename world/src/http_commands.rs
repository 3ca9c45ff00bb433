//! HTTP commands: single HTTP requests configured by the operator, offered as the tools of a server named `commands`.

use std::{collections::BTreeMap, time::Duration};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use shared::{COMMANDS, Fault, FaultKind, ReadBack, Response, Safety, Tool, ToolCall, ToolOutput, status};

use super::{
    description::description,
    http_clients::{HttpClientError, HttpClients},
    retry_after::delay_ms,
};
use crate::running_time;
use crate::{
    text::{error_chain, truncate},
    world::Outcome,
};

/// Header with the call's idempotency key, so that an endpoint can recognise a repeated call.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Maximum bytes read of a response; more than any model can use.
const MAX_BODY_BYTES: usize = 4 << 20;

/// A command. It has no `Debug`: its URL and its headers may hold secrets.
#[derive(Clone)]
pub struct Command {
    /// Description for the model.
    pub description: String,
    /// Parameters, as JSON Schema.
    pub parameters: Value,
    /// URL that receives the arguments as JSON.
    pub url: String,
    /// HTTP method of every request.
    pub method: Method,
    /// Headers of every request.
    pub headers: BTreeMap<String, SecretString>,
    /// Effect of repeating the command.
    pub safety: Safety,
    /// Number of times that a model may repeat a call whose result stays the same; see [`Tool::max_repeats`].
    pub max_repeats: Option<u32>,
    /// Read by which a lost answer is settled.
    pub read_back: Option<ReadBack>,
    /// Maximum duration of a request.
    pub timeout: Duration,
}

status! {
    /// HTTP methods with a body.
    #[derive(Default)]
    Method {
        /// The method `POST`.
        #[default]
        Post = "POST",
        /// The method `PUT`.
        Put = "PUT",
        /// The method `PATCH`.
        Patch = "PATCH",
        /// The method `DELETE`.
        Delete = "DELETE",
    }
}

/// The configured commands.
pub struct Commands {
    commands: BTreeMap<String, Command>,
    http: HttpClients,
}

/// Describes the commands in one line for planners. Each item holds a name and a description.
pub fn describe_commands<'a>(commands: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let described: Vec<String> = commands
        .into_iter()
        .map(|(name, purpose)| format!("{name} ({})", purpose.trim().trim_end_matches('.')))
        .collect();
    format!("Single commands: {}.", described.join("; "))
}

impl Commands {
    /// Creates the server `commands`.
    ///
    /// # Errors
    ///
    /// [`HttpClientError`] if no HTTP client can be built.
    pub fn new(commands: BTreeMap<String, Command>) -> Result<Self, HttpClientError> {
        Ok(Self { commands, http: HttpClients::new()? })
    }

    /// Returns true if `server` names the HTTP commands and there are any.
    pub(super) fn are(&self, server: &str) -> bool {
        server == COMMANDS && !self.commands.is_empty()
    }

    /// Lists the commands as tools, unless the thread already knows this list.
    pub(super) fn list(&self, known: Option<&[Tool]>) -> Response {
        let tool = |(name, command): (&String, &Command)| Tool {
            name: name.clone(),
            description: command.description.clone(),
            parameters: command.parameters.clone(),
            safety: command.safety,
            max_repeats: command.max_repeats,
            read_back: command.read_back.clone().map(Box::new),
        };
        let tools: Vec<Tool> = self.commands.iter().map(tool).collect();
        if known == Some(tools.as_slice()) { Response::ToolsUnchanged } else { Response::Tools { tools } }
    }

    /// Describes all commands in one text.
    pub(super) fn describe(&self) -> Response {
        let tools =
            self.commands.iter().map(|(name, command)| (name.clone(), command.description.clone())).collect();
        let kinds = [("Tools", tools), ("Prompts", Vec::new()), ("Resources", Vec::new())];
        Response::Described(description("Single commands.", kinds))
    }

    /// Calls a command once.
    ///
    /// **Invariant:** a request that may have reached the endpoint is never sent twice.
    pub(super) async fn call(&self, call: &ToolCall, key: &str) -> Outcome {
        let name = &call.name;
        let Some(command) = self.commands.get(name) else {
            return Ok(output(ToolOutput::Error(format!("there is no command {name}"))));
        };
        let headers = command.headers(name)?;
        let request = self
            .http
            .of(&command.url)
            .request(command.method.into(), &command.url)
            .headers(headers)
            .header(IDEMPOTENCY_KEY, key)
            .json(&call.arguments);
        let Some(response) = running_time::timeout(command.timeout, send(request)).await else {
            let error = format!("command {name} did not respond within {:?}", command.timeout);
            return Err(Fault::in_doubt(error));
        };
        let Reply { status, retry_after_ms, body } = response.map_err(|error| command.fault(name, error))?;
        let text = truncate(&String::from_utf8_lossy(&body), super::mcp::MAX_OUTPUT_CHARS);
        match status {
            200..=299 => Ok(output(ToolOutput::Ok(text))),
            429 => {
                let error = format!("command {name} is rate limited (http status 429)");
                Err(Fault::new(error, FaultKind::Transient { retry_after_ms }))
            }
            400..=499 if text.trim().is_empty() => {
                Ok(output(ToolOutput::Error(format!("http status {status}"))))
            }
            400..=499 => Ok(output(ToolOutput::Error(text))),
            300..=399 => Err(Fault::permanent(format!(
                "command {name} is redirected (http status {status}); hint: fix commands.{name}.url in turnfold.toml, then run: turnfold turn retry"
            ))),
            _ => {
                let error = format!("command {name} failed (http status {status})");
                Err(Fault::new(error, FaultKind::InDoubt { retry_after_ms }))
            }
        }
    }
}

impl Command {
    fn headers(&self, name: &str) -> Result<HeaderMap, Fault> {
        let wrong = |header: &str| {
            Fault::permanent(format!(
                "the header {header:?} of command {name} is invalid; hint: fix commands.{name}.headers in turnfold.toml, then run: turnfold turn retry"
            ))
        };
        let mut headers = HeaderMap::new();
        for (header, value) in &self.headers {
            let key = HeaderName::try_from(header).map_err(|_| wrong(header))?;
            let mut value = HeaderValue::try_from(value.expose_secret()).map_err(|_| wrong(header))?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        Ok(headers)
    }

    /// The fault of a request without a complete response. The URL is not part of it, because it may hold a secret.
    fn fault(&self, name: &str, error: reqwest::Error) -> Fault {
        let hint = format!("hint: check commands.{name}.url in turnfold.toml");
        if error.is_builder() {
            return Fault::permanent(format!(
                "command {name} has an invalid URL; {hint}, then run: turnfold turn retry"
            ));
        }
        if error.is_connect() {
            let why = error_chain(&error.without_url());
            return Fault::transient(format!("cannot reach command {name}: {why}; {hint}"));
        }
        Fault::in_doubt(format!(
            "the response of command {name} was lost: {}",
            error_chain(&error.without_url())
        ))
    }
}

impl From<Method> for reqwest::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Post => Self::POST,
            Method::Put => Self::PUT,
            Method::Patch => Self::PATCH,
            Method::Delete => Self::DELETE,
        }
    }
}

fn output(output: ToolOutput) -> (Response, Option<shared::Usage>) {
    (Response::Output(output), None)
}

/// Response of an endpoint.
struct Reply {
    status: u16,
    retry_after_ms: Option<u64>,
    /// Empty for a server error.
    body: Vec<u8>,
}

async fn send(request: reqwest::RequestBuilder) -> Result<Reply, reqwest::Error> {
    let mut response = request.send().await?;
    let status = response.status().as_u16();
    let retry_after_ms =
        response.headers().get(RETRY_AFTER).and_then(|header| delay_ms(header.to_str().ok()?));
    let body = match status {
        500.. => Vec::new(),
        _ => read_body(&mut response).await?,
    };
    Ok(Reply { status, retry_after_ms, body })
}

async fn read_body(response: &mut reqwest::Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while body.len() < MAX_BODY_BYTES {
        match response.chunk().await? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => break,
        }
    }
    Ok(body)
}
