//! `turnfold thread fork --from-list`: a fork of each thread of a list.
//!
//! **Invariant:** the key of each fork follows from its thread, its event and the options. The same command, run again after it was
//! killed, finds the forks that exist and creates the others.

use std::{collections::BTreeMap, fs, io::Read as _, path::Path, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::ThreadId;

use super::fork::{Writes, body, fork, warning, writes_after};
use crate::{
    args::Fork,
    client::{Client, is_outage, refusal},
    commands::Context,
    confirm,
    exit::{CliError, Exit},
    output::{self, Format, counted, note},
};

/// Maximum size of a list in bytes, and maximum number of its threads.
const SIZE_MAX: u64 = 16 << 20;
const MOST_THREADS: usize = 100_000;

/// Requests under way at the same time.
const AT_ONCE: usize = 4;

/// Delay before a fork that the API refused for its load is requested again, and number of such delays.
const DELAY: Duration = Duration::from_secs(1);
const DELAYS: usize = 600;

/// A thread to fork.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    thread: ThreadId,
    #[serde(default)]
    at: Option<u64>,
}

/// A thread and its fork.
#[derive(Serialize)]
struct Pair {
    thread: ThreadId,
    at: u64,
    fork: ThreadId,
    status: Value,
}

pub(super) async fn run(ctx: &Context, args: &Fork, file: &Path) -> anyhow::Result<Exit> {
    let (body, entries) = (body(args)?, read(file, args.at)?);
    let client = ctx.client()?;
    if !may_write(&client, &entries, args.yes).await? {
        return Err(CliError::with_exit(Exit::Finding, "cancelled; nothing was forked"));
    }
    let all = entries.len();
    let forks = entries.into_iter().map(|entry| {
        let (client, body) = (&client, &body);
        async move { forked(client, &entry, body, args).await.map_err(|error| (entry.thread, error)) }
    });
    let mut forks = stream::iter(forks).buffered(AT_ONCE);
    let (mut pairs, mut failed, mut outage) = (Vec::new(), 0, None);
    while let Some(forked) = forks.next().await {
        match forked {
            Ok(pair) if ctx.format == Format::Json => pairs.push(pair),
            Ok(pair) => output::one(ctx.format, &pair, || format!("{} {}", pair.thread, pair.fork))?,
            Err((_, error)) if is_outage(&error) => {
                outage = Some(error);
                break;
            }
            Err((thread, error)) => {
                failed += 1;
                note(&format!("thread {thread} is not forked: {error}"));
            }
        }
    }
    if ctx.format == Format::Json {
        output::many(ctx.format, &pairs, String::new)?;
    }
    if let Some(error) = outage {
        return Err(error);
    }
    note(&format!("{} of {} forked", all - failed, counted(all, "thread")));
    Ok(if failed == 0 { Exit::Ok } else { Exit::Partial })
}

/// Warns of the calls that the forks may make again, and asks for a confirmation. Returns false if it is refused.
async fn may_write(client: &Client, entries: &[Entry], yes: bool) -> anyhow::Result<bool> {
    let counts = entries.iter().filter_map(|entry| Some((entry.thread, entry.at?)));
    let counts = counts.map(|(thread, at)| async move {
        match writes_after(client, thread, at).await {
            // The fork of this thread fails, and names it.
            Err(error) if !is_outage(&error) => Ok(Writes::new()),
            counted => counted,
        }
    });
    let add = |mut all: Writes, more: Writes| async move {
        more.into_iter().for_each(|(tool, times)| *all.entry(tool).or_default() += times);
        anyhow::Ok(all)
    };
    let writes = stream::iter(counts).buffered(AT_ONCE).try_fold(Writes::new(), add).await?;
    if writes.is_empty() {
        note("a fork that goes on asks live models and calls live tools; turnfold whatif run writes nothing");
        return Ok(true);
    }
    note(&warning(&writes, "the recorded threads"));
    Ok(yes || confirm::ask(&format!("fork {}?", counted(entries.len(), "thread")), "add --yes")?)
}

