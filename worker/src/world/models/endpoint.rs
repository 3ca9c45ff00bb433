//! Client of an endpoint with OpenAI's chat completions API.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_openai::{Client, config::Config, error::OpenAIError, middleware::HttpRequestFactory};
use futures::StreamExt;
use reqwest::header::CONTENT_TYPE;
use secrecy::SecretString;
use serde_json::Value;
use shared::{Fault, Reply, Usage};

use super::{
    Prices, Prompt, Structured,
    http_error::{HttpError, ModeRejection},
    request,
    stream::ReplyStream,
    structured_output::OutputMode,
    target::Target,
};
use crate::world::{DeltaSink, error_chain};

/// An endpoint with its key and settings.
pub(super) struct Endpoint {
    name: String,
    timeout: Duration,
    client: Client<Target>,
    http: reqwest::Client,
    structured: Structured,
    prices: Prices,
    /// Output mode each model was found to need, where it is not the first.
    found: Mutex<BTreeMap<String, OutputMode>>,
}

/// A failed request, and whether its output mode may be the cause.
struct FailedRequest {
    fault: Fault,
    mode_rejection: Option<ModeRejection>,
}

impl From<Fault> for FailedRequest {
    fn from(fault: Fault) -> Self {
        Self { fault, mode_rejection: None }
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
        // Replaces async-openai's HTTP service, which retries on its own.
        let client = Client::build(http.clone(), Target::new(base_url, api_key));
        let raw_http = http.clone();
        let send =
            tower::service_fn(move |request: HttpRequestFactory| send(raw_http.clone(), timeout, request));
        let client = client.with_http_service(send);
        let (structured, prices, found) = (Structured::default(), Prices::default(), Mutex::default());
        Self { name: name.to_owned(), timeout, client, http, structured, prices, found }
    }

    /// Sets the method of requesting structured output.
    pub(super) fn with_structured(self, structured: Structured) -> Self {
        Self { structured, ..self }
    }

    /// Sets the prices of its models.
    pub(super) fn with_prices(self, prices: Prices) -> Self {
        Self { prices, ..self }
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
        let mut mode = prompt.shape.is_some().then(|| self.output_mode(model));
        let mut is_certain = true;
        loop {
            let failed = match self.request_once(model, prompt, mode, deltas).await {
                Ok(response) => {
                    if let Some(mode) = mode.filter(|_| is_certain) {
                        self.remember(model, mode);
                    }
                    return Ok(response);
                }
                Err(failed) => failed,
            };
            let looser = mode.and_then(|it| self.structured.looser(it));
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
            mode = Some(looser);
        }
    }

    /// Sends one request and reads its reply.
    async fn request_once(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        mode: Option<OutputMode>,
        deltas: &dyn DeltaSink,
    ) -> Result<(Reply, Usage), FailedRequest> {
        let body = request::body(model, prompt, mode);
        let stream = self.client.chat().create_stream_byot::<Value, Value>(body).await;
        let mut stream = stream.map_err(|error| self.failed(error))?;
        let mut reply = ReplyStream::default();
        let mut nothing_streamed = true;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| self.fault(error))?;
            if chunk.get("error").is_some_and(|it| !it.is_null()) {
                let refusal = HttpError::from_stream(&chunk);
                // Text already streamed cannot be taken back, so no other mode may follow it.
                let mode_rejection = refusal.mode_rejection().filter(|_| nothing_streamed);
                return Err(FailedRequest {
                    fault: refusal.fault(&self.name, |text| self.redact(text)),
                    mode_rejection,
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
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(model).copied().unwrap_or(self.structured.first())
    }

    fn remember(&self, model: &str, mode: OutputMode) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let known = found.entry(model.to_owned()).or_insert(mode);
        *known = mode.max(*known);
    }

    /// Posts `body` to `path` and returns the JSON response, which is not a stream.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Fault> {
        let target = self.client.config();
        let request =
            self.http.post(target.url(path)).headers(target.headers()).timeout(self.timeout).json(body);
        let response = request.send().await.map_err(|error| self.fault(OpenAIError::Reqwest(error)))?;
        if !response.status().is_success() {
            return Err(HttpError::read(response).await.fault(&self.name, |text| self.redact(text)));
        }
        response.json().await.map_err(|error| match error.is_decode() {
            true => self.unusable_response("is not JSON"),
            false => self.fault(OpenAIError::Reqwest(error)),
        })
    }

    /// The fault of an unusable response; a retry would get the same.
    pub(super) fn unusable_response(&self, why: &str) -> Fault {
        let name = &self.name;
        Fault::permanent(format!(
            "the response of provider {name} {why}; hint: check providers.{name}.base_url"
        ))
    }

    fn failed(&self, error: OpenAIError) -> FailedRequest {
        let mode_rejection = match &error {
            OpenAIError::Boxed(error) => {
                error.downcast_ref::<HttpError>().and_then(HttpError::mode_rejection)
            }
            OpenAIError::Reqwest(_)
            | OpenAIError::JSONDeserialize(..)
            | OpenAIError::StreamError(_)
            | OpenAIError::ApiError(_)
            | OpenAIError::FileSaveError(_)
            | OpenAIError::FileReadError(_)
            | OpenAIError::InvalidArgument(_) => None,
        };
        FailedRequest { fault: self.fault(error), mode_rejection }
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
