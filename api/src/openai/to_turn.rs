//! Conversion of a chat completion request to a turn.

use api_types::Priority;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use shared::{Budget, MultitaskStrategy, Opened, Policy};
use store::{Idempotency, Opening, ThreadId};
use uuid::Uuid;

use super::{
    conversation,
    model_names::{Target, model, strategy},
    parameters,
};
use crate::{
    server::{
        extract::deserialize,
        principal::{Actor, Principal, USER_MAX},
        problem::{ApiError, Kind},
        state::AppState,
        tenant_rules::Submitter,
    },
    turns::{
        content::Messages,
        multitask::multitask_for,
        opening::{Overrides, continued, opened, overlay},
        submit::{check_attachments, policy_for},
    },
};

/// A parsed chat completion request.
pub(crate) struct ChatRequest {
    model: String,
    parameters: Parameters,
    thread: Option<ThreadId>,
    messages: Messages,
    metadata: Map<String, Value>,
    user: Option<String>,
    extension: Extension,
    /// Form of the response: one object, or a stream.
    pub(crate) mode: ResponseMode,
}

/// Parameters for the model. Only the strategy `chat` uses them.
#[derive(Debug, Default)]
struct Parameters {
    configured: Map<String, Value>,
    passed_on: Map<String, Value>,
}

/// Form of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseMode {
    /// One JSON object.
    Whole,
    /// A stream of chunks.
    Streamed {
        /// True if a last chunk contains the usage.
        include_usage: bool,
    },
}

/// The field `turnfold` of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Extension {
    config: Option<Map<String, Value>>,
    budget: Option<Budget>,
    priority: Option<Priority>,
    multitask_strategy: Option<MultitaskStrategy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

impl ChatRequest {
    /// Parses a body. `header` is the thread named by a header. Nothing is looked up yet.
    pub(crate) fn parse(mut body: Map<String, Value>, header: Option<ThreadId>) -> Result<Self, ApiError> {
        // Clients may send null for omitted fields.
        body.retain(|_, value| !value.is_null());
        parameters::check(&body)?;
        let name: Option<String> = field(&body, "model")?;
        let Some(name) = name else {
            let detail = "model is missing";
            return Err(Kind::Invalid
                .because(detail)
                .hint("GET /v1/models lists the models")
                .with_param("model"));
        };
        let metadata: Map<String, Value> = field(&body, "metadata")?.unwrap_or_default();
        let thread = thread(&metadata, header)?;
        let mut messages = conversation::parse(body.get("messages"))?;
        if thread.is_some() {
            // The thread contains the earlier messages.
            messages.only_last_of_user();
        }
        let options: StreamOptions = field(&body, "stream_options")?.unwrap_or_default();
        let mode = match field(&body, "stream")? {
            Some(true) => ResponseMode::Streamed { include_usage: options.include_usage },
            Some(false) | None => ResponseMode::Whole,
        };
        Ok(Self {
            parameters: Parameters {
                configured: parameters::configured(&body),
                passed_on: parameters::passed_on(&body),
            },
            model: name,
            thread,
            messages,
            metadata,
            user: user(&body)?,
            extension: field(&body, "turnfold")?.unwrap_or_default(),
            mode,
        })
    }

    /// Continues this thread with all messages of the request.
    pub(super) fn continuing(self, thread: ThreadId) -> Result<Self, ApiError> {
        match self.thread {
            Some(named) if named != thread => {
                let detail = "metadata.thread_id: the request continues another thread";
                Err(Kind::Invalid.because(detail).hint("remove it").with_param("metadata.thread_id"))
            }
            Some(_) | None => Ok(Self { thread: Some(thread), ..self }),
        }
    }

    /// Sets the priority, unless the request contains one.
    pub(crate) fn or_priority(mut self, priority: Priority) -> Self {
        self.extension.priority.get_or_insert(priority);
        self
    }

    /// Returns the name of the requested model, for the response.
    pub(crate) fn model(&self, app: &AppState) -> String {
        let named = strategy(&self.model);
        if app.strategies.find(named).is_some() { model(named) } else { self.model.clone() }
    }

    /// Converts the request to a turn. The author is `by`, unless the request names its user.
    pub(crate) async fn into_turn(
        self,
        app: &AppState,
        principal: &Principal,
        by: Actor,
        idempotency: Option<Idempotency>,
    ) -> Result<store::NewTurn, ApiError> {
        let new = match self.thread {
            None => self.into_new_thread(app, principal.into(), by)?,
            Some(id) => self.into_existing_thread(app, principal, by, id).await?,
        };
        Ok(store::NewTurn { idempotency, ..new })
    }

    /// Converts the request to a turn on a new thread.
    pub(crate) fn into_new_thread(
        self,
        app: &AppState,
        submitter: Submitter<'_>,
        by: Actor,
    ) -> Result<store::NewTurn, ApiError> {
        if self.thread.is_some() {
            let detail = "metadata.thread_id: every line of a batch starts a new thread";
            return Err(Kind::Invalid.because(detail).hint("remove it").with_param("metadata.thread_id"));
        }
        let target = Target::of(app, submitter, &self.model)?;
        let by = self.author(by);
        let opened = self.opened(app, submitter, &target, &by);
        let opened = opened.map_err(|error| {
            let param = self.wrong_param(&target, &error);
            error.with_param(param)
        })?;
        check_attachments(app, &opened, &self.messages.messages)
            .map_err(|error| error.with_param("messages"))?;
        let thread = Opening::New(opened);
        Ok(self.turn(thread, by))
    }

