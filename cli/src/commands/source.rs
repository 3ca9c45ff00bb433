//! The source of threads: the API if an address is given, else the database.
//!
//! Commands that only read use [`Source`], so that their output is the same for an operator with access to the database
//! and for a tenant with nothing but an API key.

use std::ops::ControlFlow;

use anyhow::Context as _;
use api_types::{LogEvent, Page, ThreadSummary, Turn, Verification};
use queue::clock;
use shared::{DynThread, Event, Graph};
use store::{Chain, Conditions, Recorded, Store, Thread as Row, ThreadFilter, ThreadId, TurnFilter};

use crate::{
    client::{Client, path},
    commands::Context,
    exit::{CliError, Exit},
    ids::{self, IdArg, MAX_CANDIDATES},
    output,
};

/// Maximum number of events, threads or turns that one request returns.
const PAGE: u64 = 1_000;

/// Source of threads.
pub(crate) enum Source {
    /// Only threads of this tenant are visible, or all if there is none.
    Database {
        store: Store,
        tenant: Option<String>,
    },
    Api(Client),
}

/// Selection of threads for a list.
#[derive(Default)]
pub(crate) struct Threads {
    /// Only threads in this status.
    pub(crate) status: Option<store::ThreadStatus>,
    /// Only threads with a turn that matches, in the database.
    pub(crate) turns: Option<Conditions>,
    /// The same as a part of the API's query; empty or `&where=…`.
    pub(crate) query: String,
}

impl Source {
    /// Opens the API if `--url` or `TURNFOLD_URL` is set, else the database.
    pub(crate) async fn open(ctx: &Context) -> anyhow::Result<Self> {
        match ctx.url.as_deref().filter(|url| !url.is_empty()) {
            Some(_) => Ok(Self::Api(ctx.client()?)),
            None => Ok(Self::Database { store: ctx.store().await?, tenant: ctx.tenant.clone() }),
        }
    }

    /// Finds a thread by `last`, its id, or a prefix of its id. Threads of other tenants are not found.
    pub(crate) async fn find(&self, text: &str) -> anyhow::Result<ThreadId> {
        if text == "last" {
            let newest = self.threads(&Threads::default(), None, 1).await?;
            return newest.first().map(|row| row.id).ok_or_else(no_thread_yet);
        }
        match IdArg::parse(text, "thread", "thread list")? {
            IdArg::Full(id) => {
                match (self.row(id).await?, self) {
                    (Some(_), _) => Ok(id),
                    // A log may lack its row. Its tenant is then unknown, so it is visible only without a tenant.
                    (None, Self::Database { store, tenant: None }) => Ok(store.head(id).await?.thread),
                    (None, Self::Database { .. } | Self::Api(_)) => {
                        Err(store::Error::UnknownThread(id).into())
                    }
                }
            }
            prefix @ IdArg::Prefix { last, .. } => {
                let page = self.threads(&Threads::default(), Some(last), MAX_CANDIDATES as u64 + 1).await?;
                let matching: Vec<String> =
                    page.iter().filter(|row| prefix.matches(row.id)).map(|row| row.id.to_string()).collect();
                Ok(ids::only(text, "thread", "thread list", &matching)?.parse()?)
            }
        }
    }

