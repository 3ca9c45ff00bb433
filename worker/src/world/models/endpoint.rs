//! Client of an endpoint with OpenAI's chat completions API.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_openai::{Client, config::Config, error::OpenAIError, middleware::HttpRequestFactory};
use futures::{StreamExt, stream};
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use shared::{Fault, Reply, Usage};

use super::{
    OpenAi, Prices, Prompt, Structured,
    http_error::{HttpError, ModeRejection},
    request::{self, MAX_COMPLETION_TOKENS, MAX_TOKENS, RequestForm},
    stream::ReplyStream,
    structured_output::OutputMode,
    target::{InvalidHeader, Target},
};
use crate::world::{DeltaSink, error_chain};

/// Path of chat completions.
const CHAT: &str = "/chat/completions";

/// Maximum bytes of a response that is not streamed.
const MAX_RESPONSE_BYTES: usize = 32 << 20;

/// An endpoint with its key and settings.
pub(super) struct Endpoint {
    name: String,
    timeout: Duration,
    client: Client<Target>,
    http: reqwest::Client,
    structured: Structured,
    prices: Prices,
    stream: bool,
    /// Output mode each model was found to need, where it is not the first.
    found: Mutex<BTreeMap<String, OutputMode>>,
    /// Models that need the other field for the maximum number of tokens.
    completion_tokens: Mutex<BTreeSet<String>>,
}

/// A failed request, and whether its form may be the cause.
struct FailedRequest {
    fault: Fault,
    mode_rejection: Option<ModeRejection>,
    /// True if the endpoint wants [`MAX_COMPLETION_TOKENS`] instead of [`MAX_TOKENS`].
    wants_completion_tokens: bool,
}

impl From<Fault> for FailedRequest {
    fn from(fault: Fault) -> Self {
        Self { fault, mode_rejection: None, wants_completion_tokens: false }
    }
}

impl Endpoint {
    pub(super) fn new(name: &str, settings: OpenAi, http: reqwest::Client) -> Result<Self, InvalidHeader> {
        let OpenAi { base_url, api_key, timeout, structured, prices, query, stream, headers } = settings;
        // Replaces async-openai's HTTP service, which retries on its own.
        let client = Client::build(http.clone(), Target::new(&base_url, api_key, &headers, &query)?);
        let raw_http = http.clone();
        let send =
            tower::service_fn(move |request: HttpRequestFactory| send(raw_http.clone(), timeout, request));
        let client = client.with_http_service(send);
        let (found, completion_tokens) = (Mutex::default(), Mutex::default());
        let name = name.to_owned();
        Ok(Self { name, timeout, client, http, structured, prices, stream, found, completion_tokens })
    }

    /// Requests a model's next message, falling back to looser output modes where the endpoint rejects a stricter one.
    ///
    /// ## Why an output mode is not given up after one refusal
    ///
    /// A refusal seldom names its cause: a prompt that is too long is refused like an unsupported output mode. A looser
    /// mode is therefore remembered only once it worked where a stricter one was refused. A 500, which may have been a
    /// temporary failure, must also name the mode.
    pub(super) async fn chat(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        deltas: &dyn DeltaSink,
    ) -> Result<(Reply, Usage), Fault> {
        let mode = prompt.shape.is_some().then(|| self.output_mode(model));
        let mut form = RequestForm { mode, token_limit: self.token_limit(model), stream: self.stream };
        let mut is_certain = true;
        loop {
            let failed = match self.request_once(model, prompt, form, deltas).await {
                Ok(response) => {
                    if let Some(mode) = form.mode.filter(|_| is_certain) {
                        self.remember(model, mode);
                    }
                    if form.token_limit == MAX_COMPLETION_TOKENS {
                        lock(&self.completion_tokens).insert(model.to_owned());
                    }
                    return Ok(response);
                }
                Err(failed) => failed,
            };
            let is_limited = prompt.parameters.is_some_and(|it| it.max_tokens.is_some());
            if is_limited && failed.wants_completion_tokens && form.token_limit == MAX_TOKENS {
                form.token_limit = MAX_COMPLETION_TOKENS;
                continue;
            }
            let looser = form.mode.and_then(|it| self.structured.looser(it));
            let (Some(mode_rejection), Some(looser)) = (failed.mode_rejection, looser) else {
                return Err(failed.fault);
            };
            tracing::debug!(
                provider = self.name,
                model,
                to = looser.name(),
                "retrying with a looser output mode: {}",
                failed.fault.error
            );
            is_certain &= mode_rejection == ModeRejection::Certain;
            form.mode = Some(looser);
        }
    }

