//! The outside world: models, MCP servers and indexes. Requests are performed here and nowhere else.
//!
//! ```text
//! Request ──▶ LiveWorld ──┬─▶ models        an OpenAI-compatible endpoint, or a script
//!                         ├─▶ mcp           a pool of connections to MCP servers
//!                         ├─▶ http_commands single HTTP requests defined by the operator
//!                         ├─▶ index         descriptions of all servers, searchable
//!                         └─▶ simulate      requests with which the engine exercises itself
//!             RecordedWorld ─▶ the answers of a fixture
//! ```
//!
//! **Invariant:** nothing here retries. A retry is an event, so the log decides on it: every failure comes back as a
//! [`Fault`] that says whether it can be retried.

mod argument_check;
mod attachments;
mod description;
mod http_clients;
mod http_commands;
mod index;
mod mcp;
mod models;
mod rate_limits;
mod recorded;
mod redactor;
mod retry_after;
mod scripted;
mod words;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use queue::rate_limits::{Demand, Subject};
use shared::{
    AttachmentKind, DynThread, Fault, OpenTask, PendingRequest, Request, Response, Simulation, ToolOutput,
    Usage,
};
use tracing::Instrument;
use uuid::Uuid;

use self::argument_check::Schemas;
pub use argument_check::check_parameters;
pub use attachments::Attachments;
pub use http_clients::HttpClientError;
pub use http_commands::{COMMANDS, Command, Commands, Method, describe_commands};
pub use index::{Index, SearchResult};
pub use mcp::{
    Confinement, IDEMPOTENCY_KEY, NodeToolFilters, Sandbox, Server, ServerInfo, Servers, Session, ToolFilter,
    ToolRule, Transport, decode_pin, encode_tools,
};
pub use models::{
    CapabilityCheck, CapabilityVerdict, DIALECTS, Dialect, DialectRow, ModelCheck, Models, OpenAi, Price,
    Prices, Provider, ProviderAnswer, Providers, Structured,
};
pub use rate_limits::{RateLimitConfig, TenantLimit, TenantLimits};
pub use recorded::RecordedWorld;
pub use redactor::Redactor;
pub use scripted::{Script, ScriptError};

/// Result of a request, with its usage.
pub type Outcome = Result<(Response, Option<Usage>), Fault>;

/// Performs the requests of threads to models and tools.
#[async_trait]
pub trait World: Send + Sync {
    /// Performs a request of a thread.
    ///
    /// # Errors
    ///
    /// [`Fault`], with whether and when the request may be retried.
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome;

    /// Tells a server that the result of a task is not needed any more. A server that does not hear of it finishes the task.
    async fn cancel_task(&self, _thread: Uuid, _task: &OpenTask) {}

    /// Estimates what a request takes of each limited resource, so that it can be reserved before the request is sent.
    /// Empty for a world without limits.
    fn demands(&self, _thread: &dyn DynThread, _ask: &RequestContext<'_>) -> Vec<Demand> {
        Vec::new()
    }

    /// Returns the model or server to which a request goes. Its availability is shared by all workers.
    fn subject(&self, request: &Request) -> Option<Subject> {
        rate_limits::subject(request)
    }
}

/// A request and its origin.
pub struct RequestContext<'a> {
    /// Thread that sent the request.
    pub thread: Uuid,
    /// The request, its inputs and its previous attempts.
    pub due: &'a PendingRequest,
    /// Idempotency key, `thread:seq:slot`.
    pub key: &'a str,
    /// Node that sent the request.
    pub node: &'a str,
    /// Receiver of a reply while it is streamed.
    pub deltas: &'a dyn DeltaSink,
}

/// Receives a reply while it is streamed.
#[async_trait]
pub trait DeltaSink: Send + Sync {
    /// Receives the next piece of the reply.
    async fn delta(&self, text: &str);
}

/// Discards a streamed reply.
pub struct DiscardDeltas;

#[async_trait]
impl DeltaSink for DiscardDeltas {
    async fn delta(&self, _: &str) {}
}

