//! `turnfold thread export` and `import`: a log as a file, byte for byte, and back, with the images and files of its messages.

use std::{collections::BTreeSet, io, path::Path};

use anyhow::Context as _;
use audit::{AttachmentLine, EventLine};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::TryStreamExt as _;
use queue::clock;
use reqwest::Method;
use serde_json::json;
use shared::{Event, Graph, RunStatus, check_json, rerun};
use store::{AttachmentContent, Store, ThreadId, integrity::hash_chain};
use threads::{ImportedEvent, rename_turns};
use tokio::io::AsyncBufReadExt as _;
use tokio_util::io::StreamReader;

use crate::{
    client::{Client, path},
    commands::{Context, turn::read_stdin},
    exit::{CliError, Exit},
    output,
};

/// Returns the hashes of the attachments of an event.
fn hashes(event: &Event) -> impl Iterator<Item = String> {
    event.attachments().map(|attachments| attachments.sha256.clone())
}

/// Exports a log, line by line. An error at the end names the line at which the hash chain breaks.
pub(super) async fn export(client: &Client, id: ThreadId) -> anyhow::Result<Exit> {
    let request = client.request(Method::GET, &path(&["threads", &id.to_string(), "export"])?);
    let bytes = client.send(request).await?.bytes_stream().map_err(io::Error::other);
    let (mut lines, mut chain, mut broken) = (StreamReader::new(bytes).lines(), Chain::default(), None);
    while let Some(line) = lines.next_line().await.context("the response broke off")? {
        if broken.is_none() && !is_attachment(&line) {
            broken = chain.add(&line).err();
        }
        output::print(&line)?;
    }
    match broken {
        Some(why) => Err(CliError::with_exit(Exit::Finding, format!("the exported log: {why}"))),
        None => Ok(Exit::Ok),
    }
}

/// Prints a thread as one HTML page.
pub(super) async fn page(client: &Client, id: ThreadId, is_redacted: bool) -> anyhow::Result<Exit> {
    let path = path(&["threads", &id.to_string(), "page"])?;
    let request = client.request(Method::GET, &format!("{path}?contents={}", !is_redacted));
    output::print(&client.send(request).await?.text().await.context("the response broke off")?)?;
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
    let exported = text.lines().next().is_some_and(|line| line.contains("\"payload\""));
    let (lines, contents) = split(&text);
    let (mut id, mut log) = if exported {
        chained(&lines).map_err(usage)?
    } else {
        (clock::new_id(), replayed(ctx, &text).map_err(usage)?)
    };
    let mut events = decoded(&log).map_err(usage)?;
    let attachments = attachments(&contents, &events, exported).map_err(usage)?;
    if options.as_new && exported {
        id = clock::new_id();
        rename_turns(&mut events);
        log = foreign(&events, |nth| log[nth].at)?;
    }
    if let (Some(tenant), Some(Event::Opened(opened))) = (&ctx.tenant, events.first())
        && opened.tenant != *tenant
    {
        return Err(usage(format!(
            "the thread belongs to tenant {0}\nhint: use --tenant {0}, or leave out --tenant",
            opened.tenant
        )));
    }
    let thread = graph(ctx, &events).map_err(usage)?.fold(&events)?;
    if thread.status() == RunStatus::Busy && !options.go_on {
        return Err(usage(
            "the log ends within a turn\nhint: --go-on imports it, and workers continue the turn".to_owned(),
        ));
    }
    let head = match threads::import_thread(store, &ctx.strategies, id, log, attachments).await {
        Err(store::Error::ThreadExists(id)) => {
            return Err(usage(format!("thread {id} already exists\nhint: --new imports it as a new thread")));
        }
        imported => imported?,
    };
    let thing = json!({"id": id, "events": head.seq, "head": hex::encode(head.hash)});
    output::one(ctx.format, &thing, || format!("thread {id}: {} events", head.seq))?;
    Ok(Exit::Ok)
}

/// Reads the lines of a file or of a folder that `audit export` wrote, in the form of an exported log.
fn read(file: &Path) -> anyhow::Result<String> {
    if file.is_dir() {
        return read_bundle(file);
    }
    if file.as_os_str() == "-" {
        return read_stdin();
    }
    std::fs::read_to_string(file)
        .map_err(|err| CliError::with_exit(Exit::Usage, format!("cannot read {}: {err}", file.display())))
}

