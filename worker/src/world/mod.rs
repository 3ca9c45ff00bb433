//! The hands' world: all that lies outside the log, and the only place where a request is carried out.
//!
//! ```text
//! Request ──▶ Live ──┬─▶ models   an OpenAI-compatible endpoint, or a script
//!                    ├─▶ mcp      a pool of connections to MCP servers
//!                    ├─▶ commands single HTTP requests that the operator names
//!                    ├─▶ index    what each server offers, kept so that it can be found
//!                    └─▶ rehearse the engine exercising itself
//!             Recorded ─▶ what a fixture says
//! ```
//!
//! **Invariant:** nothing here tries again on its own. A retry is an event, so it is the log's to decide: every
//! failure comes back as a [`Fault`] that says what may be done about it.

mod arguments;
mod caps;
mod commands;
mod description;
mod index;
mod mcp;
mod models;
mod pause;
mod recorded;
mod scripted;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use shared::{Due, Fault, Meter, Rehearsal, Replay, Request, Response, ToolOutput};
use store::limits::Want;
use tracing::Instrument;
use uuid::Uuid;

use self::arguments::Schemas;
pub use arguments::check_parameters;
pub use caps::Caps;
pub use commands::{COMMANDS, Command, Commands, Method, about};
pub use index::{Found, Index};
pub use mcp::{
    Change, Described, IDEMPOTENCY_KEY, Nodes, Place, Server, Servers, Session, Sight, ToolRule, Transport,
    changes, definitions, pinned,
};
pub use models::{Models, NoClient, Price, Prices, Provider, Providers, Structured};
pub use recorded::Recorded;
pub use scripted::{BadScript, Script};

/// What came of a request.
pub type Outcome = Result<(Response, Option<Meter>), Fault>;

/// Whoever carries out requests.
#[async_trait]
pub trait World: Send + Sync {
    /// Carries one out, for the thread that asked.
    ///
    /// # Errors
    ///
    /// [`Fault`], with what may be done about it.
    async fn perform(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Outcome;

    /// What a request will take of what all workers share, so that it can be reserved before it is sent; nothing, of a
    /// world that has no limits.
    fn wants(&self, _thread: &dyn Replay, _ask: &Ask<'_>) -> Vec<Want> {
        Vec::new()
    }
}

/// One request, and for whom it is carried out.
pub struct Ask<'a> {
    /// The thread that asked.
    pub thread: Uuid,
    /// What it asked, and how often already.
    pub due: &'a Due,
    /// Its idempotency key: `thread:seq:slot`.
    pub key: &'a str,
    /// The node that asked.
    pub node: &'a str,
    /// Who listens to a reply while it is being said.
    pub deltas: &'a dyn Deltas,
}

/// Listens to a reply while it is being said.
#[async_trait]
pub trait Deltas: Send + Sync {
    /// The next piece.
    async fn delta(&self, text: &str);
}

/// Nobody listens.
pub struct NoDeltas;

#[async_trait]
impl Deltas for NoDeltas {
    async fn delta(&self, _: &str) {}
}

/// The real world: the models, the MCP servers, the plain commands and the index that the configuration names.
pub struct Live {
    models: Arc<Models>,
    servers: Servers,
    commands: Commands,
    index: Index,
    schemas: Schemas,
    caps: Caps,
}

impl Live {
    /// A world of these. Nothing is connected before it is used.
    pub fn new(models: Arc<Models>, servers: Servers, commands: Commands, index: Index) -> Self {
        Self { models, servers, commands, index, schemas: Schemas::default(), caps: Caps::default() }
    }

    /// The same world, of which no more may be taken than this.
    #[must_use]
    pub fn limited(self, caps: Caps) -> Self {
        Self { caps, ..self }
    }

    /// The MCP servers at hand.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Lets go of every connection, giving each server the time to end well.
    pub async fn close(&self) {
        self.servers.close().await;
    }
}

#[async_trait]
impl World for Live {
    async fn perform(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        let Due { asked, slot, .. } = ask.due;
        let turn = thread.turn();
        let span =
            tracing::debug_span!("perform", thread = %ask.thread, ?turn, node = ask.node, seq = asked, slot);
        let began = Instant::now();
        let outcome = async {
            self.carry_out(thread, ask).await.inspect_err(
                |fault| tracing::debug!(error = fault.error, remedy = ?fault.remedy, "the world faltered"),
            )
        };
        timed(outcome.instrument(span).await, began)
    }