/// Models, MCP servers, HTTP commands and the index of the configuration.
pub struct LiveWorld {
    models: Arc<Models>,
    servers: Servers,
    commands: Commands,
    index: Index,
    schemas: Schemas,
    rate_limits: RateLimitConfig,
    attachments: Option<Arc<dyn Attachments>>,
    redactor: Redactor,
}

impl LiveWorld {
    /// Creates a world. Nothing is connected before its first use.
    pub fn new(models: Arc<Models>, servers: Servers, commands: Commands, index: Index) -> Self {
        Self {
            models,
            servers,
            commands,
            index,
            schemas: Schemas::default(),
            rate_limits: RateLimitConfig::default(),
            attachments: None,
            redactor: Redactor::default(),
        }
    }

    /// Removes these secrets from everything that models, servers and commands answer.
    #[must_use]
    pub fn with_redactor(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    /// Adds the contents of images and files.
    #[must_use]
    pub fn with_attachments(self, attachments: Arc<dyn Attachments>) -> Self {
        Self { attachments: Some(attachments), ..self }
    }

    /// Adds rate limits.
    #[must_use]
    pub fn with_rate_limits(self, rate_limits: RateLimitConfig) -> Self {
        Self { rate_limits, ..self }
    }

    /// The configured MCP servers.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Reports to the store what the MCP servers offer, in the name of a worker, until the future is dropped. Opens no
    /// connection: a server is reported when a request has used it.
    pub async fn keep_reporting_servers(&self, worker: &str) {
        self.servers.keep_reporting(worker, &self.redactor).await;
    }

    /// Closes every connection, giving each server time to shut down.
    pub async fn close(&self) {
        self.servers.close().await;
    }
}

#[async_trait]
impl World for LiveWorld {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let PendingRequest { asked_seq: asked, slot, .. } = ask.due;
        let turn = thread.turn();
        let span =
            tracing::debug_span!("perform", thread = %ask.thread, ?turn, node = ask.node, seq = asked, slot);
        let started = Instant::now();
        let outcome = async {
            self.redactor.outcome(self.dispatch(thread, ask).await).inspect_err(
                |fault| tracing::debug!(error = fault.error, kind = ?fault.kind, "request failed"),
            )
        };
        with_duration(outcome.instrument(span).await, started)
    }

    async fn cancel_task(&self, thread: Uuid, task: &OpenTask) {
        self.servers.cancel_task(thread, task).await;
    }

