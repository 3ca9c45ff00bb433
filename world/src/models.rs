//! Models: finds the provider of a model, and requests its replies.

mod calls;
mod check;
mod content;
mod context_error;
mod dialect;
mod embeddings;
mod endpoint;
mod finish;
mod http_error;
mod json_text;
mod learned;
mod lenient;
mod messages;
mod plain_schema;
mod price;
mod prompt;
mod provider;
mod reach;
mod request;
mod sse;
mod stream;
mod structured_output;
mod target;
mod thinking;
mod token_counts;
mod tool_schemas;
mod tool_selection;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use serde_json::{Map, Value};
use shared::{Accepts, AttachmentKind, DynThread, Fault, PendingRequest, Response, Role, Usage};
use store::LearnedModel;

pub(super) use self::prompt::Prompt;
pub use self::{
    check::{CapabilityCheck, CapabilityVerdict, ModelCheck},
    dialect::{DIALECTS, Dialect, DialectRow},
    price::{Price, Prices},
    provider::{OpenAi, Provider, Providers},
    reach::ProviderAnswer,
    structured_output::Structured,
};
use self::{endpoint::Endpoint, prompt::IsOffered, request::RequestForm, tool_schemas::ToolForms};
use super::{
    Script,
    attachments::{self, Attachments},
    http_clients::{HttpClientError, HttpClients},
};
use crate::world::{Outcome, RequestContext};

/// The configured models.
pub struct Models {
    sources: RwLock<BTreeMap<String, Source>>,
    http: HttpClients,
    accepts: Accepts,
}

#[derive(Clone)]
enum Source {
    Endpoint(Arc<Endpoint>),
    Script(Arc<Script>),
    Unavailable(String),
}

/// Bytes per token in estimates, before the endpoint has counted them.
const BYTES_PER_TOKEN: usize = 4;

/// Tokens of a reply in estimates.
const REPLY_TOKENS: u64 = 1_000;

impl Models {
    /// Creates the models of these providers.
    ///
    /// # Errors
    ///
    /// [`HttpClientError`] if no HTTP client can be built.
    pub fn new(providers: Providers) -> Result<Self, HttpClientError> {
        let models =
            Self { sources: RwLock::default(), http: HttpClients::new()?, accepts: Accepts::default() };
        models.update(providers);
        Ok(models)
    }