    fn wants(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Vec<Want> {
        let capped = self.caps.of(&ask.due.request);
        if capped.is_empty() {
            return Vec::new();
        }
        let offers = |server: &str, tool: &str| self.servers.offers(thread, ask.node, server, tool);
        let (tokens, micro_usd) = self.models.forecast(thread, ask.due, &offers);
        let tenant = || thread.tenant().to_owned();
        capped.into_iter().map(|(of, cap)| Want { of, tenant: tenant(), cap, tokens, micro_usd }).collect()
    }
}

/// The outcome, with how long it took on its meter: whatever was asked, and whatever came of it.
fn timed(outcome: Outcome, began: Instant) -> Outcome {
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    match outcome {
        Ok((response, meter)) => Ok((response, Some(Meter { ms, ..meter.unwrap_or_default() }))),
        Err(mut fault) => {
            fault.meter.get_or_insert_default().ms = ms;
            Err(fault)
        }
    }
}

impl Live {
    async fn carry_out(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        match &ask.due.request {
            Request::Chat { .. } => {
                let offers = |server: &str, tool: &str| self.servers.offers(thread, ask.node, server, tool);
                self.models.chat(thread, ask, &offers).await
            }
            Request::ListTools { server } if self.commands.are(server) => {
                Ok((self.commands.list(thread.toolbox(server)), None))
            }
            Request::ListTools { server } => self.servers.list(server, thread).await,
            Request::CallTool { server, call } => {
                if let Some(words) = self.schemas.misfit(thread.toolbox(server), call) {
                    return Ok((Response::Output(ToolOutput::Refused(words)), None));
                }
                if self.commands.are(server) {
                    return self.commands.call(call, ask.key).await;
                }
                self.servers.call(server, call, thread, ask).await
            }
            Request::ListPrompts { server } if self.commands.are(server) => {
                Ok((Response::Prompts { prompts: Vec::new() }, None))
            }
            Request::ListPrompts { server } => self.servers.prompts(server).await,
            Request::GetPrompt { server, .. } if self.commands.are(server) => {
                Err(Fault::operator("plain commands have no prompts"))
            }
            Request::GetPrompt { server, name, arguments } => {
                self.servers.prompt(server, name, arguments, ask).await
            }
            Request::Describe { server } if self.commands.are(server) => Ok((self.commands.offer(), None)),
            Request::Describe { server } => self.servers.offer(server).await,
            Request::Search { query, limit } => self.index.find(query, *limit).await,
            Request::Index { servers } => self.index.update(servers).await,
            Request::Rehearse(rehearsal) => rehearse(rehearsal, ask.due.falters, ask.deltas).await,
        }
    }
}

async fn rehearse(rehearsal: &Rehearsal, falters: u32, deltas: &dyn Deltas) -> Outcome {
    let Rehearsal { wait_ms, falters: wanted, fails, says } = rehearsal;
    tokio::time::sleep(Duration::from_millis(*wait_ms)).await;
    match fails {
        Some(error) if falters == 0 => return Err(Fault::operator(error.as_str())),
        Some(_) | None => (),
    }
    if u64::from(falters) < *wanted {
        return Err(Fault::again(format!("rehearsed falter {} of {wanted}", falters + 1)));
    }
    speak(says, deltas).await;
    Ok((Response::Echo { says: says.clone() }, None))
}

/// Says `text` to whoever listens, word by word.
async fn speak(text: &str, deltas: &dyn Deltas) {
    for word in text.split_inclusive(' ') {
        deltas.delta(word).await;
    }
}

/// The id of a tool call whose author gave it none: where in the conversation it stands.
fn call_id(heard: usize, nth: usize) -> String {
    format!("call_{heard}_{nth}")
}

/// An error with all its causes, on one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |it| it.source()).map(ToString::to_string);
    let mut words: Vec<String> = Vec::new();
    for cause in causes {
        // Many errors already end with their cause's words.
        if !words.last().is_some_and(|said| said.contains(&cause)) {
            words.push(cause);
        }
    }
    words.join(": ")
}

/// At most `max` characters of `text`.
fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// What may be done when `what` is kept in a store that does not do as asked.
fn of_store(what: &str, error: &store::Error) -> Fault {
    let words = format!("{what} cannot be used: {error}");
    match error {
        store::Error::Unavailable(_) | store::Error::IndexUnavailable(_) => Fault::again(words),
        store::Error::Stale { .. }
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
        | store::Error::IndexRefused(_)
        | store::Error::Database(_) => Fault::operator(words),
    }
}
