//! `turnfold thread export` and `import`: a log as a file, byte for byte, and back.

use std::path::Path;

use queue::clock;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::{Event, Graph, RunStatus, rerun};
use store::{Chain, ImportedEvent, Store, ThreadId, integrity::hash_chain, rename_turns};
use uuid::Uuid;

use super::source::Source;
use crate::{
    commands::{Context, turn::read_stdin},
    exit::{CliError, Exit},
    output,
};

/// Number of events read at a time.
const PAGE: u64 = 500;

/// A line of an exported log: an event as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    thread: ThreadId,
    seq: u64,
    /// Microseconds since the Unix epoch.
    at: i64,
    kind: String,
    /// The stored bytes, which the hash covers.
    payload: String,
    hash: String,
}

pub(super) async fn export(source: &Source, id: ThreadId) -> anyhow::Result<Exit> {
    match source {
        Source::Database { store, .. } => export_stored(store, id).await,
        Source::Api(_) => export_from_api(source, id).await,
    }
}

async fn export_stored(store: &Store, id: ThreadId) -> anyhow::Result<Exit> {
    store.head(id).await?;
    let mut from = 0;
    loop {
        let page = store.stored(id, from, PAGE).await?;
        let Some(last) = page.last() else { return Ok(Exit::Ok) };
        from = last.seq + 1;
        for it in page {
            let hash = hex::encode(it.hash);
            let line = Line { thread: id, seq: it.seq, at: it.at, kind: it.kind, payload: it.payload, hash };
            output::print(&serde_json::to_string(&line)?)?;
        }
    }
}

/// Exports a log through the API, which returns events and not the stored bytes. The bytes are encoded again, and the hash
/// of the last event proves that they equal the stored ones.
async fn export_from_api(source: &Source, id: ThreadId) -> anyhow::Result<Exit> {
    let (mut hash, mut lines) = (hash_chain::START, Vec::new());
    source
        .scan_to(id, None, |it| {
            let (kind, payload) = (it.event.kind().to_owned(), it.event.payload()?);
            hash = hash_chain::link(&hash, it.seq, it.at, &kind, &payload);
            lines.push(Line { thread: id, seq: it.seq, at: it.at, kind, payload, hash: hex::encode(hash) });
            Ok(())
        })
        .await?;
    match source.verify_chain(id).await? {
        Chain::Intact { head, events } if head == hash && events == lines.len() as u64 => {}
        Chain::Intact { .. } | Chain::Broken { .. } => {
            let message = format!(
                "the events of thread {id} do not have the hash that the API reports\nhint: the thread may have moved, or another \
                 version wrote it; try again, or export it from the database"
            );
            return Err(CliError::with_exit(Exit::Finding, message));
        }
    }
    for line in &lines {
        output::print(&serde_json::to_string(line)?)?;
    }
    Ok(Exit::Ok)
}

/// Options of an import.
pub(super) struct ImportOptions {
    /// Give the thread and its turns new ids.
    pub(super) as_new: bool,
    /// Accept a log that ends within a turn, which workers then continue.
    pub(super) go_on: bool,
}

