//! `turnfold inbox`: lists and answers questions to people, through the API.

use std::time::Duration;

use api_types::{InboxItem, Page, ProposedCall, Thread, Turn, options_to_text};
use reqwest::Method;
use serde_json::{Value, json};
use shared::{visible, visible_line};

use super::{Context, batch, follow, settle, source::named, turn};
use crate::{
    args::{Answer, Inbox},
    client::{Client, path, with_idempotency_key},
    exit::{CliError, Exit},
    json_option::parse_json,
    output::{self, Format},
};

/// Polling interval of `--watch`. No stream covers the questions of all threads.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum characters of a question in a list.
const MAX_QUESTION_CHARS: usize = 60;

pub(crate) async fn run(ctx: Context, command: Inbox) -> anyhow::Result<Exit> {
    let client = ctx.client()?;
    match command {
        Inbox::List { watch: true, .. } if ctx.format == Format::Json => Err(CliError::with_exit(
            Exit::Usage,
            "--watch does not end, so it cannot print one JSON document\nhint: use -o jsonl, or leave out --watch",
        )),
        Inbox::List { kind, batch, limit, watch } => {
            let kind = kind.map(|kind| format!("&kind={kind}")).unwrap_or_default();
            let batch = match batch {
                Some(id) => format!("&batch_id={}", batch::find(&client, &id).await?),
                None => String::new(),
            };
            let path = format!("/v1/inbox?limit={limit}{kind}{batch}");
            let items = page(&client, &path).await?;
            list(&ctx, &items)?;
            if watch { list_changes(&ctx, &client, &path, items).await } else { Ok(Exit::Ok) }
        }
        Inbox::Show { thread } => show(&ctx, &client, &asking(&client, &thread).await?).await,
        Inbox::Answer(args) => answer(&ctx, &client, args).await,
        Inbox::Settle(args) => settle::run(&ctx, &client, args).await,
    }
}

/// Lists again after each change, until the process is stopped or the API is unreachable.
async fn list_changes(
    ctx: &Context,
    client: &Client,
    path: &str,
    mut items: Vec<InboxItem>,
) -> anyhow::Result<Exit> {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = page(client, path).await?;
        if now != items {
            items = now;
            output::note("");
            list(ctx, &items)?;
        }
    }
}

/// Finds the thread of a question: `last` is that of the newest open question.
async fn asking(client: &Client, thread: &str) -> anyhow::Result<String> {
    if thread != "last" {
        return named(client, thread).await;
    }
    match page(client, "/v1/inbox?limit=1").await?.first() {
        Some(item) => Ok(item.thread_id.to_string()),
        None => {
            Err(CliError::with_exit(Exit::NotFound, "there is no open question\nhint: turnfold inbox ls"))
        }
    }
}

async fn page(client: &Client, path: &str) -> anyhow::Result<Vec<InboxItem>> {
    Ok(client.get::<Page<InboxItem>>(path).await?.data)
}

fn list(ctx: &Context, items: &[InboxItem]) -> anyhow::Result<()> {
    output::many(ctx.format, items, || {
        if items.is_empty() {
            return "no open questions".to_owned();
        }
        let row = |item: &InboxItem| {
            let (id, kind) = (item.thread_id.to_string(), item.kind.name().to_owned());
            let batch = item.batch_id.clone().unwrap_or_default();
            vec![
                id,
                item.strategy.clone(),
                kind,
                output::when(&item.asked_at),
                batch,
                question_start(&item.question),
            ]
        };
        output::table(&["thread", "strategy", "kind", "asked", "batch", "question"], items.iter().map(row))
    })
}

/// Returns the start of a question's first line.
fn question_start(question: &str) -> String {
    let line = question.lines().next().unwrap_or_default();
    let short: String = line.chars().take(MAX_QUESTION_CHARS).collect();
    let is_cut = short.len() < question.len();
    let short = visible_line(&short);
    if is_cut { format!("{short}…") } else { short }
}

