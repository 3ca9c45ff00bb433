//! A request of a client, whatever its wire format, and its conversion to a turn.

use api_types::Priority;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared::{Budget, Message, MultitaskStrategy, Opened, Policy, ReplyOptions, overlay};
use store::{Idempotency, Opening, ThreadId};

use super::{
    conversation::check_messages,
    history::{Continued, History},
    model_names::{Target, model, strategy},
};
use crate::{
    server::{
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::AppState,
        tenant_rules::Submitter,
    },
    turns::{
        client_calls::{check_results, results_for, waiting_thread},
        content::Messages,
        multitask::multitask_for,
        opening::{Overrides, continued, opened},
        reply_options::check_reply_options,
        submit::{check_attachments, policy_for},
    },
};

/// A request of a client of OpenAI's API.
pub(crate) struct ClientRequest {
    /// Name of the model: a strategy, or a model of a provider.
    pub(super) model: String,
    /// Parameters for the model.
    pub(super) parameters: Parameters,
    /// Thread to continue.
    pub(super) thread: Option<ThreadId>,
    /// True if the thread contains none of the messages. Otherwise it contains all but the last one of the user.
    pub(super) all_new: bool,
    /// True if the messages may be the conversation of a thread, by which it is found.
    pub(super) finds_thread: bool,
    /// Conversation, oldest message first.
    pub(super) messages: Messages,
    /// Demands on the reply.
    pub(super) reply_options: ReplyOptions,
    /// Data stored with the turn.
    pub(super) metadata: Map<String, Value>,
    /// Author of the turn, if the request names one.
    pub(super) user: Option<String>,
    /// The field `turnfold`.
    pub(super) extension: Extension,
}

/// Parameters for the model. Only the strategy `chat` uses them.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    /// In the names of the configuration.
    pub(super) configured: Map<String, Value>,
    /// Passed to the endpoint unchanged.
    pub(super) passed_on: Map<String, Value>,
}

/// The field `turnfold` of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Extension {
    config: Option<Map<String, Value>>,
    budget: Option<Budget>,
    priority: Option<Priority>,
    multitask_strategy: Option<MultitaskStrategy>,
}

impl ClientRequest {
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
        if let Some(id) = self.thread {
            let new = self.into_existing_thread(app, principal, by, id).await?;
            return Ok(store::NewTurn { idempotency, ..new });
        }
        let history = self.history(app, principal, &by);
        let messages = &self.messages.messages;
        let found = match (waiting_thread(app, principal, messages).await?, &history) {
            (Some((thread, results)), _) => Some((thread, results, Policy::Auto)),
            (None, Some(history)) => {
                let continued = history.find(app, principal, &by, idempotency.as_ref()).await?;
                continued
                    .map(|Continued { thread, from, policy }| (thread, messages[from..].to_vec(), policy))
            }
            (None, None) => None,
        };
        let new = match found {
            Some((thread, new, policy)) => self.into_found_thread(app, principal, by, thread, new, policy)?,
            None => self.into_new_thread(app, principal.into(), by)?,
        };
        let history_hash = history.map(|history| history.hash);
        Ok(store::NewTurn { idempotency, history_hash, ..new })
    }

    /// Hashes the conversation, with all that distinguishes threads with equal ones: who asks for what, and how.
    fn history(&self, app: &AppState, principal: &Principal, by: &Actor) -> Option<History> {
        if !app.finds_threads || !self.finds_thread {
            return None;
        }
        let target = Target::of(app, principal.into(), &self.model).ok()?;
        let Parameters { configured, passed_on } = &self.parameters;
        let key = by.caller.as_ref().and_then(|caller| caller.key.as_ref().or(caller.subject.as_ref()));
        let user = self.user.as_ref().unwrap_or(&by.name);
        let config = target.config(configured.clone());
        let passed_on = target.parameters(passed_on.clone());
        let Extension { config: own, budget, priority: _, multitask_strategy: _ } = &self.extension;
        let (tenant, strategy) = (principal.tenant(), target.graph.name());
        let identity = json!([tenant, key, user, strategy, config, passed_on, own, budget]);
        Some(History::of(&identity, &self.messages.messages))
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
        check_reply_options(target.graph, &self.reply_options)?;
        check_messages(target.graph, &self.messages.messages)?;
        check_results(&self.messages.messages)?;
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

    /// Converts the request to a turn of a thread that its messages have found, with those of them that are `new` to it. Configuration
    /// and budget are those of the thread.
    fn into_found_thread(
        mut self,
        app: &AppState,
        principal: &Principal,
        by: Actor,
        row: store::Thread,
        new: Vec<Message>,
        policy: Policy,
    ) -> Result<store::NewTurn, ApiError> {
        if let Some(graph) = app.strategies.find(&row.strategy) {
            check_reply_options(graph, &self.reply_options)?;
        }
        let by = self.author(by);
        let policy = policy_for(app, principal, &row, policy)?;
        let asked = self.extension.multitask_strategy;
        let multitask = multitask_for(app, principal, asked, &row, false)?;
        self.messages.keep_only(new);
        Ok(store::NewTurn { policy, multitask, ..self.turn(Opening::Existing(row.id), by) })
    }

    async fn into_existing_thread(
        mut self,
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
        check_reply_options(target.graph, &self.reply_options)?;
        // The thread contains the earlier messages.
        match results_for(app, id, &self.messages.messages).await? {
            Some(results) => self.messages.keep_only(results),
            None if self.all_new => check_messages(target.graph, &self.messages.messages)?,
            None => self.messages.only_last_of_user(),
        }
        if self.messages.messages.is_empty() {
            let detail = format!(
                "messages: thread {id} has the earlier messages, and there is no message of the user"
            );
            return Err(Kind::Invalid
                .because(detail)
                .hint("send a message of the user")
                .with_param("messages"));
        }
        let by = self.author(by);
        let policy = policy_for(app, principal, &row, Policy::Auto)?;
        let asked = self.extension.multitask_strategy;
        let multitask = multitask_for(app, principal, asked, &row, false)?;
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
            reply_options: Some(Box::new(self.reply_options)),
            caller: author.caller,
            trace_parent: author.trace_parent,
            ..store::NewTurn::of(thread, messages, author.name)
        }
    }
}