    /// Adds providers, or replaces those of the same name. What was learned about their models remains; running requests
    /// end with the settings that they began with.
    pub fn update(&self, providers: Providers) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        for (name, provider) in providers {
            let source = match provider {
                Provider::OpenAi(settings) => self.endpoint(&name, settings, sources.get(&name)),
                Provider::Scripted(script) => Source::Script(Arc::new(script)),
                Provider::Unavailable { reason } => Source::Unavailable(reason),
            };
            sources.insert(name, source);
        }
    }

    fn endpoint(&self, name: &str, settings: OpenAi, before: Option<&Source>) -> Source {
        let http = self.http.of(&settings.base_url).clone();
        match Endpoint::new(name, settings, http) {
            Ok(endpoint) => Source::Endpoint(Arc::new(match before {
                Some(Source::Endpoint(before)) => endpoint.with_learned_of(before),
                Some(Source::Script(_) | Source::Unavailable(_)) | None => endpoint,
            })),
            Err(invalid) => Source::Unavailable(format!("providers.{name}.headers: {invalid}")),
        }
    }

    /// Returns true if the models of any provider take attachments of this kind.
    pub(super) fn any_takes(&self, kind: AttachmentKind) -> bool {
        self.accepts.any_takes(kind)
    }

    /// Sets the kinds of attachments that models take.
    #[must_use]
    pub fn with_accepts(self, accepts: Accepts) -> Self {
        Self { accepts, ..self }
    }

    /// Forgets what was learned about a model, named as `provider/model`.
    pub(super) fn forget(&self, model: &str) {
        if let Ok((Source::Endpoint(endpoint), _, model)) = self.source(model) {
            endpoint.forget(model);
        }
    }

    /// Returns what was learned about models, sorted by name.
    pub(super) fn learned(&self) -> Vec<LearnedModel> {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        let of = |(provider, source): (&String, &Source)| match source {
            Source::Endpoint(endpoint) => endpoint.learned(provider),
            Source::Script(_) | Source::Unavailable(_) => Vec::new(),
        };
        sources.iter().flat_map(of).collect()
    }

    /// Requests a model's next message. It is offered those of the servers' tools that `is_offered` permits.
    pub(super) async fn chat(
        &self,
        thread: &dyn DynThread,
        ask: &RequestContext<'_>,
        is_offered: &IsOffered<'_>,
        attachments: Option<&Arc<dyn Attachments>>,
    ) -> Outcome {
        let mut prompt = Prompt::of(thread, ask.due, is_offered)?;
        let of_people = prompt.messages.iter().filter(|it| it.role != Role::Tool);
        if let Some(refusal) =
            self.accepts.refusal(prompt.model, of_people.flat_map(|message| &message.attachments))
        {
            return Err(Fault::permanent(format!("{refusal}; then run: turnfold turn retry")));
        }
        if !self.accepts.takes(prompt.model, AttachmentKind::Image) {
            prompt.leave_out_tool_images();
        }
        let (source, provider, model) = self.source(prompt.model)?;
        let (reply, meter) = match source {
            Source::Endpoint(endpoint) => {
                prompt.contents = attachments::load(attachments, ask.thread, &prompt.messages).await?;
                endpoint.chat(model, &prompt, ask.deltas).await?
            }
            Source::Script(script) => script.chat(&prompt, ask.deltas).await?,
            Source::Unavailable(why) => return Err(unavailable(provider, &why)),
        };
        Ok((Response::Reply(reply), Some(meter)))
    }

    /// Estimates the tokens of a request and its cost in millionths of a US dollar, from the bytes sent and a reply of
    /// [`REPLY_TOKENS`]. Zero for a request to no model, and zero cost without a price.
    pub(super) fn estimate(
        &self,
        thread: &dyn DynThread,
        due: &PendingRequest,
        is_offered: &IsOffered<'_>,
    ) -> (u64, u64) {
        let Ok(prompt) = Prompt::of(thread, due, is_offered) else { return (0, 0) };
        let form = RequestForm { mode: None, features: Dialect::Compatible.row().features };
        let bytes = request::body(prompt.model, &prompt, &ToolForms::default(), form).to_string().len();
        let input_tokens = u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
        let meter = Usage { input_tokens, output_tokens: REPLY_TOKENS, ..Usage::default() };
        let cost = match self.source(prompt.model) {
            Ok((Source::Endpoint(endpoint), _, model)) => endpoint.cost(model, &meter),
            Ok((Source::Script(_) | Source::Unavailable(_), ..)) | Err(_) => None,
        };
        (input_tokens.saturating_add(REPLY_TOKENS), cost.unwrap_or_default())
    }

    /// Converts texts to vectors of one length with the embedding model `provider/model`.
    pub(super) async fn embed(&self, name: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, Fault> {
        let (endpoint, model) = self.embedding_endpoint(name)?;
        endpoint.embed(model, texts).await
    }

    /// Sends a request of OpenAI's embeddings API to the provider of the model `provider/model`, and returns the response.
    ///
    /// # Errors
    ///
    /// The provider is not configured, refuses the request or does not answer.
    pub async fn request_embeddings(
        &self,
        name: &str,
        mut request: Map<String, Value>,
    ) -> Result<Value, Fault> {
        let (endpoint, model) = self.embedding_endpoint(name)?;
        request.insert("model".to_owned(), model.into());
        endpoint.post("/embeddings", &Value::Object(request)).await
    }

    /// Finds the endpoint of an embedding model, and splits the model's name.
    fn embedding_endpoint<'a>(&self, name: &'a str) -> Result<(Arc<Endpoint>, &'a str), Fault> {
        let (source, provider, model) = self.source(name)?;
        match source {
            Source::Endpoint(endpoint) => Ok((endpoint, model)),
            Source::Script(_) => Err(Fault::permanent(format!(
                "provider {provider:?} is a script, which cannot embed texts; hint: remove index.embedding_model, or set it to a \
                 model of another provider"
            ))),
            Source::Unavailable(why) => Err(unavailable(provider, &why)),
        }
    }

    /// Finds the provider of a model, and splits the model's name.
    fn source<'a>(&self, name: &'a str) -> Result<(Source, &'a str, &'a str), Fault> {
        let Some((provider, model)) = name.split_once('/') else {
            return Err(Fault::permanent(format!(
                "model {name:?} names no provider; hint: write it as provider/model"
            )));
        };
        Ok((self.source_of(provider)?, provider, model))
    }

    fn source_of(&self, provider: &str) -> Result<Source, Fault> {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = sources.get(provider) {
            return Ok(source.clone());
        }
        let known: Vec<&str> = sources.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(Fault::permanent(format!(
            "provider {provider:?} is unknown (known: {known}); hint: add [providers.{provider}] to turnfold.toml, then run: turnfold turn retry"
        )))
    }
}

fn unavailable(provider: &str, why: &str) -> Fault {
    Fault::permanent(format!(
        "provider {provider:?} cannot be used: {why}; hint: set it and restart turnfold, or put it into a file that the setting names (file:PATH) and send SIGHUP; then run: turnfold turn retry"
    ))
}
