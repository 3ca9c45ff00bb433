//! The source of threads: the API, at an address if one is given, else in this process on the database.

use std::ops::ControlFlow;

use anyhow::Context as _;
use api_types::{IdKind, LogEvent, Page, ThreadSummary, Turn, Verification};
use queue::clock;
use shared::{DynThread, Event, Graph};
use store::{Recorded, Store, ThreadId};

use crate::{
    client::{Client, path},
    commands::Context,
    exit::{CliError, Exit},
    ids,
};

/// Maximum number of threads or turns that one request returns.
const PAGE: u64 = 1_000;

/// Reads threads through the API.
pub(crate) struct Source {
    client: Client,
}

impl Source {
    /// Opens the API at `--url` or `TURNFOLD_URL`, or if neither is set, one in this process on the database.
    pub(crate) async fn open(ctx: &Context) -> anyhow::Result<Self> {
        match ctx.uses_own_api() {
            true => Self::on(ctx, &ctx.store().await?),
            false => Ok(Self::of(&ctx.client()?)),
        }
    }

    /// Reads this database, as the tenant that the command acts for.
    pub(crate) fn on(ctx: &Context, store: &Store) -> anyhow::Result<Self> {
        Ok(Self { client: ctx.embedded_client(store.clone(), ctx.tenant.as_deref())? })
    }