/// Forks one thread. The key of the request is the same for the same command.
async fn forked(
    client: &Client,
    Entry { thread, at }: &Entry,
    body: &Value,
    args: &Fork,
) -> anyhow::Result<Pair> {
    let mut body = body.clone();
    if let Some(at) = at {
        body["at"] = json!(at);
    }
    let identity = json!([args.idempotency_key, thread, body]).to_string();
    let key = format!("list-{}", hex::encode(Sha256::digest(identity)));
    let mut delays = 0;
    let made = loop {
        match fork(client, &thread.to_string(), &body, Some(key.clone()), args.wait).await {
            Err(error) if refusal(&error) == Some(429) && delays < DELAYS => {
                delays += 1;
                tokio::time::sleep(DELAY).await;
            }
            made => break made?,
        }
    };
    let status = json!(made.log_status);
    let at = made.forked.as_ref().map_or(0, |forked| forked.seq);
    Ok(Pair { thread: *thread, at, fork: made.summary.id, status })
}

/// Reads a list; `-` is stdin. A thread without an event is forked at `at`.
fn read(file: &Path, at: Option<u64>) -> anyhow::Result<Vec<Entry>> {
    let wrong = |why: String| {
        let message = format!(
            "--from-list {}: {why}\nhint: one id a line, or JSON lines such as {{\"thread\": \"ID\", \"at\": 12}}",
            file.display()
        );
        CliError::with_exit(Exit::Usage, message)
    };
    let mut text = String::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().lock().take(SIZE_MAX + 1).read_to_string(&mut text),
        false => fs::File::open(file).and_then(|file| file.take(SIZE_MAX + 1).read_to_string(&mut text)),
    };
    read.map_err(|error| wrong(format!("cannot read it: {error}")))?;
    if SIZE_MAX < text.len() as u64 {
        return Err(wrong(format!("it is larger than {} MiB", SIZE_MAX >> 20)));
    }
    parse(&text, at).map_err(wrong)
}

fn parse(text: &str, at: Option<u64>) -> Result<Vec<Entry>, String> {
    let mut seen = BTreeMap::new();
    let mut entries = Vec::new();
    for (nth, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let mut entry: Entry = match line.starts_with('{') {
            true => serde_json::from_str(line).map_err(|error| format!("line {nth}: {error}"))?,
            false => {
                let thread =
                    line.parse().map_err(|_| format!("line {nth}: {line:?} is no id of a thread"))?;
                Entry { thread, at: None }
            }
        };
        entry.at = entry.at.or(at);
        if let Some(first) = seen.insert(entry.clone(), nth) {
            return Err(format!("line {nth}: thread {} stands in line {first} already", entry.thread));
        }
        entries.push(entry);
    }
    match entries.len() {
        1..=MOST_THREADS => Ok(entries),
        0 => Err("it names no thread".to_owned()),
        all => Err(format!("it names {all} threads, and at most {MOST_THREADS} are forked by one command")),
    }
}

#[test]
fn a_list_has_ids_or_json_lines() {
    let id = "01a202ad-269f-736a-ad9c-cb1f6585b43c";
    let thread = id.parse().unwrap();
    let text = format!("{id}\n\n {{\"thread\": \"{id}\", \"at\": 7}}\r\n");
    let entries = |ats: [Option<u64>; 2]| ats.map(|at| Entry { thread, at });
    assert_eq!(parse(&text, None).unwrap(), entries([None, Some(7)]));
    assert_eq!(parse(&text, Some(9)).unwrap(), entries([Some(9), Some(7)]));
    assert!(parse(&text, Some(7)).unwrap_err().contains("stands in line 1 already"), "both at event 7");
    for (text, why) in [
        (String::new(), "no thread"),
        (format!("{id}\n{id}"), "line 2: thread 01a202ad-269f-736a-ad9c-cb1f6585b43c stands in line 1"),
        (format!("{id}\n01a2"), "line 2: \"01a2\" is no id"),
        (format!("{{\"thread\": \"{id}\", \"seq\": 7}}"), "line 1: unknown field"),
    ] {
        let error = parse(&text, None).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
