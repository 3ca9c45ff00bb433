//! `turnfold thread`: reads threads straight from the store. `hold` and `release` write there, beside the log; what goes on with
//! one, `reconcile`, `fork` and `events --follow`, goes through the api.

mod bisect;
mod cost;
mod diff;
mod fork;
mod kept;
mod reconcile;
mod verify;
mod why;

use std::collections::HashSet;

use serde_json::{Value, json};
use shared::{Event, Graph, Replay, Standing};
use store::{
    Conditions, Recorded, Store, Thread as Row, ThreadFilter, ThreadId, ThreadStatus, TurnFilter, time,
};

use super::{Given, follow, holds, upkeep};
use crate::{
    args::Thread,
    client::{Client, name},
    exit::{Exit, Stop},
    output::{self, Format},
};

/// How many events are read at a time.
const PAGE: u64 = 1_000;

pub(crate) async fn run(given: Given, command: Thread) -> anyhow::Result<Exit> {
    let given = &given;
    // The store, and the thread of it that is meant.
    let of = async |id: &str| {
        let store = given.store().await?;
        let id = seen(given, &store, id).await?;
        anyhow::Ok((store, id))
    };
    match command {
        Thread::Ls { held: true, .. } => holds::list(given, &given.store().await?).await,
        Thread::Ls { status, conditions, limit, held: false } => {
            ls(given, &given.store().await?, status, conditions.as_deref(), limit).await
        }
        Thread::Get { id } => {
            let (store, id) = of(&id).await?;
            get(given, &store, id).await
        }
        Thread::Events { id, from, limit: _, follow: true } => {
            let client = given.client()?;
            let id = named(&client, &id).await?;
            Ok(fork::ended(&follow::thread(given, &client, &id, from).await?))
        }
        Thread::Events { id, from, limit, follow: false } => {
            let (store, id) = of(&id).await?;
            events(given, &store, id, from, limit).await
        }
        Thread::State { id, at } => {
            let (store, id) = of(&id).await?;
            state(given, &store, id, at).await
        }
        Thread::Replay { id } => {
            let (store, id) = of(&id).await?;
            replay(given, &store, id).await
        }
        Thread::Verify { id, prompts } => {
            let (store, id) = of(&id).await?;
            verify::verify(given, &store, id, prompts).await
        }
        Thread::Hold { id, reason } => {
            let (store, id) = of(&id).await?;
            holds::place(given, &store, id, &reason).await
        }
        Thread::Release { id } => {
            let (store, id) = of(&id).await?;
            holds::release(given, &store, id).await
        }
        Thread::Why { id, at } => {
            let (store, id) = of(&id).await?;
            why::why(given, &store, id, at).await
        }
        Thread::Diff { left, right, view } => {
            let (store, left) = of(&left).await?;
            let both = (left, seen(given, &store, &right).await?);
            diff::diff(given, &store, both, view.shown()).await
        }
        Thread::Bisect { id, conditions, diverges: _, builds } => {
            let (store, id) = of(&id).await?;
            match builds.is_empty() {
                true => bisect::event(given, &store, id, conditions.as_deref()).await,
                false => bisect::builds(given, id, &builds).await,
            }
        }
        Thread::Cost { by, round } => cost::cost(given, &given.store().await?, by, round).await,
        Thread::Export { id } => {
            let (store, id) = of(&id).await?;
            kept::export(&store, id).await
        }
        Thread::Import { file, anew, go_on } => {
            kept::import(given, &given.store().await?, &file, kept::How { anew, go_on }).await
        }
        Thread::Fork(it) => fork::fork(given, it).await,
        Thread::Reconcile(it) => reconcile::reconcile(given, it).await,
    }
}

/// The thread that is meant, of whomever it is.
pub(super) async fn find(store: &Store, id: &str) -> anyhow::Result<ThreadId> {
    of_tenant(store, None, id).await
}

/// The thread that is meant, if whoever asks sees it: another tenant's is not there.
pub(super) async fn seen(given: &Given, store: &Store, id: &str) -> anyhow::Result<ThreadId> {
    of_tenant(store, given.tenant.as_deref(), id).await
}

async fn of_tenant(store: &Store, tenant: Option<&str>, id: &str) -> anyhow::Result<ThreadId> {
    if id == "last" {
        let newest = store.threads(ThreadFilter { tenant, status: None }, None, 1).await?;
        return newest.first().map(|it| it.id).ok_or_else(none_yet);
    }
    let id = parsed(id)?;
    if let Some(tenant) = tenant {
        let thread = store.thread(id).await?.filter(|it| it.tenant == tenant);
        thread.ok_or(store::Error::UnknownThread(id))?;
    }
    Ok(id)
}