    fn demands(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Vec<Demand> {
        let mut demands = self.rate_limits.demands(&ask.due.request, thread.tenant());
        if demands.is_empty() {
            return demands;
        }
        let is_offered = |server: &str, tool: &str| self.servers.is_offered(thread, ask.node, server, tool);
        let (tokens, micro_usd) = self.models.estimate(thread, ask.due, &is_offered);
        for demand in &mut demands {
            (demand.tokens, demand.micro_usd) = (tokens, micro_usd);
        }
        demands
    }
}

/// Adds the duration to the usage of an outcome, successful or not.
fn with_duration(outcome: Outcome, started: Instant) -> Outcome {
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    match outcome {
        Ok((response, meter)) => Ok((response, Some(Usage { duration_ms: ms, ..meter.unwrap_or_default() }))),
        Err(mut fault) => {
            fault.usage.get_or_insert_default().duration_ms = ms;
            Err(fault)
        }
    }
}

impl LiveWorld {
    async fn dispatch(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        match &ask.due.request {
            Request::Chat { .. } => {
                let is_offered =
                    |server: &str, tool: &str| self.servers.is_offered(thread, ask.node, server, tool);
                self.models.chat(thread, ask, &is_offered, self.attachments.as_ref()).await
            }
            Request::ListTools { server } if self.commands.are(server) => {
                Ok((self.commands.list(thread.server_tools(server)), None))
            }
            Request::ListTools { server } => self.servers.list(server, thread).await,
            Request::CallTool { server, call } => {
                if ask.due.task.is_none()
                    && let Some(message) = self.schemas.mismatch(thread.server_tools(server), call)
                {
                    return Ok((Response::Output(ToolOutput::Refused(message)), None));
                }
                if self.commands.are(server) {
                    return self.commands.call(call, ask.key).await;
                }
                let (response, usage) = self.servers.call(server, call, thread, ask).await?;
                let to = self.attachments.as_ref().filter(|_| self.models.any_takes(AttachmentKind::Image));
                Ok((attachments::keep_images(to, ask.thread, response).await, usage))
            }
            Request::ListPrompts { server } if self.commands.are(server) => {
                Ok((Response::Prompts { prompts: Vec::new() }, None))
            }
            Request::ListPrompts { server } => self.servers.prompts(server).await,
            Request::GetPrompt { server, .. } if self.commands.are(server) => {
                Err(Fault::permanent("the server `commands` has no prompts"))
            }
            Request::GetPrompt { server, name, arguments } => {
                self.servers.prompt(server, name, arguments, ask).await
            }
            // The log has the answer, so the engine never performs it.
            Request::ReadMore { .. } => Err(Fault::permanent("a tool result is read on from the log only")),
            Request::Describe { server } if self.commands.are(server) => Ok((self.commands.describe(), None)),
            Request::Describe { server } => self.servers.catalog(server).await,
            Request::Search { query, limit, options } => {
                self.index.find(thread, query, *limit, options).await
            }
            Request::Index { servers, held } => self.index.update(servers, held).await,
            Request::Simulate(simulation) => simulate(simulation, ask.due.failures, ask.deltas).await,
        }
    }
}

async fn simulate(simulation: &Simulation, failures: u32, deltas: &dyn DeltaSink) -> Outcome {
    let Simulation { wait_ms, failures: wanted, error: fails, text } = simulation;
    // Even a sleep of nothing waits for the next tick of the clock, a millisecond.
    if 0 < *wait_ms {
        tokio::time::sleep(Duration::from_millis(*wait_ms)).await;
    }
    match fails {
        Some(error) if failures == 0 => return Err(Fault::permanent(error.as_str())),
        Some(_) | None => (),
    }
    if u64::from(failures) < *wanted {
        return Err(Fault::transient(format!("simulated failure {} of {wanted}", failures + 1)));
    }
    stream_words(text, deltas).await;
    Ok((Response::Echo { text: text.clone() }, None))
}

/// Streams `text` to `deltas`, word by word.
async fn stream_words(text: &str, deltas: &dyn DeltaSink) {
    for word in text.split_inclusive(' ') {
        deltas.delta(word).await;
    }
}

/// Id for a tool call without one: the reply's position in the conversation and the call's position in the reply.
fn call_id(position: usize, nth: usize) -> String {
    format!("call_{position}_{nth}")
}

/// Formats an error with all its causes on one line.
fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    let mut messages: Vec<String> = Vec::new();
    for cause in causes {
        // Many errors already end with the message of their cause.
        if !messages.last().is_some_and(|message| message.contains(&cause)) {
            messages.push(cause);
        }
    }
    messages.join(": ")
}

/// Truncates `text` to `max` characters.
fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Maps an error of the store that holds `what` to a fault.
fn store_fault(what: &str, error: &store::Error) -> Fault {
    let message = format!("cannot use {what}: {error}");
    match error {
        store::Error::Unavailable(_) | store::Error::IndexUnavailable(_) => Fault::transient(message),
        store::Error::Stale { .. }
        | store::Error::CancelRequested { .. }
        | store::Error::UnknownThread(_)
        | store::Error::ThreadExists(_)
        | store::Error::UnknownTurn(_)
        | store::Error::KeyReused
        | store::Error::BatchLost(_)
        | store::Error::Address(_)
        | store::Error::NotMigrated { .. }
        | store::Error::TooNew { .. }
        | store::Error::Unreadable { .. }
        | store::Error::UnknownStrategy { .. }
        | store::Error::Stuck { .. }
        | store::Error::Corrupt { .. }
        | store::Error::ContentRejected(_)
        | store::Error::IndexRefused(_)
        | store::Error::Database(_) => Fault::permanent(message),
    }
}