    /// Sends one request and reads its reply.
    async fn request_once(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        form: RequestForm,
        deltas: &dyn DeltaSink,
    ) -> Result<(Reply, Usage), FailedRequest> {
        let (body, mode) = (request::body(model, prompt, form), form.mode);
        let mut reply = ReplyStream::default();
        let mut nothing_streamed = true;
        let mut chunks = match form.stream {
            true => {
                let stream = self.client.chat().create_stream_byot::<Value, Value>(body).await;
                stream.map_err(|error| self.failed(error))?
            }
            false => {
                let response = self.send(CHAT, &body).await?;
                stream::iter([Ok(as_chunk(response))]).boxed()
            }
        };
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| self.fault(error))?;
            if chunk.get("error").is_some_and(|it| !it.is_null()) {
                let refusal = HttpError::from_stream(&chunk);
                // Text already streamed cannot be taken back, so no other mode may follow it.
                let mode_rejection = refusal.mode_rejection().filter(|_| nothing_streamed);
                return Err(FailedRequest {
                    fault: refusal.fault(&self.name, |text| self.redact(text)),
                    mode_rejection,
                    wants_completion_tokens: nothing_streamed && refusal.asks_for(MAX_COMPLETION_TOKENS),
                });
            }
            let text = reply.add(&chunk)?;
            if !text.is_empty() {
                nothing_streamed = false;
                deltas.delta(text).await;
            }
        }
        let meter = self.meter(model, &reply, mode);
        match reply.whole(&self.name, prompt, mode) {
            Ok(reply) => Ok((reply, meter)),
            // The reply is unusable but still costs.
            Err(fault) => Err(Fault { usage: Some(Box::new(meter)), ..fault }.into()),
        }
    }

    /// Usage of a reply; the world adds the duration.
    fn meter(&self, model: &str, reply: &ReplyStream, mode: Option<OutputMode>) -> Usage {
        let mut meter = Usage {
            model: reply.by.clone().unwrap_or_else(|| model.to_owned()),
            input_tokens: reply.input_tokens,
            output_tokens: reply.output_tokens,
            response_format: mode.map_or("", OutputMode::name).to_owned(),
            ..Usage::default()
        };
        meter.micro_usd = self.cost(model, &meter);
        meter
    }

    /// Cost of the tokens in millionths of a US dollar; `None` without a price.
    pub(super) fn cost(&self, model: &str, meter: &Usage) -> Option<u64> {
        self.prices.get(model).and_then(|it| it.of(meter))
    }

    /// Output mode to try first for a model.
    fn output_mode(&self, model: &str) -> OutputMode {
        lock(&self.found).get(model).copied().unwrap_or(self.structured.first())
    }

    /// Field for the maximum number of tokens of a model's reply.
    fn token_limit(&self, model: &str) -> &'static str {
        if lock(&self.completion_tokens).contains(model) { MAX_COMPLETION_TOKENS } else { MAX_TOKENS }
    }

    fn remember(&self, model: &str, mode: OutputMode) {
        let mut found = lock(&self.found);
        let known = found.entry(model.to_owned()).or_insert(mode);
        *known = mode.max(*known);
    }

    /// Posts `body` to `path` and returns the JSON response, which is not a stream.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Fault> {
        self.send(path, body).await.map_err(|it| it.fault)
    }

    async fn send(&self, path: &str, body: &Value) -> Result<Value, FailedRequest> {
        let target = self.client.config();
        let request =
            self.http.post(target.url(path)).headers(target.headers()).timeout(self.timeout).json(body);
        let broken = |error| self.failed(OpenAIError::Reqwest(error));
        let mut response = request.send().await.map_err(broken)?;
        if !response.status().is_success() {
            return Err(self.failed(OpenAIError::Boxed(Box::new(HttpError::read(response).await))));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            body.extend_from_slice(&chunk);
            if MAX_RESPONSE_BYTES < body.len() {
                return Err(self
                    .unusable_response(&format!("is longer than {MAX_RESPONSE_BYTES} bytes"))
                    .into());
            }
        }
        serde_json::from_slice(&body).map_err(|_| self.unusable_response("is not JSON").into())
    }

    /// The fault of an unusable response; a retry would get the same.
    pub(super) fn unusable_response(&self, why: &str) -> Fault {
        let name = &self.name;
        Fault::permanent(format!(
            "the response of provider {name} {why}; hint: check providers.{name}.base_url"
        ))
    }

    fn failed(&self, error: OpenAIError) -> FailedRequest {
        let refusal = match &error {
            OpenAIError::Boxed(error) => error.downcast_ref::<HttpError>(),
            OpenAIError::Reqwest(_)
            | OpenAIError::JSONDeserialize(..)
            | OpenAIError::StreamError(_)
            | OpenAIError::ApiError(_)
            | OpenAIError::FileSaveError(_)
            | OpenAIError::FileReadError(_)
            | OpenAIError::InvalidArgument(_) => None,
        };
        let mode_rejection = refusal.and_then(HttpError::mode_rejection);
        let wants_completion_tokens = refusal.is_some_and(|it| it.asks_for(MAX_COMPLETION_TOKENS));
        FailedRequest { fault: self.fault(error), mode_rejection, wants_completion_tokens }
    }

    /// Converts an error of the client into a fault of the request.
    ///
    /// ## Why an interrupted reply is in doubt
    ///
    /// The endpoint may have worked on it and charge for it, so the reserved cost is not given back.
    fn fault(&self, error: OpenAIError) -> Fault {
        let Self { name, timeout, .. } = self;
        let (sent, error) = match error {
            OpenAIError::Boxed(error) => match error.downcast::<HttpError>() {
                Ok(refusal) => return refusal.fault(name, |text| self.redact(text)),
                Err(error) => (false, error_chain(error.as_ref())),
            },
            OpenAIError::Reqwest(error) if error.is_connect() => {
                let why = self.redact(&error_chain(&error.without_url()));
                return Fault::transient(format!(
                    "cannot reach provider {name}: {why}; hint: check providers.{name}.base_url"
                ));
            }
            OpenAIError::Reqwest(error) if error.is_timeout() => {
                return Fault::in_doubt(format!("provider {name} did not respond within {timeout:?}"));
            }
            // The URL may hold a secret.
            OpenAIError::Reqwest(error) => {
                (!error.is_builder() && !error.is_redirect(), error_chain(&error.without_url()))
            }
            OpenAIError::JSONDeserialize(error, _) => (true, format!("it is not JSON: {error}")),
            error @ OpenAIError::StreamError(_) => (true, error_chain(&error)),
            error @ (OpenAIError::ApiError(_)
            | OpenAIError::FileSaveError(_)
            | OpenAIError::FileReadError(_)
            | OpenAIError::InvalidArgument(_)) => (false, error_chain(&error)),
        };
        let message = format!("the reply of provider {name} was interrupted: {}", self.redact(&error));
        if sent { Fault::in_doubt(message) } else { Fault::transient(message) }
    }

    /// Replaces the key in a text.
    fn redact(&self, text: &str) -> String {
        self.client.config().redact(text)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts a whole reply to the only chunk of a stream.
fn as_chunk(mut response: Value) -> Value {
    if let Some(Value::Object(choice)) = response.pointer_mut("/choices/0")
        && let Some(message) = choice.remove("message")
    {
        choice.insert("delta".to_owned(), message);
    }
    response
}

/// Sends a request once. Everything but a successful stream is an error.
async fn send(
    http: reqwest::Client,
    timeout: Duration,
    request: HttpRequestFactory,
) -> Result<reqwest::Response, OpenAIError> {
    let mut request = request.build().await?;
    *request.timeout_mut() = Some(timeout);
    let response = http.execute(request).await?;
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let is_stream = content_type.is_none_or(|it| it.starts_with("text/event-stream"));
    if response.status().is_success() && is_stream {
        return Ok(response);
    }
    Err(OpenAIError::Boxed(Box::new(HttpError::read(response).await)))
}