/// The id of the thread that is meant, as the api knows it.
pub(super) async fn named(client: &Client, id: &str) -> anyhow::Result<String> {
    if id != "last" {
        return Ok(parsed(id)?.to_string());
    }
    let newest = client.get("/v1/threads?limit=1").await?;
    newest["data"][0]["id"].as_str().map(str::to_owned).ok_or_else(none_yet)
}

fn parsed(id: &str) -> anyhow::Result<ThreadId> {
    let words = || format!("{id:?} is no thread: give its id, or `last`; `turnfold thread ls` lists them");
    id.parse().map_err(|_| Stop::because(Exit::Usage, words()))
}

fn none_yet() -> anyhow::Error {
    Stop::because(Exit::Usage, "there is no thread yet")
}

async fn ls(
    given: &Given,
    store: &Store,
    status: Option<String>,
    conditions: Option<&str>,
    limit: u64,
) -> anyhow::Result<Exit> {
    let status = status.map(|it| it.parse::<ThreadStatus>()).transpose();
    let status = status.map_err(|err| Stop::because(Exit::Usage, err.to_string()))?;
    let filter = ThreadFilter { status, tenant: given.tenant.as_deref() };
    // One more than is told, to know whether there are more.
    let most = limit.saturating_add(1);
    let mut threads = match conditions {
        Some(conditions) => {
            let conditions = upkeep::conditions(given, store, conditions).await?;
            with_turns(store, filter, &conditions, most).await?
        }
        None => store.threads(filter, None, most).await?,
    };
    let told = usize::try_from(limit)?;
    let more = told < threads.len();
    threads.truncate(told);
    let things: Vec<Value> = threads
        .iter()
        .map(|it| {
            json!({
                "id": it.id, "strategy": it.strategy, "status": it.status.to_string(),
                "created_at": time::rfc3339(it.created_at), "updated_at": time::rfc3339(it.updated_at),
            })
        })
        .collect();
    output::many(given.format, &things, || {
        let row = |it: &Value| {
            ["id", "strategy", "status", "created_at"].map(|column| name(it, column).to_owned()).to_vec()
        };
        output::table(&["thread", "strategy", "status", "created"], things.iter().map(row))
    })?;
    if more {
        output::remark("(there are more: --limit)");
    }
    Ok(Exit::Ok)
}

/// Threads with a turn that fulfils these, at most so many; the one with the newest such turn first.
async fn with_turns(
    store: &Store,
    filter: ThreadFilter<'_>,
    conditions: &Conditions,
    most: u64,
) -> anyhow::Result<Vec<Row>> {
    let (mut seen, mut threads, mut after) = (HashSet::new(), Vec::new(), None);
    loop {
        let turns = TurnFilter { conditions: Some(conditions), ..TurnFilter::default() };
        let page = store.turns(turns, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(threads) };
        after = Some(last.id);
        for turn in page {
            if !seen.insert(turn.thread) {
                continue;
            }
            let fits = |it: &Row| {
                filter.status.is_none_or(|status| it.status == status)
                    && filter.tenant.is_none_or(|tenant| it.tenant == tenant)
            };
            threads.extend(store.thread(turn.thread).await?.filter(fits));
            if most <= threads.len() as u64 {
                return Ok(threads);
            }
        }
    }
}

async fn get(given: &Given, store: &Store, id: ThreadId) -> anyhow::Result<Exit> {
    let thread = fold(given, store, id, None).await?;
    let turns = store.turns(TurnFilter { thread: Some(id), ..TurnFilter::default() }, None, PAGE).await?;
    let stands = match thread.standing() {
        Standing::Idle => "is idle".to_owned(),
        Standing::Busy => format!("is busy at {}", thread.node().unwrap_or_default()),
        Standing::Waiting(it) => format!("asks for {}: {}", it.kind.name(), it.question),
        Standing::Failed { node, reason } => format!("failed at {node}: {reason}"),
    };
    let reply = thread.reply().unwrap_or("nothing yet");
    let took = thread.took();
    let thing = json!({
        "id": id, "strategy": thread.strategy(), "stands": stands, "events": thread.seq(), "turns": turns.len(), "reply": reply,
        "took": {
            "input_tokens": took.input_tokens, "output_tokens": took.output_tokens, "usd": took.usd(), "ms": took.ms,
            "untold": took.untold, "unpriced": took.unpriced,
        },
    });
    output::one(given.format, &thing, || {
        format!(
            "thread {id} ({}) {stands}\nturns: {}, events: {}\ntook: {}\nlast words: {reply}",
            thread.strategy(),
            turns.len(),
            thread.seq(),
            output::took(&thing["took"])
        )
    })?;
    Ok(Exit::Ok)
}

