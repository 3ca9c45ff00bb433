//! `turnfold thread export` and `import`: a log as a file, byte for byte, and back; a fixture is a log too.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::{Event, Graph, Standing, reenact};
use store::{Foreign, Store, ThreadId, log::chain, rename_turns, time};
use uuid::Uuid;

use crate::{
    commands::{Given, turn::stdin},
    exit::{Exit, Stop},
    output,
};

/// How many events are read at a time.
const PAGE: u64 = 500;

/// An event as it stands in the store: a line of an exported log.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    thread: ThreadId,
    seq: u64,
    /// Microseconds since the Unix epoch.
    at: i64,
    kind: String,
    /// As it is stored, to the byte: the hash is taken over it.
    payload: String,
    hash: String,
}

pub(super) async fn export(store: &Store, id: ThreadId) -> anyhow::Result<Exit> {
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

/// How a log is taken in.
pub(super) struct How {
    /// As a thread of its own, beside the one that it was.
    pub(super) anew: bool,
    /// Even if a turn of it is under way, which is then gone on with here.
    pub(super) go_on: bool,
}

pub(super) async fn import(given: &Given, store: &Store, file: &Path, how: How) -> anyhow::Result<Exit> {
    let text = read(file)?;
    let usage = |words: String| Stop::because(Exit::Usage, format!("{}: {words}", file.display()));
    let exported = text.lines().next().is_some_and(|it| it.contains("\"payload\""));
    let (mut id, mut log) = if exported {
        chained(&text).map_err(usage)?
    } else {
        (Uuid::now_v7(), lived(given, &text).map_err(usage)?)
    };
    let mut events = decoded(&log).map_err(usage)?;
    if how.anew && exported {
        id = Uuid::now_v7();
        rename_turns(&mut events);
        log = foreign(&events, |nth| log[nth].at)?;
    }
    if let (Some(tenant), Some(Event::Opened(it))) = (&given.tenant, events.first())
        && it.tenant != *tenant
    {
        return Err(usage(format!(
            "it is a thread of the tenant {}: name that one, or leave --tenant out",
            it.tenant
        )));
    }
    let thread = graph(given, &events).map_err(usage)?.replay(&events)?;
    if thread.standing() == Standing::Busy && !how.go_on {
        return Err(usage(
            "it ends in the middle of a turn, which workers would go on with: say --go-on if that is meant"
                .to_owned(),
        ));
    }
    let head = match store.adopt(&given.strategies, id, log).await {
        Err(store::Error::ThreadExists(id)) => {
            return Err(usage(format!("thread {id} is here already: --new makes another of it")));
        }
        adopted => adopted?,
    };
    let thing = json!({"id": id, "events": head.seq, "head": hex::encode(head.hash)});
    output::one(given.format, &thing, || format!("thread {id}: {} events", head.seq))?;
    Ok(Exit::Ok)
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() == "-" {
        return stdin();
    }
    std::fs::read_to_string(file)
        .map_err(|err| Stop::because(Exit::Usage, format!("cannot read {}: {err}", file.display())))
}

/// An exported log, every hash of which holds.
fn chained(text: &str) -> Result<(ThreadId, Vec<Foreign>), String> {
    let (mut id, mut before, mut log) = (None, chain::START, Vec::new());
    for (nth, line) in (0_u64..).zip(text.lines()) {
        let Line { thread, seq, at, kind, payload, hash } =
            serde_json::from_str(line).map_err(|err| format!("line {}: {err}", nth + 1))?;
        if *id.get_or_insert(thread) != thread {
            return Err(format!("line {}: it is of another thread than those before", nth + 1));
        }
        before = chain::link(&before, seq, at, &kind, &payload);
        if seq != nth || hex::encode(before) != hash {
            return Err(format!("line {}: the hash chain breaks here: the file was changed", nth + 1));
        }
        log.push(Foreign { at, kind, payload });
    }
    id.map(|id| (id, log)).ok_or_else(|| "it is empty".to_owned())
}

/// A fixture: only what came from outside is read of it, and today's code decides the rest.
fn lived(given: &Given, text: &str) -> Result<Vec<Foreign>, String> {
    let event =
        |(nth, line)| serde_json::from_str::<Event>(line).map_err(|err| format!("line {}: {err}", nth + 1));
    let script = text.lines().enumerate().map(event).collect::<Result<Vec<_>, _>>()?;
    let lived = reenact(graph(given, &script)?, &script).map_err(|err| err.to_string())?;
    if let Some(left) = lived.left_over.first() {
        return Err(format!("today's code does not ask for all that it answers: {left}"));
    }
    let mut log = lived.log;
    rename_turns(&mut log);
    let now = time::now();
    foreign(&log, |_| now).map_err(|err| err.to_string())
}

fn foreign(log: &[Event], at: impl Fn(usize) -> i64) -> Result<Vec<Foreign>, serde_json::Error> {
    let one = |(nth, event): (usize, &Event)| {
        Ok(Foreign { at: at(nth), kind: event.kind().to_owned(), payload: event.payload()? })
    };
    log.iter().enumerate().map(one).collect()
}

fn decoded(log: &[Foreign]) -> Result<Vec<Event>, String> {
    let event = |(nth, it): (usize, &Foreign)| {
        Event::decode(&it.kind, &it.payload).map_err(|err| format!("line {}: {err}", nth + 1))
    };
    log.iter().enumerate().map(event).collect()
}

fn graph(given: &Given, log: &[Event]) -> Result<&'static dyn Graph, String> {
    let Some(Event::Opened(opened)) = log.first() else {
        return Err("it does not begin with `opened`: it is no log of a thread".to_owned());
    };
    given.strategies.find(&opened.strategy).ok_or_else(|| {
        let known = given.strategies.names().join(", ");
        format!("no strategy is called {:?} in this binary; it has: {known}", opened.strategy)
    })
}
