//! An endpoint that speaks OpenAI's chat completions.

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
use shared::{Fault, Meter, Reply};

use super::{
    Prices, Prompt, Structured,
    door::Door,
    form::Form,
    refusal::{Ignorance, Refusal},
    reply::Pieces,
    wire,
};
use crate::world::{Deltas, chain};

/// An endpoint, and what opens it.
pub(super) struct Endpoint {
    name: String,
    timeout: Duration,
    client: Client<Door>,
    http: reqwest::Client,
    structured: Structured,
    prices: Prices,
    /// The form that each model was found to need, where it is not the first.
    found: Mutex<BTreeMap<String, Form>>,
}

/// Why one request came to nothing, and whether the form of it may be why.
struct Miss {
    fault: Fault,
    ignorance: Option<Ignorance>,
}

impl From<Fault> for Miss {
    fn from(fault: Fault) -> Self {
        Self { fault, ignorance: None }
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
        // A service of our own replaces async-openai's, which would try again by itself.
        let client = Client::build(http.clone(), Door::new(base_url, api_key));
        let bare = http.clone();
        let send = tower::service_fn(move |request: HttpRequestFactory| send(bare.clone(), timeout, request));
        let client = client.with_http_service(send);
        let (structured, prices, found) = (Structured::default(), Prices::default(), Mutex::default());
        Self { name: name.to_owned(), timeout, client, http, structured, prices, found }
    }

    /// The same endpoint, asked for shapes in this way.
    pub(super) fn asks(self, structured: Structured) -> Self {
        Self { structured, ..self }
    }

    /// The same endpoint, whose models cost this.
    pub(super) fn costs(self, prices: Prices) -> Self {
        Self { prices, ..self }
    }

    /// A model's next message.
    ///
    /// ## Why a form is not given up for good at each refusal
    ///
    /// A refusal seldom says what it is about: one for a prompt that is too long looks like one for a form that is not
    /// known. So a looser form is remembered only once it worked where a stricter one was refused; and a 500, which may
    /// have been the endpoint's bad moment, must name the form.
    pub(super) async fn chat(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        deltas: &dyn Deltas,
    ) -> Result<(Reply, Meter), Fault> {
        let mut form = prompt.shape.is_some().then(|| self.form(model));
        let mut sure = true;
        loop {
            let miss = match self.ask(model, prompt, form, deltas).await {
                Ok(answer) => {
                    if let Some(form) = form.filter(|_| sure) {
                        self.remember(model, form);
                    }
                    return Ok(answer);
                }
                Err(miss) => miss,
            };
            let below = form.and_then(|it| self.structured.below(it));
            let (Some(ignorance), Some(below)) = (miss.ignorance, below) else { return Err(miss.fault) };
            tracing::debug!(
                provider = self.name,
                model,
                to = below.name(),
                "asking in a looser form: {}",
                miss.fault.error
            );
            sure &= ignorance == Ignorance::Lasting;
            form = Some(below);
        }
    }

    /// One request, and what comes of it.
    async fn ask(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        form: Option<Form>,
        deltas: &dyn Deltas,
    ) -> Result<(Reply, Meter), Miss> {
        let body = wire::body(model, prompt, form);
        let stream = self.client.chat().create_stream_byot::<Value, Value>(body).await;
        let mut stream = stream.map_err(|error| self.miss(error))?;
        let mut pieces = Pieces::default();
        let mut silent = true;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| self.fault(error))?;
            if chunk.get("error").is_some_and(|it| !it.is_null()) {
                let refusal = Refusal::within_stream(&chunk);
                // What was heard cannot be taken back, so that nothing else may follow it.
                let ignorance = refusal.ignorance().filter(|_| silent);
                return Err(Miss { fault: refusal.fault(&self.name, |words| self.hide(words)), ignorance });
            }
            let words = pieces.add(&chunk)?;
            if !words.is_empty() {
                silent = false;
                deltas.delta(words).await;
            }
        }
        let meter = self.meter(model, &pieces, form);
        match pieces.whole(&self.name, prompt, form) {
            Ok(reply) => Ok((reply, meter)),
            // It is of no use and paid for all the same.
            Err(fault) => Err(Fault { meter: Some(Box::new(meter)), ..fault }.into()),
        }
    }

    /// What the pieces took; how long, the world tells.
    fn meter(&self, model: &str, pieces: &Pieces, form: Option<Form>) -> Meter {
        let mut meter = Meter {
            by: pieces.by.clone().unwrap_or_else(|| model.to_owned()),
            input_tokens: pieces.input_tokens,
            output_tokens: pieces.output_tokens,
            form: form.map_or("", Form::name).to_owned(),
            ..Meter::default()
        };
        meter.micro_usd = self.cost(model, &meter);
        meter
    }

    /// What the tokens of a meter cost of this model, in millionths of a US dollar, if it has a price.
    pub(super) fn cost(&self, model: &str, meter: &Meter) -> Option<u64> {
        self.prices.get(model).and_then(|it| it.of(meter))
    }

    /// The form in which this model is asked first.
    fn form(&self, model: &str) -> Form {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(model).copied().unwrap_or(self.structured.first())
    }

    fn remember(&self, model: &str, form: Form) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let known = found.entry(model.to_owned()).or_insert(form);
        *known = form.max(*known);
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

    fn miss(&self, error: OpenAIError) -> Miss {
        let ignorance = match &error {
            OpenAIError::Boxed(error) => error.downcast_ref::<Refusal>().and_then(Refusal::ignorance),
            OpenAIError::Reqwest(_)
            | OpenAIError::JSONDeserialize(..)
            | OpenAIError::StreamError(_)
            | OpenAIError::ApiError(_)
            | OpenAIError::FileSaveError(_)
            | OpenAIError::FileReadError(_)
            | OpenAIError::InvalidArgument(_) => None,
        };
        Miss { fault: self.fault(error), ignorance }
    }

    /// ## Why what broke off is in doubt
    ///
    /// The endpoint may have worked on it, and then it is to be paid: what was set aside for it is not given back.
    fn fault(&self, error: OpenAIError) -> Fault {
        let Self { name, timeout, .. } = self;
        let (sent, error) = match error {
            OpenAIError::Boxed(error) => match error.downcast::<Refusal>() {
                Ok(refusal) => return refusal.fault(name, |words| self.hide(words)),
                Err(error) => (false, chain(error.as_ref())),
            },
            OpenAIError::Reqwest(error) if error.is_connect() => {
                let why = self.hide(&chain(&error.without_url()));
                return Fault::again(format!(
                    "provider {name} cannot be reached: {why}; check providers.{name}.base_url"
                ));
            }
            OpenAIError::Reqwest(error) if error.is_timeout() => {
                return Fault::doubt(format!("provider {name} did not answer within {timeout:?}"));
            }
            // Its address may hold a secret.
            OpenAIError::Reqwest(error) => {
                (!error.is_builder() && !error.is_redirect(), chain(&error.without_url()))
            }
            OpenAIError::JSONDeserialize(error, _) => (true, format!("it sent what is no JSON: {error}")),
            error @ OpenAIError::StreamError(_) => (true, chain(&error)),
            error @ (OpenAIError::ApiError(_)
            | OpenAIError::FileSaveError(_)
            | OpenAIError::FileReadError(_)
            | OpenAIError::InvalidArgument(_)) => (false, chain(&error)),
        };
        let words = format!("the reply of provider {name} broke off: {}", self.hide(&error));
        if sent { Fault::doubt(words) } else { Fault::again(words) }
    }

    /// Strikes the key out.
    fn hide(&self, words: &str) -> String {
        self.client.config().hide(words)
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
