//! `turnfold inbox settle`: settles all calls in doubt of one tool with one verdict.

use api_types::{DoubtRef, InboxItem, Page, SettleRequest, Settled, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use shared::visible_line;
use uuid::Uuid;

use super::{Context, batch, thread::verdict};
use crate::{
    args::Settle,
    client::Client,
    confirm,
    exit::{CliError, Exit},
    output::{self, counted},
};

/// Number of calls listed at a time.
const PAGE: usize = 200;

/// Maximum number of calls that one request settles.
const AT_ONCE: usize = 50;

/// Maximum number of calls settled by one command, which bounds its memory.
const CALLS_MAX: usize = 100_000;

/// Maximum number of calls that are shown before the question; `--dry-run` shows all.
const SHOWN: usize = 10;

/// Hint if there is no terminal to confirm on.
const CONFIRM_HINT: &str = "add --yes, or --dry-run";

/// A call in doubt.
#[derive(Serialize)]
struct Doubt {
    thread_id: Uuid,
    seq: u64,
    slot: usize,
    asked_at: String,
    arguments: serde_json::Value,
    question: String,
}

/// Settles the calls that the person saw; those that are asked about meanwhile wait for the next time.
pub(super) async fn run(ctx: &Context, client: &Client, args: Settle) -> anyhow::Result<Exit> {
    let Settle { tool, happened, did_not, skip, batch, dry_run, yes } = args;
    let verdict = verdict(happened, did_not, skip)?;
    let Some((server, name)) =
        tool.split_once('.').filter(|(server, name)| !server.is_empty() && !name.is_empty())
    else {
        let message = format!("{tool:?} names no tool\nhint: write SERVER.TOOL, as in calendar.book");
        return Err(CliError::with_exit(Exit::Usage, message));
    };
    let batch = match batch {
        Some(id) => format!("&batch_id={}", batch::find(client, &id).await?),
        None => String::new(),
    };
    let doubts = list(client, server, name, &batch).await?;
    if dry_run {
        output::many(ctx.format, &doubts, || shown(&doubts, &tool, usize::MAX))?;
        return Ok(Exit::Ok);
    }
    let question = format!(
        "{}\nrecord for {} in doubt: {}?",
        shown(&doubts, &tool, SHOWN),
        counted(doubts.len(), "call"),
        meaning(&verdict)
    );
    if !doubts.is_empty() && !yes && !confirm::ask(&question, CONFIRM_HINT)? {
        return Err(CliError::with_exit(Exit::Finding, "cancelled; no call was settled"));
    }
    let request =
        SettleRequest { server: server.to_owned(), tool: name.to_owned(), verdict, doubts: Vec::new() };
    let bar = ProgressBar::new(doubts.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos} of {len}, {per_sec}, {eta} left")?);
    let mut done = Settled::default();
    let outcome = settle(client, &request, &doubts, &bar, &mut done).await;
    bar.finish_and_clear();
    output::one(ctx.format, &done, || to_text(&done))?;
    outcome?;
    Ok(if done.refused.is_empty() { Exit::Ok } else { Exit::Partial })
}

/// Lists the calls in doubt of a tool, newest first.
async fn list(client: &Client, server: &str, tool: &str, batch: &str) -> anyhow::Result<Vec<Doubt>> {
    let query = reqwest::Url::parse_with_params("http://x/", [("server", server), ("tool", tool)])?;
    let conditions = query.query().unwrap_or_default().to_owned() + batch;
    let (mut doubts, mut after): (Vec<Doubt>, String) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/inbox?kind=in_doubt&limit={PAGE}&{conditions}{after}");
        let page: Page<InboxItem> = client.get(&path).await?;
        let Some(last) = page.data.last() else { return Ok(doubts) };
        after = format!("&after={}", last.thread_id);
        doubts.extend(page.data.into_iter().filter_map(doubt));
        if !page.has_more || CALLS_MAX <= doubts.len() {
            doubts.dedup_by_key(|doubt| (doubt.thread_id, doubt.seq));
            return Ok(doubts);
        }
    }
}

fn doubt(item: InboxItem) -> Option<Doubt> {
    let InboxItem { thread_id, seq, asked_at, question, interrupt, .. } = item;
    let arguments = interrupt.action_request.args;
    Some(Doubt { thread_id, seq, slot: item.slot?, asked_at, arguments, question })
}

async fn settle(
    client: &Client,
    request: &SettleRequest,
    doubts: &[Doubt],
    bar: &ProgressBar,
    done: &mut Settled,
) -> anyhow::Result<()> {
    for some in doubts.chunks(AT_ONCE) {
        let named = |doubt: &Doubt| DoubtRef { thread_id: doubt.thread_id, seq: doubt.seq, slot: doubt.slot };
        let request = SettleRequest { doubts: some.iter().map(named).collect(), ..request.clone() };
        let Settled { settled, refused } = client.post("/v1/inbox/settle", &request).await?;
        done.settled += settled;
        done.refused.extend(refused);
        bar.inc(some.len() as u64);
    }
    Ok(())
}

/// Shows the first calls, one a line.
fn shown(doubts: &[Doubt], tool: &str, most: usize) -> String {
    if doubts.is_empty() {
        return format!("no call of {tool} is in doubt");
    }
    let row = |doubt: &Doubt| {
        let arguments = visible_line(&doubt.arguments.to_string());
        vec![doubt.thread_id.to_string(), output::when(&doubt.asked_at), arguments]
    };
    let table = output::table(&["thread", "asked", "arguments"], doubts.iter().take(most).map(row));
    match doubts.len().saturating_sub(most) {
        0 => table,
        more => format!("{table}\nand {more} more; --dry-run lists all"),
    }
}

fn meaning(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Happened { result } => format!("it happened, with the result {:?}", visible_line(result)),
        Verdict::DidNotHappen => "it did not happen, and is made again".to_owned(),
        Verdict::Skip => "nobody knows, and it is not made again".to_owned(),
    }
}

fn to_text(done: &Settled) -> String {
    let line = |refused: &api_types::NotSettled| {
        format!("\n  {} [{}]: {}", refused.thread_id, refused.slot, visible_line(&refused.detail))
    };
    let refused: String = done.refused.iter().take(SHOWN).map(line).collect();
    let count = match done.refused.len() {
        0 => String::new(),
        count => format!("; {count} not settled{refused}"),
    };
    format!("{} settled{count}", counted(done.settled, "call"))
}