async fn events(
    given: &Given,
    store: &Store,
    id: ThreadId,
    from: u64,
    limit: Option<u64>,
) -> anyhow::Result<Exit> {
    check_at(store, id, Some(from)).await?;
    let mut after = from.checked_sub(1);
    let mut left = limit.unwrap_or(u64::MAX);
    let mut all = Vec::new();
    loop {
        let page = store.events(id, after, left.min(PAGE)).await?;
        let Some(last) = page.last() else { break };
        (after, left) = (Some(last.seq), left - page.len() as u64);
        for it in &page {
            match given.format {
                Format::Text => output::print(&format!("{:>4} {}", it.seq, it.event))?,
                Format::Jsonl => output::print(&thing(it).to_string())?,
                Format::Json => all.push(thing(it)),
            }
        }
        if left == 0 {
            break;
        }
    }
    if given.format == Format::Json {
        output::print(&serde_json::to_string_pretty(&all)?)?;
    }
    Ok(Exit::Ok)
}

fn thing(it: &Recorded) -> Value {
    json!({
        "seq": it.seq, "at": time::rfc3339(it.at), "kind": it.event.kind(), "text": it.event.to_string(), "event": it.event,
    })
}

async fn state(given: &Given, store: &Store, id: ThreadId, at: Option<u64>) -> anyhow::Result<Exit> {
    let thread = fold(given, store, id, at).await?;
    let thing = json!({
        "seq": thread.seq() - 1, "state": thread.state()?, "messages": thread.messages(),
    });
    output::one(given.format, &thing, || {
        let said = |it: &shared::Message| format!("{}: {}\n", it.role.name(), it.content);
        let said: String = thread.messages().iter().map(said).collect();
        format!("after event {}\n\n{said}\nstate {:#}", thing["seq"], thing["state"])
    })?;
    Ok(Exit::Ok)
}

async fn replay(given: &Given, store: &Store, id: ThreadId) -> anyhow::Result<Exit> {
    let thread = fold(given, store, id, None).await?;
    let stored = store.thread(id).await?.map(|it| it.status);
    let folded = folded(&*thread);
    let same = stored == Some(folded);
    let stored = stored.map(|it| it.to_string());
    let thing = json!({
        "events": thread.seq(), "state": thread.state()?, "folded": folded.to_string(), "stored": stored, "same": same,
    });
    output::one(given.format, &thing, || {
        let told = if same { "as the store says" } else { "but the store says otherwise" };
        format!(
            "{} events folded, nobody asked: the thread is {folded}, {told}\nlast words: {}",
            thread.seq(),
            thread.reply().unwrap_or("none")
        )
    })?;
    Ok(if same { Exit::Ok } else { Exit::Finding })
}

/// The thread after event `at`, or after its last: its log is folded, and nobody is asked anything.
pub(super) async fn fold(
    given: &Given,
    store: &Store,
    id: ThreadId,
    at: Option<u64>,
) -> anyhow::Result<Box<dyn Replay>> {
    let mut thread = graph_of(given, store, id).await?.begin();
    check_at(store, id, at).await?;
    store.along(id, 0, at, |it| anyhow::Ok(thread.apply(&it.event)?)).await?;
    Ok(thread)
}

/// Whether the thread has this event.
pub(super) async fn check_at(store: &Store, id: ThreadId, at: Option<u64>) -> anyhow::Result<()> {
    let last = store.head(id).await?.seq - 1;
    match at {
        Some(at) if last < at => {
            let words = format!("the thread has no event {at}: its last is {last}");
            Err(Stop::because(Exit::Usage, words))
        }
        Some(_) | None => Ok(()),
    }
}

/// The strategy that wrote a thread's log.
pub(crate) async fn graph_of(
    given: &Given,
    store: &Store,
    id: ThreadId,
) -> anyhow::Result<&'static dyn Graph> {
    let first = store.events(id, None, 1).await?;
    let name = match first.first().map(|it| &it.event) {
        Some(Event::Opened(it)) => it.strategy.clone(),
        Some(_) => {
            return Err(Stop::because(Exit::Finding, format!("the log of thread {id} has no beginning")));
        }
        None => return Err(store::Error::UnknownThread(id).into()),
    };
    given.strategies.find(&name).ok_or_else(|| {
        let known = given.strategies.names().join(", ");
        Stop::because(
            Exit::Unchecked,
            format!("no strategy is called {name:?} in this binary; it has: {known}"),
        )
    })
}

/// What the read model must say of a thread that stands so.
pub(crate) fn folded(thread: &dyn Replay) -> ThreadStatus {
    match thread.standing() {
        Standing::Idle => ThreadStatus::Idle,
        Standing::Busy => ThreadStatus::Busy,
        Standing::Waiting(_) => ThreadStatus::Interrupted,
        Standing::Failed { .. } => ThreadStatus::Error,
    }
}
