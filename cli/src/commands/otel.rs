//! `turnfold otel`: traces of OpenTelemetry, from the log.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    time::Duration,
};

use anyhow::Context as _;
use audit::otel::{Content, Span, export_request};
use queue::clock;
use serde::Serialize;
use store::{Conditions, Order, Store, ThreadId, TurnFilter, TurnId};

use super::{Context, selection::before};
use crate::{
    args::Otel,
    exit::{CliError, Exit},
    output::{self, counted},
    telemetry::{Collector, SPANS_MAX, Traces, peers},
};

/// Number of turns that are listed at a time.
const PAGE: u64 = 250;

pub(crate) async fn run(ctx: Context, command: Otel) -> anyhow::Result<Exit> {
    match command {
        Otel::Export { since, out, endpoint, protocol, content } => {
            let content = if content { Content::Include } else { Content::Omit };
            let mut target = match &out {
                Some(path) if path == Path::new("-") => Target::Stdout,
                Some(path) => Target::File(BufWriter::new(create(path)?)),
                None => Target::Collector(Collector::new(&ctx.settings.telemetry, endpoint, protocol)?),
            };
            let traces = Traces { store: ctx.store().await?, content, peers: peers(&ctx.settings) };
            let summary = export(&ctx, &traces, since, &mut target).await?;
            report(&ctx, &target, &summary)
        }
    }
}

fn create(path: &Path) -> anyhow::Result<File> {
    File::create(path).map_err(|err| {
        CliError::with_exit(Exit::Usage, format!("--out {} cannot be written: {err}", path.display()))
    })
}

/// Destination of traces.
enum Target {
    Stdout,
    File(BufWriter<File>),
    Collector(Collector),
}

impl Target {
    /// Writes or sends spans. Returns the number of spans that were rejected.
    async fn send(&mut self, spans: &[Span]) -> anyhow::Result<u64> {
        let request = || export_request(spans, env!("CARGO_PKG_VERSION"));
        match self {
            Self::Stdout => output::print(&request().to_string()).map(|()| 0),
            Self::File(file) => writeln!(file, "{}", request()).context("cannot write --out").map(|()| 0),
            Self::Collector(collector) => collector.send(spans).await,
        }
    }
}

/// Result of an export.
#[derive(Debug, Default, Serialize)]
struct Summary {
    turns: usize,
    spans: usize,
    rejected: u64,
    /// Threads whose log this version cannot read.
    unreadable: u64,
}

async fn export(
    ctx: &Context,
    traces: &Traces,
    since: Duration,
    target: &mut Target,
) -> anyhow::Result<Summary> {
    let mut summary = Summary::default();
    for (thread, turns) in ended(&traces.store, ctx.tenant.as_deref(), since).await? {
        let spans = match traces.of(thread, &turns).await {
            Ok(spans) => spans,
            Err(err) if err.is_of_another_version() => {
                summary.unreadable += 1;
                continue;
            }
            Err(err) => return Err(err.into()),
        };
        summary.turns += spans.iter().map(|span| span.turn).collect::<BTreeSet<_>>().len();
        summary.spans += spans.len();
        for spans in spans.chunks(SPANS_MAX) {
            summary.rejected += target.send(spans).await?;
        }
    }
    if let Target::File(file) = target {
        file.flush().context("cannot write --out")?;
    }
    Ok(summary)
}

/// Returns the turns that started and changed within this time, by thread.
async fn ended(
    store: &Store,
    tenant: Option<&str>,
    since: Duration,
) -> anyhow::Result<BTreeMap<ThreadId, BTreeSet<TurnId>>> {
    let changed = format!("updated > {}", clock::rfc3339(before(since)?));
    let changed = Conditions::parse(&changed, clock::now())?;
    let filter =
        TurnFilter { tenant, conditions: Some(&changed), order: Order::OldestFirst, ..TurnFilter::default() };
    let mut turns: BTreeMap<ThreadId, BTreeSet<TurnId>> = BTreeMap::new();
    let mut last = None;
    loop {
        let page = store.turns(filter, last, PAGE).await?;
        let Some(turn) = page.last() else { return Ok(turns) };
        last = Some(turn.id);
        for turn in page.iter().filter(|turn| turn.ended_seq.is_some()) {
            turns.entry(turn.thread).or_default().insert(turn.id);
        }
    }
}

fn report(ctx: &Context, target: &Target, summary: &Summary) -> anyhow::Result<Exit> {
    let Summary { turns, spans, rejected, unreadable } = summary;
    let mut text = format!("exported {} of {}", counted(*spans, "span"), counted(*turns, "turn"));
    if 0 < *rejected {
        text += &format!("; the collector rejected {}", counted(*rejected, "span"));
    }
    if 0 < *unreadable {
        text += &format!("; this version cannot read {}", counted(*unreadable, "thread"));
    }
    match target {
        // Standard output has the traces.
        Target::Stdout => output::note(&text),
        Target::File(_) | Target::Collector(_) => output::one(ctx.format, summary, || text)?,
    }
    Ok(if *rejected == 0 && *unreadable == 0 { Exit::Ok } else { Exit::Partial })
}