pub(super) async fn import(
    ctx: &Context,
    store: &Store,
    file: &Path,
    options: ImportOptions,
) -> anyhow::Result<Exit> {
    let text = read(file)?;
    let usage = |why: String| CliError::with_exit(Exit::Usage, format!("{}: {why}", file.display()));
    let exported = text.lines().next().is_some_and(|it| it.contains("\"payload\""));
    let (mut id, mut log) = if exported {
        chained(&text).map_err(usage)?
    } else {
        (Uuid::now_v7(), replayed(ctx, &text).map_err(usage)?)
    };
    let mut events = decoded(&log).map_err(usage)?;
    if options.as_new && exported {
        id = Uuid::now_v7();
        rename_turns(&mut events);
        log = foreign(&events, |nth| log[nth].at)?;
    }
    if let (Some(tenant), Some(Event::Opened(it))) = (&ctx.tenant, events.first())
        && it.tenant != *tenant
    {
        return Err(usage(format!(
            "the thread belongs to tenant {0}\nhint: use --tenant {0}, or leave out --tenant",
            it.tenant
        )));
    }
    let thread = graph(ctx, &events).map_err(usage)?.fold(&events)?;
    if thread.status() == RunStatus::Busy && !options.go_on {
        return Err(usage(
            "the log ends within a turn\nhint: --go-on imports it, and workers continue the turn".to_owned(),
        ));
    }
    let head = match store.import_thread(&ctx.strategies, id, log).await {
        Err(store::Error::ThreadExists(id)) => {
            return Err(usage(format!("thread {id} already exists\nhint: --new imports it as a new thread")));
        }
        imported => imported?,
    };
    let thing = json!({"id": id, "events": head.seq, "head": hex::encode(head.hash)});
    output::one(ctx.format, &thing, || format!("thread {id}: {} events", head.seq))?;
    Ok(Exit::Ok)
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() == "-" {
        return read_stdin();
    }
    std::fs::read_to_string(file)
        .map_err(|err| CliError::with_exit(Exit::Usage, format!("cannot read {}: {err}", file.display())))
}

/// Reads an exported log and checks every hash.
fn chained(text: &str) -> Result<(ThreadId, Vec<ImportedEvent>), String> {
    let (mut id, mut before, mut log) = (None, hash_chain::START, Vec::new());
    for (nth, line) in (0_u64..).zip(text.lines()) {
        let Line { thread, seq, at, kind, payload, hash } =
            serde_json::from_str(line).map_err(|err| format!("line {}: {err}", nth + 1))?;
        if *id.get_or_insert(thread) != thread {
            return Err(format!("line {}: belongs to another thread than the lines before", nth + 1));
        }
        before = hash_chain::link(&before, seq, at, &kind, &payload);
        if seq != nth || hex::encode(before) != hash {
            return Err(format!("line {}: the hash chain breaks here; the file was changed", nth + 1));
        }
        log.push(ImportedEvent { at, kind, payload });
    }
    id.map(|id| (id, log)).ok_or_else(|| "the file is empty".to_owned())
}

/// Reads a fixture: takes its recorded answers, and lets today's code decide the rest.
fn replayed(ctx: &Context, text: &str) -> Result<Vec<ImportedEvent>, String> {
    let event =
        |(nth, line)| serde_json::from_str::<Event>(line).map_err(|err| format!("line {}: {err}", nth + 1));
    let script = text.lines().enumerate().map(event).collect::<Result<Vec<_>, _>>()?;
    let replayed = rerun(graph(ctx, &script)?, &script).map_err(|err| err.to_string())?;
    if let Some(left) = replayed.unused.first() {
        return Err(format!("today's code does not use this recorded answer: {left}"));
    }
    let mut log = replayed.log;
    rename_turns(&mut log);
    let now = clock::now();
    foreign(&log, |_| now).map_err(|err| err.to_string())
}

fn foreign(log: &[Event], at: impl Fn(usize) -> i64) -> Result<Vec<ImportedEvent>, serde_json::Error> {
    let one = |(nth, event): (usize, &Event)| {
        Ok(ImportedEvent { at: at(nth), kind: event.kind().to_owned(), payload: event.payload()? })
    };
    log.iter().enumerate().map(one).collect()
}

fn decoded(log: &[ImportedEvent]) -> Result<Vec<Event>, String> {
    let event = |(nth, it): (usize, &ImportedEvent)| {
        Event::decode(&it.kind, &it.payload).map_err(|err| format!("line {}: {err}", nth + 1))
    };
    log.iter().enumerate().map(event).collect()
}

fn graph(ctx: &Context, log: &[Event]) -> Result<&'static dyn Graph, String> {
    let Some(Event::Opened(opened)) = log.first() else {
        return Err("it does not begin with `opened`, so it is not the log of a thread".to_owned());
    };
    ctx.strategies.find(&opened.strategy).ok_or_else(|| {
        let known = ctx.strategies.names().join(", ");
        format!("this binary has no strategy {:?}; it has: {known}", opened.strategy)
    })
}