    /// Reads through this client.
    pub(crate) fn of(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// Returns the client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Finds a thread by `last`, its id, or a part of its id. Threads of other tenants are not found.
    pub(crate) async fn find(&self, text: &str) -> anyhow::Result<ThreadId> {
        let id = self.id_of(text).await?;
        self.page(id, 0, 1).await?;
        Ok(id)
    }

    /// As [`Self::find`], but a full id is not looked up: the request that follows fails if it does not exist.
    pub(crate) async fn id_of(&self, text: &str) -> anyhow::Result<ThreadId> {
        if text == "last" {
            let newest = self.threads("", None, 1).await?;
            return newest.first().map(|thread| thread.id).ok_or_else(no_thread_yet);
        }
        Ok(ids::resolve(&self.client, IdKind::Thread, text).await?.parse()?)
    }

    /// Lists threads, newest first: those with ids below `after` that match `query`, which is empty or begins with `&`.
    pub(crate) async fn threads(
        &self,
        query: &str,
        mut after: Option<ThreadId>,
        limit: u64,
    ) -> anyhow::Result<Vec<ThreadSummary>> {
        let mut all = Vec::new();
        loop {
            let size = limit.saturating_sub(all.len() as u64).clamp(1, PAGE);
            let cursor = after.map(|id| format!("&after={id}")).unwrap_or_default();
            let path = format!("/v1/threads?limit={size}{cursor}{query}");
            let page: Page<ThreadSummary> = self.client.get(&path).await?;
            all.extend(page.data);
            after = all.last().map(|thread| thread.id);
            if !page.has_more || limit <= all.len() as u64 {
                return Ok(all);
            }
        }
    }

    /// Reads at most `limit` events from number `from` on.
    async fn page(&self, id: ThreadId, from: u64, limit: u64) -> anyhow::Result<Page<LogEvent>> {
        let base = path(&["threads", &id.to_string(), "events"])?;
        let cursor = from.checked_sub(1).map(|after| format!("&after={after}")).unwrap_or_default();
        self.client.get(&format!("{base}?limit={limit}{cursor}")).await
    }

    /// Calls `each` with the events from number `from` on, until it breaks or the log ends.
    pub(crate) async fn scan(
        &self,
        id: ThreadId,
        mut from: u64,
        mut each: impl FnMut(Recorded) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<()> {
        loop {
            let page = self.page(id, from, self.client.events_at_once()).await?;
            for event in page.data {
                let event = recorded(event)?;
                from = event.seq + 1;
                if each(event)?.is_break() {
                    return Ok(());
                }
            }
            if !page.has_more {
                return Ok(());
            }
        }
    }

    /// Calls `each` with the events from the first to number `at`, or to the last.
    pub(crate) async fn scan_to(
        &self,
        id: ThreadId,
        at: Option<u64>,
        mut each: impl FnMut(Recorded) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.scan(id, 0, |event| {
            if at.is_some_and(|at| at < event.seq) {
                return Ok(ControlFlow::Break(()));
            }
            each(event).map(ControlFlow::Continue)
        })
        .await
    }

    /// Reads a whole log.
    pub(crate) async fn load(&self, id: ThreadId) -> anyhow::Result<Vec<Event>> {
        let mut log = Vec::new();
        self.scan_to(id, None, |recorded| {
            log.push(recorded.event);
            Ok(())
        })
        .await?;
        Ok(log)
    }

    /// Returns the number of turns of a thread, at most [`PAGE`].
    pub(crate) async fn turns(&self, id: ThreadId) -> anyhow::Result<usize> {
        let page: Page<Turn> = self.client.get(&format!("/v1/turns?thread_id={id}&limit={PAGE}")).await?;
        Ok(page.data.len())
    }

    /// Verifies a thread.
    pub(crate) async fn verify(&self, id: ThreadId) -> anyhow::Result<Verification> {
        self.client.get(&path(&["threads", &id.to_string(), "verify"])?).await
    }

    /// Folds a log up to event `at`, or to its last event.
    pub(crate) async fn fold(
        &self,
        ctx: &Context,
        id: ThreadId,
        at: Option<u64>,
    ) -> anyhow::Result<Box<dyn DynThread>> {
        let mut thread = self.graph(ctx, id).await?.begin();
        self.check_event(id, at).await?;
        self.scan_to(id, at, |recorded| Ok(thread.apply(&recorded.event)?)).await?;
        Ok(thread)
    }

    /// Fails if the log has no event `at`.
    pub(crate) async fn check_event(&self, id: ThreadId, at: Option<u64>) -> anyhow::Result<()> {
        let Some(at) = at else { return Ok(()) };
        if !self.page(id, at, 1).await?.data.is_empty() {
            return Ok(());
        }
        let last = self.verify(id).await?.events.saturating_sub(1);
        let message = format!("the thread has no event {at}: its last event is {last}");
        Err(CliError::with_exit(Exit::Usage, message))
    }

    /// Returns the strategy that a thread runs.
    pub(crate) async fn graph(&self, ctx: &Context, id: ThreadId) -> anyhow::Result<&'static dyn Graph> {
        let first = self.page(id, 0, 1).await?.data.into_iter().next().map(recorded).transpose()?;
        let name = match first.map(|recorded| recorded.event) {
            Some(Event::Opened(opened)) => opened.strategy,
            Some(_) => {
                let message = format!("the log of thread {id} does not begin with `opened`");
                return Err(CliError::with_exit(Exit::Finding, message));
            }
            None => return Err(store::Error::UnknownThread(id).into()),
        };
        ctx.strategies.find(&name).ok_or_else(|| {
            let known = ctx.strategies.names().join(", ");
            let message = format!("this binary has no strategy {name:?}; it has: {known}");
            CliError::with_exit(Exit::Unchecked, message)
        })
    }
}

/// Finds a thread through the API.
pub(crate) async fn named(client: &Client, id: &str) -> anyhow::Result<String> {
    Ok(Source::of(client).id_of(id).await?.to_string())
}

/// The error for `last` when there is no thread.
fn no_thread_yet() -> anyhow::Error {
    CliError::with_exit(
        Exit::NotFound,
        "there is no thread yet\nhint: turnfold turn send -g probe \"echo hello\"",
    )
}

/// Converts an event.
///
/// # Errors
///
/// [`Exit::Unchecked`] if this build cannot read the event.
pub(crate) fn recorded(event: LogEvent) -> anyhow::Result<Recorded> {
    let at = clock::parse_rfc3339(&event.at).context("the API returned an invalid time")?;
    let seq = event.seq;
    let event = serde_json::from_value(event.event)
        .map_err(|error| CliError::with_exit(Exit::Unchecked, format!("cannot read event {seq}: {error}")))?;
    Ok(Recorded { seq, at, event })
}
