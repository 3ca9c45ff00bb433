//! `turnfold thread`: reads threads straight from the store. `hold` and `release` write there, beside the log; what writes to
//! a log, `reconcile`, goes through the api.

use serde_json::{Value, json};
use shared::{Event, Graph, Replay, Standing};
use store::{Chain, Recorded, Store, ThreadFilter, ThreadId, ThreadStatus, TurnFilter, time};

use super::{Given, holds};
use crate::{
    args::Thread,
    client::Client,
    engine,
    exit::{Exit, Stop},
    output::{self, Format},
};

/// How many events are read at a time.
const PAGE: u64 = 1_000;

pub(crate) async fn run(given: Given, command: Thread) -> anyhow::Result<Exit> {
    if let Thread::Reconcile { .. } = command {
        return reconcile(&given, command).await;
    }
    let store = engine::store(&given.settings).await?;
    engine::check_migrated(&store).await?;
    match command {
        Thread::Ls { held: true, .. } => holds::list(&given, &store).await,
        Thread::Ls { status, limit, held: false } => ls(&given, &store, status, limit).await,
        Thread::Get { id } => get(&given, &store, find(&store, &id).await?).await,
        Thread::Events { id, from, limit } => {
            events(&given, &store, find(&store, &id).await?, from, limit).await
        }
        Thread::State { id, at } => state(&given, &store, find(&store, &id).await?, at).await,
        Thread::Replay { id } => replay(&given, &store, find(&store, &id).await?).await,
        Thread::Verify { id } => verify(&given, &store, find(&store, &id).await?).await,
        Thread::Hold { id, reason } => holds::place(&given, &store, find(&store, &id).await?, &reason).await,
        Thread::Release { id } => holds::release(&given, &store, find(&store, &id).await?).await,
        Thread::Reconcile { .. } => Ok(Exit::Usage),
    }
}

pub(super) async fn find(store: &Store, id: &str) -> anyhow::Result<ThreadId> {
    if id == "last" {
        let newest = store.threads(ThreadFilter::default(), None, 1).await?;
        return newest
            .first()
            .map(|it| it.id)
            .ok_or_else(|| Stop::because(Exit::Usage, "there is no thread yet"));
    }
    id.parse().map_err(|_| Stop::because(Exit::Usage, format!("{id:?} is no thread: give its id, or `last`")))
}

async fn ls(given: &Given, store: &Store, status: Option<String>, limit: u64) -> anyhow::Result<Exit> {
    let status = status.map(|it| it.parse::<ThreadStatus>()).transpose();
    let status = status.map_err(|err| Stop::because(Exit::Usage, err.to_string()))?;
    let threads = store.threads(ThreadFilter { status, tenant: None }, None, limit).await?;
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
        let cell = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
        let row = |it: &Value| ["id", "strategy", "status", "created_at"].map(|name| cell(it, name)).to_vec();
        output::table(&["thread", "strategy", "status", "created"], things.iter().map(row))
    })?;
    Ok(Exit::Ok)
}

async fn get(given: &Given, store: &Store, id: ThreadId) -> anyhow::Result<Exit> {
    let (graph, log) = load(given, store, id).await?;
    let thread = graph.replay(log.iter().map(|it| &it.event))?;
    let turns = store.turns(TurnFilter { thread: Some(id), ..TurnFilter::default() }, None, PAGE).await?;
    let (stands, exit) = match thread.standing() {
        Standing::Idle => ("is idle".to_owned(), Exit::Ok),
        Standing::Busy => (format!("is busy at {}", thread.node().unwrap_or_default()), Exit::Ok),
        Standing::Waiting(it) => (format!("asks for {}: {}", it.kind.name(), it.question), Exit::Waiting),
        Standing::Failed { node, reason } => (format!("failed at {node}: {reason}"), Exit::Finding),
    };
    let reply = thread.reply().unwrap_or("nothing yet");
    let took = thread.took();
    let thing = json!({
        "id": id, "strategy": graph.name(), "stands": stands, "events": log.len(), "turns": turns.len(), "reply": reply,
        "took": {
            "input_tokens": took.input_tokens, "output_tokens": took.output_tokens, "usd": took.usd(), "ms": took.ms,
            "untold": took.untold, "unpriced": took.unpriced,
        },
    });
    output::one(given.format, &thing, || {
        format!(
            "thread {id} ({}) {stands}\nturns: {}, events: {}\ntook: {}\nlast words: {reply}",
            graph.name(),
            turns.len(),
            log.len(),
            output::took(&thing["took"])
        )
    })?;
    Ok(exit)
}