    /// Returns a thread's row, or `None` if the thread does not exist or belongs to another tenant.
    pub(crate) async fn row(&self, id: ThreadId) -> anyhow::Result<Option<Row>> {
        match self {
            Self::Database { store, tenant } => {
                let visible = |row: &Row| tenant.as_ref().is_none_or(|tenant| row.tenant == *tenant);
                Ok(store.thread(id).await?.filter(visible))
            }
            Self::Api(client) => {
                match client.get::<api_types::Thread>(&path(&["threads", &id.to_string()])?).await {
                    Ok(thread) => row(&thread.summary).map(Some),
                    Err(error) if crate::client::refusal(&error) == Some(404) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Lists threads, newest first: those with ids below `after` that match the filter.
    pub(crate) async fn threads(
        &self,
        filter: &Threads,
        after: Option<ThreadId>,
        limit: u64,
    ) -> anyhow::Result<Vec<Row>> {
        let Threads { status, turns, query } = filter;
        match self {
            Self::Database { store, tenant } => {
                let turns = turns.as_ref();
                let filter = ThreadFilter { status: *status, tenant: tenant.as_deref(), turns };
                Ok(store.threads(filter, after, limit).await?)
            }
            Self::Api(client) => {
                let (mut all, mut after) = (Vec::new(), after);
                loop {
                    let size = limit.saturating_sub(all.len() as u64).clamp(1, PAGE);
                    let status = status.map(|status| format!("&status={status}")).unwrap_or_default();
                    let cursor = after.map(|after| format!("&after={after}")).unwrap_or_default();
                    let path = format!("/v1/threads?limit={size}{status}{cursor}{query}");
                    let page: Page<ThreadSummary> = client.get(&path).await?;
                    for thread in &page.data {
                        all.push(row(thread)?);
                    }
                    after = all.last().map(|row: &Row| row.id);
                    if !page.has_more || limit <= all.len() as u64 {
                        return Ok(all);
                    }
                }
            }
        }
    }

    /// Calls `each` with the events from number `from` on, until it breaks or the log ends.
    pub(crate) async fn scan(
        &self,
        id: ThreadId,
        from: u64,
        mut each: impl FnMut(Recorded) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<()> {
        let client = match self {
            Self::Database { store, .. } => return store.along_until(id, from, None, each).await,
            Self::Api(client) => client,
        };
        let (base, mut after) = (path(&["threads", &id.to_string(), "events"])?, from.checked_sub(1));
        loop {
            let cursor = after.map(|after| format!("&after={after}")).unwrap_or_default();
            let page: Page<LogEvent> = client.get(&format!("{base}?limit={PAGE}{cursor}")).await?;
            for event in page.data {
                let event = recorded(event)?;
                after = Some(event.seq);
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
        self.scan(id, 0, |recorded| {
            if at.is_some_and(|at| at < recorded.seq) {
                return Ok(ControlFlow::Break(()));
            }
            each(recorded).map(ControlFlow::Continue)
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

    /// Returns the number of events in a log.
    pub(crate) async fn length(&self, id: ThreadId) -> anyhow::Result<u64> {
        match self {
            Self::Database { store, .. } => Ok(store.head(id).await?.seq),
            Self::Api(client) => {
                let thread: api_types::Thread = client.get(&path(&["threads", &id.to_string()])?).await?;
                Ok(thread.events)
            }
        }
    }

    /// Returns the number of turns of a thread, at most [`PAGE`].
    pub(crate) async fn turns(&self, id: ThreadId) -> anyhow::Result<usize> {
        match self {
            Self::Database { store, .. } => {
                let filter = TurnFilter { thread: Some(id), ..TurnFilter::default() };
                Ok(store.turns(filter, None, PAGE).await?.len())
            }
            Self::Api(client) => {
                let page: Page<Turn> = client.get(&format!("/v1/turns?thread_id={id}&limit={PAGE}")).await?;
                Ok(page.data.len())
            }
        }
    }

    /// Verifies a thread's hash chain.
    pub(crate) async fn verify_chain(&self, id: ThreadId) -> anyhow::Result<Chain> {
        let client = match self {
            Self::Database { store, .. } => return Ok(store.verify_chain(id).await?),
            Self::Api(client) => client,
        };
        let path = path(&["threads", &id.to_string(), "verify"])?;
        let Verification { events, chain, .. } = client.get(&path).await?;
        if !chain.intact {
            let (seq, what) = (chain.broken_at.unwrap_or_default(), chain.problem.unwrap_or_default());
            return Ok(Chain::Broken { seq, what });
        }
        let mut head = [0; 32];
        hex::decode_to_slice(chain.head.unwrap_or_default(), &mut head)
            .context("the API returned an invalid hash")?;
        Ok(Chain::Intact { events, head })
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
        let last = self.length(id).await?.saturating_sub(1);
        if last < at {
            let message = format!("the thread has no event {at}: its last event is {last}");
            return Err(CliError::with_exit(Exit::Usage, message));
        }
        Ok(())
    }

    /// Returns the strategy that a thread runs.
    pub(crate) async fn graph(&self, ctx: &Context, id: ThreadId) -> anyhow::Result<&'static dyn Graph> {
        let mut first = None;
        self.scan(id, 0, |recorded| {
            first = Some(recorded.event);
            Ok(ControlFlow::Break(()))
        })
        .await?;
        let name = match first {
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

/// Finds a thread in the database, of any tenant.
pub(crate) async fn find(store: &Store, id: &str) -> anyhow::Result<ThreadId> {
    Source::Database { store: store.clone(), tenant: None }.find(id).await
}

/// Finds a thread in the database, of the tenant that the command acts for.
pub(crate) async fn find_visible(ctx: &Context, store: &Store, id: &str) -> anyhow::Result<ThreadId> {
    Source::Database { store: store.clone(), tenant: ctx.tenant.clone() }.find(id).await
}

/// Finds a thread through the API.
pub(crate) async fn named(client: &Client, id: &str) -> anyhow::Result<String> {
    // A full id is not looked up: the request that follows fails if it does not exist.
    if let Ok(id) = id.parse::<ThreadId>() {
        return Ok(id.to_string());
    }
    Ok(Source::Api(client.clone()).find(id).await?.to_string())
}

/// Returns the strategy that a thread in the database runs.
pub(crate) async fn graph_of(
    ctx: &Context,
    store: &Store,
    id: ThreadId,
) -> anyhow::Result<&'static dyn Graph> {
    Source::Database { store: store.clone(), tenant: None }.graph(ctx, id).await
}

/// The error for `last` when there is no thread.
fn no_thread_yet() -> anyhow::Error {
    CliError::with_exit(
        Exit::NotFound,
        "there is no thread yet\nhint: turnfold turn send -g probe \"echo hello\"",
    )
}

/// Converts the summary of a thread.
fn row(thread: &ThreadSummary) -> anyhow::Result<Row> {
    let micros = |at: &str| clock::parse_rfc3339(at).context("the API returned an invalid time");
    Ok(Row {
        id: thread.id,
        strategy: thread.strategy.clone(),
        status: output::json_name(&thread.status).parse()?,
        created_at: micros(&thread.created_at)?,
        updated_at: micros(&thread.updated_at)?,
        tenant: thread.tenant.clone(),
    })
}

/// Converts an event.
///
/// # Errors
///
/// [`Exit::Unchecked`] if this build cannot read the event.
pub(crate) fn recorded(log_event: LogEvent) -> anyhow::Result<Recorded> {
    let at = clock::parse_rfc3339(&log_event.at).context("the API returned an invalid time")?;
    let event = serde_json::from_value(log_event.event).map_err(|err| {
        CliError::with_exit(Exit::Unchecked, format!("cannot read event {}: {err}", log_event.seq))
    })?;
    Ok(Recorded { seq: log_event.seq, at, event })
}