    /// Returns the parameter that an error in the configuration of a new thread is about.
    fn wrong_param(&self, target: &Target, error: &ApiError) -> String {
        let is_named = |name: &&String| error.detail().contains(&format!("{}: ", Target::place_of(name)));
        match self.parameters.configured.keys().find(is_named) {
            Some(name) => name.clone(),
            None if target.asked.is_some() && self.extension.config.is_none() => "model".to_owned(),
            None => "turnfold.config".to_owned(),
        }
    }

    /// Returns the first event of the thread. What `turnfold.config` sets takes precedence over parameters.
    ///
    /// Parameters that are passed on are harmless, so they need not be among those that a tenant may set.
    fn opened(
        &self,
        app: &AppState,
        submitter: Submitter<'_>,
        target: &Target,
        by: &Actor,
    ) -> Result<Opened, ApiError> {
        let Parameters { configured, passed_on } = &self.parameters;
        let mut config = Value::Object(target.config(configured.clone()));
        overlay(&mut config, Value::Object(self.extension.config.clone().unwrap_or_default()));
        let config = config.as_object().filter(|config| !config.is_empty()).cloned();
        let overrides = Overrides { config, budget: self.extension.budget.clone() };
        let mut opened = opened(app, submitter, target.graph.name(), overrides, by)?;
        let extra = match passed_on.is_empty() {
            true => Map::new(),
            false => target.parameters(Map::from_iter([("extra".to_owned(), passed_on.clone().into())])),
        };
        if !extra.is_empty() {
            let mut config = Value::Object(extra);
            if !opened.config.is_null() {
                overlay(&mut config, opened.config);
            }
            opened.config = config;
            target.graph.check_config(&opened.config).map_err(|why| Kind::Invalid.because(why))?;
        }
        Ok(opened)
    }

    async fn into_existing_thread(
        self,
        app: &AppState,
        principal: &Principal,
        by: Actor,
        id: ThreadId,
    ) -> Result<store::NewTurn, ApiError> {
        if self.extension.config.is_some() || self.extension.budget.is_some() {
            let detail = "turnfold: config and budget can only be set when a thread is created";
            let hint = "remove `config` and `budget`, or omit the thread to create another";
            return Err(Kind::Invalid.because(detail).hint(hint).with_param("turnfold"));
        }
        let row =
            continued(app, principal, id).await.map_err(|error| error.with_param("metadata.thread_id"))?;
        let target = Target::of(app, principal.into(), &self.model)?;
        if row.strategy != target.graph.name() {
            let detail = format!("model: thread {id} uses the model {}", model(&row.strategy));
            return Err(Kind::Invalid.because(detail).hint("request that model").with_param("model"));
        }
        let by = self.author(by);
        let policy = policy_for(app, principal, &row, Policy::Auto)?;
        let asked = self.extension.multitask_strategy;
        let multitask = multitask_for(app, asked, &row.tenant, &row.strategy, false)?;
        Ok(store::NewTurn { policy, multitask, ..self.turn(Opening::Existing(id), by) })
    }

    /// Returns the author of the turn: the user that the body names, if any.
    fn author(&self, by: Actor) -> Actor {
        Actor { name: self.user.clone().unwrap_or(by.name), ..by }
    }

    fn turn(self, thread: Opening, author: Actor) -> store::NewTurn {
        let Messages { messages, attachments } = self.messages;
        store::NewTurn {
            priority: self.extension.priority.unwrap_or_default(),
            metadata: Value::Object(self.metadata),
            attachments,
            caller: author.caller,
            ..store::NewTurn::of(thread, messages, author.name)
        }
    }
}

/// Returns the thread to continue, from the header or the metadata.
fn thread(metadata: &Map<String, Value>, header: Option<ThreadId>) -> Result<Option<ThreadId>, ApiError> {
    let Some(named) = metadata.get("thread_id") else { return Ok(header) };
    let wrong = |detail: &str| {
        Kind::Invalid.because(format!("metadata.thread_id: {detail}")).with_param("metadata.thread_id")
    };
    let id = named.as_str().and_then(|id| Uuid::parse_str(id).ok());
    let id = id.ok_or_else(|| wrong("it must be the id of a thread"))?;
    match header {
        Some(other) if other != id => Err(wrong("X-Turnfold-Thread names another thread")),
        Some(_) | None => Ok(Some(id)),
    }
}

fn user(body: &Map<String, Value>) -> Result<Option<String>, ApiError> {
    match field::<String>(body, "user")? {
        Some(name) if !(1..=USER_MAX).contains(&name.chars().count()) => {
            let detail = format!("user must have 1 to {USER_MAX} characters");
            Err(Kind::Invalid.because(detail).with_param("user"))
        }
        user => Ok(user),
    }
}

fn field<T: DeserializeOwned>(body: &Map<String, Value>, name: &str) -> Result<Option<T>, ApiError> {
    let Some(value) = body.get(name) else { return Ok(None) };
    deserialize(name, value).map(Some)
}