async fn show(ctx: &Context, client: &Client, id: &str) -> anyhow::Result<Exit> {
    let thread: Thread = client.get(&path(&["threads", id])?).await?;
    if thread.interrupt.is_none() {
        output::one(ctx.format, &Value::Null, || {
            format!("thread {id} is {} and has no open question", output::json_name(&thread.log_status))
        })?;
        return Ok(Exit::Ok);
    }
    let item: InboxItem = client.get(&path(&["inbox", id])?).await?;
    output::one(ctx.format, &item, || to_text(&item))?;
    Ok(Exit::Ok)
}

fn to_text(item: &InboxItem) -> String {
    let options = options_to_text(item.kind, &item.options, "  ");
    let config = &item.interrupt.config;
    let forms = [
        (config.allow_respond, "ANSWER"),
        (config.allow_accept, "--accept"),
        (config.allow_edit, "--edit JSON"),
        (config.allow_ignore, "--ignore"),
    ];
    let forms: Vec<&str> = forms.into_iter().filter(|(allowed, _)| *allowed).map(|(_, form)| form).collect();
    let together = match (&item.server, &item.tool) {
        (Some(server), Some(tool)) => {
            format!(
                "\n(all calls of this tool: turnfold inbox settle {} …)",
                visible_line(&format!("{server}.{tool}"))
            )
        }
        (None, _) | (_, None) => String::new(),
    };
    format!(
        "{}: {}{}{}\nasked by {} at {}{}\n(answer with: turnfold inbox answer {} {}){together}",
        item.kind.name(),
        visible(&item.question),
        visible(&options),
        calls(&item.calls),
        item.strategy,
        item.asked_at,
        item.batch_id.as_ref().map(|batch| format!(", {batch}")).unwrap_or_default(),
        item.thread_id,
        forms.join(" | ")
    )
}

/// Renders the calls to approve, one a line, with their arguments as JSON.
fn calls(calls: &[ProposedCall]) -> String {
    let line = |call: &ProposedCall| {
        let arguments = call
            .arguments
            .as_ref()
            .map_or("not known yet".to_owned(), |arguments| json!(arguments).to_string());
        visible_line(&format!("  {}.{} {arguments}", call.server, call.tool))
    };
    let lines: Vec<String> = calls.iter().map(line).collect();
    if lines.is_empty() { String::new() } else { format!("\ncalls to approve:\n{}", lines.join("\n")) }
}

async fn answer(ctx: &Context, client: &Client, args: Answer) -> anyhow::Result<Exit> {
    let Answer { thread, answer, accept, edit, ignore, idempotency_key, wait } = args;
    let body = match (answer, edit, accept, ignore) {
        (Some(text), ..) => {
            let text = if text == "-" { turn::read_stdin()? } else { text };
            json!({"type": "respond", "args": text})
        }
        (None, Some(edit), ..) => {
            json!({"type": "edit", "args": parse_json("--edit", &edit)?})
        }
        (None, None, true, _) => json!({"type": "accept"}),
        (None, None, false, true) => json!({"type": "ignore"}),
        (None, None, false, false) => {
            let message = "the answer is missing\nhint: give ANSWER, --accept, --edit JSON or --ignore";
            return Err(CliError::with_exit(Exit::Usage, message));
        }
    };
    let thread = asking(client, &thread).await?;
    let request = client.request(Method::POST, &path(&["inbox", &thread])?).json(&body);
    let answered: Turn = client.fetch(with_idempotency_key(request, idempotency_key)?).await?;
    if wait && !ignore {
        follow::announce(&answered);
        let turn = follow::until_ended(client, &answered).await?;
        turn::show(ctx, &turn)?;
        return Ok(turn::exit_of(&turn));
    }
    output::one(ctx.format, &answered, || {
        format!("turn {} of thread {thread} is {}", answered.id, output::json_name(&answered.status))
    })?;
    Ok(Exit::Ok)
}
