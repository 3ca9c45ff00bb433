//! Client of an endpoint with OpenAI's chat completions API.

use std::{sync::Arc, time::Duration};

use reqwest::{
    Response,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::Value;
use shared::{Fault, Reply, Usage};
use store::LearnedModel;

use super::{
    OpenAi, Prices, Prompt, Structured,
    dialect::{Dialect, DialectRow},
    http_error::{HttpError, ModeRejection},
    learned::{Known, Learned, without_refused},
    request::{self, RequestForm},
    sse::{Chunk, ChunkReader, ReadError},
    stream::ReplyStream,
    structured_output::OutputMode,
    target::{InvalidHeader, Target},
    tool_schemas::{MAX_CHANGES, ToolForms},
};
use crate::{text::error_chain, world::DeltaSink};

/// Path of chat completions.
const CHAT: &str = "/chat/completions";

/// Path of the list of models.
const MODELS: &str = "/models";

/// Number of forms that are looser than the strictest.
const MAX_LOOSER: usize = 2;

/// Maximum number of forms in which one request is tried.
const MAX_FORMS: usize = 8;

/// An endpoint with its key and settings.
pub(super) struct Endpoint {
    name: String,
    timeout: Duration,
    target: Target,
    http: reqwest::Client,
    structured: Structured,
    prices: Prices,
    stream: bool,
    dialect: &'static DialectRow,
    learned: Arc<Learned>,
}

/// Returns the error in a chunk. A router reports that of its own provider in the choice.
fn error_in(chunk: &Value, headers: &HeaderMap) -> Option<HttpError> {
    let choices = chunk["choices"].as_array().into_iter().flatten();
    let pieces = choices.flat_map(|choice| [choice, &choice["delta"], &choice["message"]]);
    std::iter::once(chunk).chain(pieces).find_map(|value| HttpError::of_chunk(value, headers))
}

/// A failed request, and the endpoint's refusal if its form may be the cause.
struct FailedRequest {
    fault: Fault,
    refusal: Option<HttpError>,
}

impl From<Fault> for FailedRequest {
    fn from(fault: Fault) -> Self {
        Self { fault, refusal: None }
    }
}

impl Endpoint {
    pub(super) fn new(name: &str, settings: OpenAi, http: reqwest::Client) -> Result<Self, InvalidHeader> {
        let OpenAi { base_url, api_key, timeout, structured, prices, query, stream, headers, dialect } =
            settings;
        let dialect = dialect.unwrap_or_else(|| Dialect::of_url(&base_url)).row();
        Ok(Self {
            name: name.to_owned(),
            timeout,
            target: Target::new(&base_url, api_key, &headers, &query)?,
            http,
            structured,
            prices,
            stream,
            dialect,
            learned: Arc::new(Learned::new(dialect, structured)),
        })
    }

    /// Continues with what another one of the same address learned about its models.
    pub(super) fn with_learned_of(self, before: &Self) -> Self {
        let is_same = self.target.is_at(&before.target)
            && std::ptr::eq(self.dialect, before.dialect)
            && self.structured == before.structured;
        if is_same { Self { learned: Arc::clone(&before.learned), ..self } } else { self }
    }

    /// Requests a model's next message. Parts of the request that the endpoint refuses are left out, and what it accepts
    /// is remembered for the model.
    ///
    /// ## Why an output mode is not given up after one refusal
    ///
    /// A refusal seldom names its cause: a prompt that is too long is refused like an unsupported output mode. A looser
    /// mode is therefore remembered only once it worked where a stricter one was refused. A 500 without a cause may have
    /// been a temporary failure: it is reported, and the next request tries a looser mode.
    pub(super) async fn chat(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        deltas: &dyn DeltaSink,
    ) -> Result<(Reply, Usage), Fault> {
        let epoch = self.learned.epoch();
        let mut form = self.form(model, prompt);
        let (mut tools, mut tool_changes) = (self.learned.tools(model), 0);
        let mut tried = Vec::new();
        let mut spent = Usage::default();
        loop {
            let mut failed = match self.request_once(model, prompt, &tools, form, deltas).await {
                Ok((reply, mut meter)) => {
                    let RequestForm { mode, features } = form;
                    // A form that replies made necessary says nothing about what the endpoint takes.
                    if self.learned.epoch() == epoch {
                        self.learned.accepted(model, features, mode.filter(|_| prompt.misfits < 2));
                        self.learned.accepted_tools(model, &tools);
                    }
                    meter.add_spent(&spent);
                    return Ok((reply, meter));
                }
                Err(failed) => failed,
            };
            if failed.fault.usage.is_some() || 0 < spent.tokens() {
                let meter = failed.fault.usage.get_or_insert_default();
                meter.add_spent(&spent);
                spent.clone_from(meter);
            }
            if tool_changes < MAX_CHANGES
                && let Some(refusal) = &failed.refusal
                && let Some((next, left_out)) = tools.after(refusal, &prompt.tools, tool_changes == 0)
            {
                self.log_tools(model, &left_out, &failed.fault);
                (tools, tool_changes) = (next, tool_changes + 1);
                continue;
            }
            tried.push(form);
            let Some(next) = failed
                .refusal
                .as_ref()
                .and_then(|refusal| self.next_form(model, prompt, &tools, form, refusal))
            else {
                return Err(failed.fault);
            };
            if tried.contains(&next) || MAX_FORMS <= tried.len() {
                return Err(failed.fault);
            }
            tracing::debug!(
                provider = self.name,
                model,
                "sending the request in another form: {}",
                failed.fault.error
            );
            form = next;
        }
    }

    /// Logs that a request is sent again with other forms of its tools. A tool that is left out is a warning.
    fn log_tools(&self, model: &str, left_out: &[String], fault: &Fault) {
        let (provider, error) = (&self.name, &fault.error);
        if left_out.is_empty() {
            tracing::info!(provider, model, "simplifying the schemas of tools: {error}");
        } else {
            let tools = left_out.join(", ");
            tracing::warn!(provider, model, "the model is not offered these tools: {tools}: {error}");
        }
    }

    /// Form of the next request to a model. After two replies that do not fit, each attempt takes the next form.
    fn form(&self, model: &str, prompt: &Prompt<'_>) -> RequestForm {
        let mut features = self.learned.of(model).features;
        features.streams &= self.stream;
        let looser = |mode, _| self.structured.looser(mode).unwrap_or(mode);
        let mode =
            || (1..prompt.misfits).take(MAX_LOOSER).fold(self.learned.mode(model, self.structured), looser);
        RequestForm { mode: prompt.shape.is_some().then(mode), features }
    }

    /// Returns the form to try after a refusal, if there is one.
    fn next_form(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        tools: &ToolForms,
        form: RequestForm,
        refusal: &HttpError,
    ) -> Option<RequestForm> {
        if refusal.is_about_size() {
            return None;
        }
        if let Some(features) = without_refused(form.features, refusal) {
            let next = RequestForm { features, ..form };
            let body = |form| request::body(model, prompt, tools, form);
            if body(next) != body(form) {
                return Some(next);
            }
        }
        let mode = form.mode?;
        match refusal.mode_rejection()? {
            ModeRejection::Certain => Some(RequestForm { mode: Some(self.structured.looser(mode)?), ..form }),
            ModeRejection::Doubtful => {
                self.learned.failed(model, mode);
                None
            }
        }
    }

    /// Sends one request and reads its reply.
    async fn request_once(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        tools: &ToolForms,
        form: RequestForm,
        deltas: &dyn DeltaSink,
    ) -> Result<(Reply, Usage), FailedRequest> {
        let response = self.send(CHAT, &request::body(model, prompt, tools, form)).await?;
        let mut reply = ReplyStream::new(self.learned.of(model).unopened_reasoning, prompt);
        let read = self.read(response, &mut reply, deltas).await;
        if read.is_ok() && reply.take_unopened_reasoning() {
            self.learned.begins_reasoning(model);
        }
        let meter = self.meter(model, &reply, form.mode);
        if let Err(failed) = read {
            // What a broken reply reported is billed anyway, so it is an attempt.
            let is_reported = 0 < meter.tokens();
            let fault = if is_reported { failed.fault.as_attempt() } else { failed.fault };
            let usage = is_reported.then(|| Box::new(meter));
            return Err(FailedRequest { fault: Fault { usage, ..fault }, ..failed });
        }
        match reply.whole(&self.name, prompt, form.mode) {
            Ok(reply) => Ok((reply, meter)),
            // The reply is unusable but still costs.
            Err(fault) => {
                let error = self.redact(&fault.error);
                Err(Fault { error, usage: Some(Box::new(meter)), ..fault }.into())
            }
        }
    }

    /// Reads the chunks of a reply, and passes its text on as it arrives.
    async fn read(
        &self,
        response: Response,
        reply: &mut ReplyStream,
        deltas: &dyn DeltaSink,
    ) -> Result<(), FailedRequest> {
        let headers = response.headers().clone();
        let mut chunks = ChunkReader::new(response);
        let mut nothing_streamed = true;
        // An endpoint that has begun to answer takes requests.
        let began =
            |fault: Fault, nothing_streamed| if nothing_streamed { fault } else { fault.as_attempt() };
        while let Some(chunk) =
            chunks.next().await.map_err(|error| began(self.unreadable(error), nothing_streamed))?
        {
            let chunk = match chunk {
                Chunk::Json(chunk) => chunk,
                Chunk::Done => {
                    reply.done();
                    break;
                }
            };
            let text = reply.add(&chunk)?;
            if let Some(refusal) = error_in(&chunk, &headers) {
                let fault = began(refusal.fault(&self.name, |text| self.redact(text)), nothing_streamed);
                // Text already streamed cannot be taken back, so no other form may follow it.
                return Err(FailedRequest { fault, refusal: Some(refusal).filter(|_| nothing_streamed) });
            }
            if !text.is_empty() {
                nothing_streamed = false;
                deltas.delta(&text).await;
            }
        }
        let rest = reply.end();
        if !rest.is_empty() {
            deltas.delta(&rest).await;
        }
        Ok(())
    }

    /// Usage of a reply; the world adds the duration.
    fn meter(&self, model: &str, reply: &ReplyStream, mode: Option<OutputMode>) -> Usage {
        let mut meter = Usage {
            model: reply.by.clone().unwrap_or_else(|| model.to_owned()),
            response_format: mode.map_or("", OutputMode::name).to_owned(),
            response_id: reply.id.clone(),
            ..Usage::default()
        };
        reply.tokens.fill(&mut meter);
        meter.micro_usd = self.cost(model, &meter);
        meter
    }

    /// Cost of the tokens in millionths of a US dollar; `None` without a price.
    pub(super) fn cost(&self, model: &str, meter: &Usage) -> Option<u64> {
        self.prices.get(model).and_then(|price| price.of(meter))
    }

    /// The row of the endpoint's dialect.
    pub(super) fn dialect(&self) -> &'static DialectRow {
        self.dialect
    }

    /// Returns what is known of a model's endpoint.
    pub(super) fn known(&self, model: &str) -> Known {
        self.learned.of(model)
    }

    /// Returns what was learned about the models of the provider.
    pub(super) fn learned(&self, provider: &str) -> Vec<LearnedModel> {
        self.learned.list(provider)
    }

    /// Forgets what was learned about a model.
    pub(super) fn forget(&self, model: &str) {
        self.learned.forget(model);
    }

    /// Posts `body` to `path` and returns the JSON response, which is not a stream.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Fault> {
        let response = self.send(path, body).await.map_err(|error| error.fault)?;
        let headers = response.headers().clone();
        let body = match ChunkReader::new(response).next().await {
            Ok(Some(Chunk::Json(body))) => body,
            Ok(Some(Chunk::Done) | None) => return Err(self.unusable_response("is empty")),
            Err(error @ ReadError::NotJson(_)) => {
                return Err(self.unusable_response(&self.redact(&format!("cannot be used, {error}"))));
            }
            Err(error) => return Err(self.unreadable(error)),
        };
        match HttpError::of_chunk(&body, &headers) {
            Some(refusal) => Err(refusal.fault(&self.name, |text| self.redact(text))),
            None => Ok(body),
        }
    }

    /// Requests the list of models and returns the status of the response, whose body is not read.
    pub(super) async fn list_models(&self, timeout: Duration) -> Result<u16, Fault> {
        let Self { http, target, .. } = self;
        let request = http.get(target.url(MODELS)).headers(target.headers()).timeout(timeout);
        Ok(request.send().await.map_err(|error| self.unsent(error))?.status().as_u16())
    }

    /// Sends a request once and returns the response if it is successful.
    async fn send(&self, path: &str, body: &Value) -> Result<Response, FailedRequest> {
        let target = &self.target;
        let request =
            self.http.post(target.url(path)).headers(target.headers()).timeout(self.timeout).json(body);
        let response = request.send().await.map_err(|error| self.unsent(error))?;
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|header| header.to_str().ok());
        let is_page = content_type.is_some_and(|kind| kind.starts_with("text/html"));
        if response.status().is_success() && !is_page {
            return Ok(response);
        }
        let refusal = HttpError::read(response).await;
        Err(FailedRequest {
            fault: refusal.fault(&self.name, |text| self.redact(text)),
            refusal: Some(refusal),
        })
    }

    /// The fault of an unusable response; a retry would get the same.
    pub(super) fn unusable_response(&self, why: &str) -> Fault {
        let name = &self.name;
        Fault::permanent(format!(
            "the response of provider {name} {why}; hint: check providers.{name}.base_url"
        ))
    }

    /// The fault of a request without a response.
    ///
    /// ## Why it is in doubt once it was sent
    ///
    /// The endpoint may have worked on it and charge for it, so the reserved cost is not given back.
    fn unsent(&self, error: reqwest::Error) -> Fault {
        let Self { name, timeout, .. } = self;
        let (is_connect, is_timeout) = (error.is_connect(), error.is_timeout());
        let is_sent = !error.is_builder() && !error.is_redirect();
        // The URL may hold a secret.
        let why = self.redact(&error_chain(&error.without_url()));
        if is_connect {
            let error = format!("cannot reach provider {name}: {why}; hint: check providers.{name}.base_url");
            Fault::unavailable(error, None)
        } else if is_timeout {
            Fault::unanswered(format!("provider {name} did not respond within {timeout:?}"))
        } else if is_sent {
            Fault::in_doubt(format!("the reply of provider {name} was interrupted: {why}"))
        } else {
            Fault::transient(format!("the request to provider {name} cannot be sent: {why}"))
        }
    }

    /// The fault of a response that cannot be read to its end.
    fn unreadable(&self, error: ReadError) -> Fault {
        let Self { name, timeout, .. } = self;
        let why = match error {
            ReadError::Connection(error) if error.is_timeout() => {
                return Fault::unanswered(format!(
                    "the reply of provider {name} did not end within {timeout:?}"
                ));
            }
            ReadError::Connection(error) => error_chain(&error.without_url()),
            error @ (ReadError::TooLong { .. } | ReadError::NotJson(_)) => error.to_string(),
        };
        Fault::in_doubt(format!("the reply of provider {name} was interrupted: {}", self.redact(&why)))
    }

    /// Replaces the key in a text.
    fn redact(&self, text: &str) -> String {
        self.target.redact(text)
    }
}
