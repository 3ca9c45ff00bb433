//! The world of a running engine: models, MCP servers, HTTP commands and the index.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use queue::rate_limits::Demand;
use shared::{
    AttachmentKind, DynThread, Fault, OpenTask, PendingRequest, Request, Response, Simulation, ToolOutput,
    Usage,
};
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    argument_check::Schemas,
    attachments::{self, Attachments},
    http_commands::Commands,
    index::Index,
    mcp::Servers,
    models::Models,
    rate_limits::RateLimitConfig,
    redactor::Redactor,
    world::{DeltaSink, Outcome, RequestContext, World, stream_words},
};

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

    /// The secrets that are removed from answers.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
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

    fn forget_model(&self, model: &str) {
        self.models.forget(model);
    }

    fn learned_models(&self) -> Vec<store::LearnedModel> {
        self.models.learned()
    }

    fn demands(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Vec<Demand> {
        let mut demands = self.rate_limits.demands(&ask.due.request, thread.tenant());
        if let Request::CallTool { server, .. } = &ask.due.request
            && ask.due.is_write()
            && let Some(turn) = self.servers.turn_of_writes(server, ask.thread)
        {
            demands.push(Demand::turn_of_writes(&turn, thread.tenant()));
        }
        if demands.iter().all(Demand::is_turn_of_writes) {
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