async fn events(
    given: &Given,
    store: &Store,
    id: ThreadId,
    from: u64,
    limit: Option<u64>,
) -> anyhow::Result<Exit> {
    store.head(id).await?;
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
    let (graph, mut log) = load(given, store, id).await?;
    if let Some(at) = at {
        let last = log.len() - 1;
        if usize::try_from(at).is_ok_and(|at| last < at) {
            return Err(Stop::because(
                Exit::Usage,
                format!("the thread has no event {at}: its last is {last}"),
            ));
        }
        log.retain(|it| it.seq <= at);
    }
    let thread = graph.replay(log.iter().map(|it| &it.event))?;
    let thing = json!({
        "seq": log.last().map(|it| it.seq), "state": thread.state()?, "messages": thread.messages(),
    });
    output::one(given.format, &thing, || {
        let said = |it: &shared::Message| format!("{}: {}\n", it.role.name(), it.content);
        let said: String = thread.messages().iter().map(said).collect();
        format!("after event {}\n\n{said}\nstate {:#}", thing["seq"], thing["state"])
    })?;
    Ok(Exit::Ok)
}

async fn replay(given: &Given, store: &Store, id: ThreadId) -> anyhow::Result<Exit> {
    let (graph, log) = load(given, store, id).await?;
    let thread = graph.replay(log.iter().map(|it| &it.event))?;
    let stored = store.thread(id).await?.map(|it| it.status);
    let folded = folded(&*thread);
    let same = stored == Some(folded);
    let stored = stored.map(|it| it.to_string());
    let thing = json!({
        "events": log.len(), "state": thread.state()?, "folded": folded.to_string(), "stored": stored, "same": same,
    });
    output::one(given.format, &thing, || {
        let told = if same { "as the store says" } else { "but the store says otherwise" };
        format!(
            "{} events folded, nobody asked: the thread is {folded}, {told}\nlast words: {}",
            log.len(),
            thread.reply().unwrap_or("none")
        )
    })?;
    Ok(if same { Exit::Ok } else { Exit::Finding })
}

async fn verify(given: &Given, store: &Store, id: ThreadId) -> anyhow::Result<Exit> {
    let chain = store.verify_chain(id).await?;
    if let Chain::Broken { seq, what } = &chain {
        let thing = json!({"chain": "broken", "seq": seq, "what": what});
        output::one(given.format, &thing, || {
            format!("TAMPERED: the hash chain breaks at event {seq}: {what}")
        })?;
        return Ok(Exit::Finding);
    }
    let (graph, log) = load(given, store, id).await?;
    let log: Vec<Event> = log.into_iter().map(|it| it.event).collect();
    let divergences = shared::verify(graph, &log)?;
    let thing = json!({"chain": "intact", "events": log.len(), "divergences": divergences});
    output::one(given.format, &thing, || {
        let head = format!("the hash chain over {} events holds", log.len());
        if divergences.is_empty() {
            return format!("{head}\ntoday's code decides every step as the log says");
        }
        let told = |it: &shared::Divergence| {
            format!("\nevent {}\n  then:  {}\n  today: {}", it.seq, it.then, it.today)
        };
        format!(
            "{head}\nDIVERGED at {} events{}",
            divergences.len(),
            divergences.iter().map(told).collect::<String>()
        )
    })?;
    Ok(if divergences.is_empty() { Exit::Ok } else { Exit::Finding })
}

async fn reconcile(given: &Given, command: Thread) -> anyhow::Result<Exit> {
    let Thread::Reconcile { id, slot, happened, did_not, skip } = command else {
        return Ok(Exit::Usage);
    };
    let verdict = match (happened, did_not, skip) {
        (Some(result), ..) => json!({"happened": {"result": result}}),
        (None, true, _) => json!("did_not"),
        (None, _, true) => json!("skip"),
        (None, false, false) => {
            return Err(Stop::because(
                Exit::Usage,
                "say what became of it: --happened RESULT, --did-not or --skip",
            ));
        }
    };
    let client = Client::new(&given.settings, given.url.as_deref(), given.tenant.as_deref())?;
    let body = json!({"slot": slot, "verdict": verdict});
    let thread = client.post(&format!("/v1/threads/{id}/reconcile"), &body).await?;
    output::one(given.format, &thread, || format!("noted; thread {id} goes on"))?;
    Ok(Exit::Ok)
}

/// A thread's log and the strategy that wrote it.
pub(crate) async fn load(
    given: &Given,
    store: &Store,
    id: ThreadId,
) -> anyhow::Result<(&'static dyn Graph, Vec<Recorded>)> {
    let (_, log) = store.load(id).await?;
    let name = match log.first().map(|it| &it.event) {
        Some(Event::Opened(it)) => it.strategy.clone(),
        Some(_) | None => {
            return Err(Stop::because(Exit::Finding, format!("the log of thread {id} has no beginning")));
        }
    };
    let graph = given.strategies.find(&name).ok_or_else(|| {
        let known = given.strategies.names().join(", ");
        Stop::because(
            Exit::Unchecked,
            format!("no strategy is called {name:?} in this binary; it has: {known}"),
        )
    })?;
    Ok((graph, log))
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
