//! Plain commands: single HTTP requests that the operator names, as the tools of a server that is called `commands`.

use std::{collections::BTreeMap, time::Duration};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use shared::{Fault, Remedy, Response, Safety, Tool, ToolCall, ToolOutput};

use super::{NoClient, Outcome, chain, cut, description::description, pause::pause_ms};

/// The name of the server whose tools the plain commands are.
pub const COMMANDS: &str = "commands";

/// The header that names a call: an endpoint that keeps the keys it has seen can do a repeated call once.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// How much of an answer is read, in bytes; more than any model can hear.
const BODY_MAX: usize = 4 << 20;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A plain command. It has no `Debug`: its address and its headers may hold secrets.
#[derive(Clone)]
pub struct Command {
    /// What it does, for a model.
    pub description: String,
    /// What it takes, as JSON Schema.
    pub parameters: Value,
    /// Where the arguments are sent.
    pub url: String,
    /// How.
    pub method: Method,
    /// What every request carries.
    pub headers: BTreeMap<String, SecretString>,
    /// What becomes of the world when it is carried out twice.
    pub safety: Safety,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// The methods that carry a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

/// The plain commands at hand.
pub struct Commands {
    commands: BTreeMap<String, Command>,
    http: reqwest::Client,
}

/// What the plain commands are good for, in one line: how a planner knows them. Each is given by its name and what it
/// does.
pub fn about<'a>(commands: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let told: Vec<String> = commands
        .into_iter()
        .map(|(name, what)| format!("{name} ({})", what.trim().trim_end_matches('.')))
        .collect();
    format!("Single commands: {}.", told.join("; "))
}

impl Commands {
    /// These commands.
    ///
    /// # Errors
    ///
    /// [`NoClient`] if no HTTP client can be built.
    pub fn new(commands: BTreeMap<String, Command>) -> Result<Self, NoClient> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirected POST would become a GET, or carry a header elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { commands, http })
    }

    /// Whether the server of this name is the one whose tools these are.
    pub(super) fn are(&self, server: &str) -> bool {
        server == COMMANDS && !self.commands.is_empty()
    }

    /// What can be commanded, unless it is what the thread already knows.
    pub(super) fn list(&self, known: Option<&[Tool]>) -> Response {
        let tool = |(name, it): (&String, &Command)| Tool {
            name: name.clone(),
            description: it.description.clone(),
            parameters: it.parameters.clone(),
            safety: it.safety,
        };
        let tools: Vec<Tool> = self.commands.iter().map(tool).collect();
        if known == Some(tools.as_slice()) { Response::SameTools } else { Response::Tools { tools } }
    }

    /// All that can be commanded, in one text.
    pub(super) fn offer(&self) -> Response {
        let tools = self.commands.iter().map(|(name, it)| (name.clone(), it.description.clone())).collect();
        let kinds = [("Tools", tools), ("Prompts", Vec::new()), ("Resources", Vec::new())];
        Response::Described(description("Single commands.", kinds))
    }

    /// Carries one out, once.
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
            .request(command.method.into(), &command.url)
            .headers(headers)
            .header(IDEMPOTENCY_KEY, key)
            .timeout(command.timeout)
            .json(&call.arguments);
        let mut answer = request.send().await.map_err(|error| command.fault(name, error))?;
        let status = answer.status().as_u16();
        let after_ms = answer.headers().get(RETRY_AFTER).and_then(|it| pause_ms(it.to_str().ok()?));
        let body = match status {
            500.. => Vec::new(),
            _ => read(&mut answer).await.map_err(|error| command.fault(name, error))?,
        };
        let words = cut(&String::from_utf8_lossy(&body), super::mcp::OUTPUT_MAX);
        match status {
            200..=299 => Ok(output(ToolOutput::Ok(words))),
            429 => {
                let error = format!("command {name} asks for a pause (429)");
                Err(Fault::new(error, Remedy::Again { after_ms }))
            }
            400..=499 if words.trim().is_empty() => {
                Ok(output(ToolOutput::Error(format!("http status {status}"))))
            }
            400..=499 => Ok(output(ToolOutput::Error(words))),
            300..=399 => Err(Fault::operator(format!(
                "command {name} is redirected ({status}): check [commands.{name}] url in turnfold.toml"
            ))),
            _ => {
                let error = format!("command {name} failed (http status {status})");
                Err(Fault::new(error, Remedy::Doubt { after_ms }))
            }
        }
    }
}

impl Command {
    fn headers(&self, name: &str) -> Result<HeaderMap, Fault> {
        let wrong = |header: &str| {
            Fault::operator(format!(
                "the header {header:?} of [commands.{name}] in turnfold.toml is not legal"
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

    /// Why there is no whole answer. The address stays unsaid: it may hold a secret.
    fn fault(&self, name: &str, error: reqwest::Error) -> Fault {
        let mend = format!("check [commands.{name}] url in turnfold.toml");
        if error.is_builder() {
            return Fault::operator(format!("command {name} has an address that makes no sense: {mend}"));
        }
        if error.is_connect() {
            let why = chain(&error.without_url());
            return Fault::again(format!("command {name} cannot be reached: {why}; {mend}"));
        }
        if error.is_timeout() {
            return Fault::doubt(format!("command {name} gave no answer in {:?}", self.timeout));
        }
        Fault::doubt(format!("the answer of command {name} was lost: {}", chain(&error.without_url())))
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

fn output(output: ToolOutput) -> (Response, Option<shared::Meter>) {
    (Response::Output(output), None)
}

async fn read(answer: &mut reqwest::Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while body.len() < BODY_MAX {
        match answer.chunk().await? {
            Some(piece) => body.extend_from_slice(&piece),
            None => break,
        }
    }
    Ok(body)
}