fn read_bundle(folder: &Path) -> anyhow::Result<String> {
    let failed = |file: &Path, err: &std::io::Error| {
        CliError::with_exit(Exit::Usage, format!("cannot read {}: {err}", file.display()))
    };
    let events = folder.join("events.jsonl");
    let mut text = std::fs::read_to_string(&events).map_err(|err| failed(&events, &err))?;
    let contents = folder.join("attachments");
    if !contents.exists() {
        return Ok(text);
    }
    for entry in std::fs::read_dir(&contents).map_err(|err| failed(&contents, &err))? {
        let file = entry.map_err(|err| failed(&contents, &err))?.path();
        let content = STANDARD.encode(std::fs::read(&file).map_err(|err| failed(&file, &err))?);
        let sha256 = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text.push_str(&serde_json::to_string(&AttachmentLine { sha256, content })?);
        text.push('\n');
    }
    Ok(text)
}

/// Splits an exported log into the lines of its events and the lines of its attachments, which follow them.
fn split(text: &str) -> (Vec<&str>, Vec<&str>) {
    text.lines().partition(|line| !is_attachment(line))
}

fn is_attachment(line: &str) -> bool {
    line.starts_with("{\"sha256\":")
}

/// Reads the contents of attachments and checks every hash. An exported log must contain all of its attachments.
fn attachments(
    lines: &[&str],
    events: &[Event],
    is_exported: bool,
) -> Result<Vec<AttachmentContent>, String> {
    let mut all = Vec::new();
    for line in lines {
        let AttachmentLine { sha256, content } =
            serde_json::from_str(line).map_err(|err| format!("an attachment: {err}"))?;
        let content = STANDARD.decode(content).map_err(|err| format!("attachment {sha256}: {err}"))?;
        let content = AttachmentContent::new(content);
        if content.sha256 != sha256 {
            return Err(format!("attachment {sha256} has another hash; the file was changed"));
        }
        all.push(content);
    }
    let known: BTreeSet<&str> = all.iter().map(|attachment| attachment.sha256.as_str()).collect();
    let missing = events.iter().flat_map(hashes).find(|hash| is_exported && !known.contains(hash.as_str()));
    match missing {
        Some(sha256) => Err(format!("attachment {sha256} is missing; the file was cut off")),
        None => Ok(all),
    }
}

/// Reads an exported log and checks every hash.
fn chained(lines: &[&str]) -> Result<(ThreadId, Vec<ImportedEvent>), String> {
    let mut chain = Chain::default();
    let log = lines.iter().map(|line| chain.add(line)).collect::<Result<_, _>>()?;
    chain.thread.map(|id| (id, log)).ok_or_else(|| "the file is empty".to_owned())
}

/// The hash chain of an exported log up to some line.
#[derive(Default)]
struct Chain {
    thread: Option<ThreadId>,
    lines: u64,
    /// Hash of the last line; zeros before the first, as [`hash_chain::START`].
    hash: [u8; 32],
}

impl Chain {
    /// Checks the next line, and returns its event.
    fn add(&mut self, line: &str) -> Result<ImportedEvent, String> {
        let number = self.lines + 1;
        let EventLine { thread, seq, at, kind, payload, hash } =
            serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        if *self.thread.get_or_insert(thread) != thread {
            return Err(format!("line {number}: belongs to another thread than the lines before"));
        }
        let linked = hash_chain::link(&self.hash, seq, at, &kind, &payload);
        if seq != self.lines || hex::encode(linked) != hash {
            return Err(format!("line {number}: the hash chain breaks here; the file was changed"));
        }
        check_json(payload.as_bytes()).map_err(|error| format!("line {number}: {error}"))?;
        (self.lines, self.hash) = (number, linked);
        Ok(ImportedEvent { at, kind, payload })
    }
}

/// Reads a fixture: takes its recorded answers, and lets today's code decide the rest.
fn replayed(ctx: &Context, text: &str) -> Result<Vec<ImportedEvent>, String> {
    let event = |(nth, line): (usize, &str)| {
        check_json(line.as_bytes()).map_err(|err| format!("line {}: {err}", nth + 1))?;
        serde_json::from_str::<Event>(line).map_err(|err| format!("line {}: {err}", nth + 1))
    };
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
    let event = |(nth, imported): (usize, &ImportedEvent)| {
        Event::decode(&imported.kind, &imported.payload).map_err(|err| format!("line {}: {err}", nth + 1))
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
