//! An endpoint that speaks OpenAI's chat completions.

use std::time::{Duration, Instant};

use async_openai::{Client, config::Config, error::OpenAIError, middleware::HttpRequestFactory};
use futures::StreamExt;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use shared::{Fault, Meter, Reply};

use super::{Prompt, refusal::Refusal, reply::Pieces, wire};
use crate::world::{Deltas, chain};

/// An endpoint, and what opens it.
pub(super) struct Endpoint {
    name: String,
    timeout: Duration,
    client: Client<Door>,
    http: reqwest::Client,
}

/// Where the endpoint is and what opens it.
///
/// ## Why it is not async-openai's own
///
/// That one fills what is not configured from the environment, and panics on a key that fits no header.
struct Door {
    base_url: String,
    key: SecretString,
}

impl Config for Door {
    fn headers(&self) -> HeaderMap {
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.key.expose_secret()));
        let bearer = bearer.ok().filter(|_| !self.key.expose_secret().is_empty());
        let mark = |mut value: HeaderValue| {
            value.set_sensitive(true);
            (AUTHORIZATION, value)
        };
        bearer.map(mark).into_iter().collect()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.base_url
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}

impl Endpoint {
    pub(super) fn new(
        name: &str,
        base_url: &str,
        api_key: Option<SecretString>,
        timeout: Duration,
        http: reqwest::Client,
    ) -> Self {
        // A key that was read from a file ends with the file's last line break.
        let key = api_key.map(|it| it.expose_secret().trim().to_owned()).unwrap_or_default();
        let door = Door { base_url: base_url.trim_end_matches('/').to_owned(), key: key.into() };
        // A service of our own replaces async-openai's, which would try again by itself.
        let client = Client::build(http.clone(), door);
        let bare = http.clone();
        let send = tower::service_fn(move |request: HttpRequestFactory| send(bare.clone(), timeout, request));
        let client = client.with_http_service(send);
        Self { name: name.to_owned(), timeout, client, http }
    }

    /// A model's next message.
    pub(super) async fn chat(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        deltas: &dyn Deltas,
    ) -> Result<(Reply, Meter), Fault> {
        let began = Instant::now();
        let body = wire::body(model, prompt);
        let stream = self.client.chat().create_stream_byot::<Value, Value>(body).await;
        let mut stream = stream.map_err(|error| self.fault(error))?;
        let mut pieces = Pieces::default();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| self.fault(error))?;
            if chunk.get("error").is_some_and(|it| !it.is_null()) {
                return Err(Refusal::within_stream(&chunk).fault(&self.name, |words| self.hide(words)));
            }
            let words = pieces.add(&chunk)?;
            if !words.is_empty() {
                deltas.delta(words).await;
            }
        }
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let by = pieces.by.clone().unwrap_or_else(|| model.to_owned());
        let meter = Meter { by, input_tokens: pieces.input_tokens, output_tokens: pieces.output_tokens, ms };
        Ok((pieces.whole(&self.name, prompt)?, meter))
    }

    /// What `body` posted to `path` is answered, where the answer is no stream.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Fault> {
        let door = self.client.config();
        let request = self.http.post(door.url(path)).headers(door.headers()).timeout(self.timeout).json(body);
        let answer = request.send().await.map_err(|error| self.fault(OpenAIError::Reqwest(error)))?;
        if !answer.status().is_success() {
            return Err(Refusal::read(answer).await.fault(&self.name, |words| self.hide(words)));
        }
        answer.json().await.map_err(|error| match error.is_decode() {
            true => self.strange("is no JSON"),
            false => self.fault(OpenAIError::Reqwest(error)),
        })
    }

    /// An answer that is of no use, and would be of none again.
    pub(super) fn strange(&self, why: &str) -> Fault {
        let name = &self.name;
        Fault::operator(format!("the answer of provider {name} {why}: check providers.{name}.base_url"))
    }

    fn fault(&self, error: OpenAIError) -> Fault {
        let Self { name, timeout, .. } = self;
        let error = match error {
            OpenAIError::Boxed(error) => match error.downcast::<Refusal>() {
                Ok(refusal) => return refusal.fault(name, |words| self.hide(words)),
                Err(error) => chain(error.as_ref()),
            },
            OpenAIError::Reqwest(error) if error.is_connect() => {
                let why = self.hide(&chain(&error.without_url()));
                return Fault::again(format!(
                    "provider {name} cannot be reached: {why}; check providers.{name}.base_url"
                ));
            }
            OpenAIError::Reqwest(error) if error.is_timeout() => {
                return Fault::again(format!("provider {name} did not answer within {timeout:?}"));
            }
            // Its address may hold a secret.
            OpenAIError::Reqwest(error) => chain(&error.without_url()),
            OpenAIError::JSONDeserialize(error, _) => format!("it sent what is no JSON: {error}"),
            error @ (OpenAIError::StreamError(_)
            | OpenAIError::ApiError(_)
            | OpenAIError::FileSaveError(_)
            | OpenAIError::FileReadError(_)
            | OpenAIError::InvalidArgument(_)) => chain(&error),
        };
        Fault::again(format!("the reply of provider {name} broke off: {}", self.hide(&error)))
    }

    /// Strikes the key out.
    fn hide(&self, words: &str) -> String {
        match self.client.config().key.expose_secret() {
            "" => words.to_owned(),
            key => words.replace(key, "[key]"),
        }
    }
}

/// Sends a request once, and lets only a stream through.
async fn send(
    http: reqwest::Client,
    timeout: Duration,
    request: HttpRequestFactory,
) -> Result<reqwest::Response, OpenAIError> {
    let mut request = request.build().await?;
    *request.timeout_mut() = Some(timeout);
    let response = http.execute(request).await?;
    let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let streams = kind.is_none_or(|it| it.starts_with("text/event-stream"));
    if response.status().is_success() && streams {
        return Ok(response);
    }
    Err(OpenAIError::Boxed(Box::new(Refusal::read(response).await)))
}
