//! `turnfold turn`: submits and manages turns through the API.

use std::{
    io::{ErrorKind, Read as _},
    path::Path,
};

use api_types::{
    IdKind, Interrupt, McpServerSummary, NewRating, Outcome, Page, StrategySummary, Thread, TurnRating,
    TurnStatus, options_to_text,
};
use reqwest::Method;
use serde_json::{Map, Value, json};
use shared::{InterruptKind, Question, Rating, check_json, visible};

use super::{
    Context, follow, redrive,
    selection::{check_known_strategies, filter_query, order_query},
    source,
};
use crate::{
    args::{GroupBy, ListOrder, Send, Turn},
    client::{Client, path, with_idempotency_key},
    exit::{CliError, Exit},
    ids,
    json_option::parse_json,
    output::{self, Format},
    suggest,
};

/// Maximum characters of a turn's input in a list.
const MAX_INPUT_CHARS: usize = 60;

pub(crate) async fn run(ctx: Context, command: Turn) -> anyhow::Result<Exit> {
    let client = ctx.client()?;
    match command {
        Turn::Send(args) => send(&ctx, &client, args).await,
        Turn::List { filter, group_by: Some(GroupBy::Cause), limit, .. } => {
            redrive::causes(&ctx, &client, filter.as_deref(), limit).await
        }
        Turn::List { thread, status, filter, group_by: None, order, limit } => {
            list(&ctx, &client, thread, status, filter, order, limit).await
        }
        Turn::Show { id, wait } => {
            let mut turn: api_types::Turn =
                client.get(&path(&["turns", &find(&client, &id).await?])?).await?;
            if wait {
                turn = follow::until_ended(&client, &turn).await?;
            }
            if let Some(usage) = turn.usage.as_ref().filter(|_| ctx.format == Format::Text) {
                output::note(&format!("usage: {}", output::usage(usage)));
            }
            show(&ctx, &turn)?;
            Ok(if wait { exit_of(&turn) } else { Exit::Ok })
        }
        Turn::Cancel { id } => act(&ctx, &client, &id, "cancel").await,
        Turn::Retry { id } => act(&ctx, &client, &id, "retry").await,
        Turn::Rate { id, rating, note } => rate(&ctx, &client, &id, rating.into(), note).await,
        Turn::Redrive { filter, rate, dry_run, yes } => {
            let options = redrive::Options { filter, pause: rate, dry_run, yes };
            redrive::run(&ctx, &client, &options).await
        }
    }
}

/// Finds a turn by `last`, its id, or a part of its id.
async fn find(client: &Client, text: &str) -> anyhow::Result<String> {
    if text == "last" {
        let newest: Page<api_types::Turn> = client.get("/v1/turns?limit=1").await?;
        return newest.data.first().map(|turn| turn.id.to_string()).ok_or_else(|| {
            CliError::with_exit(
                Exit::NotFound,
                "there is no turn yet\nhint: turnfold turn send -g probe \"echo hello\"",
            )
        });
    }
    ids::resolve(client, IdKind::Turn, text).await
}

async fn act(ctx: &Context, client: &Client, id: &str, act: &str) -> anyhow::Result<Exit> {
    let path = path(&["turns", &find(client, id).await?, act])?;
    show(ctx, &client.post::<api_types::Turn>(&path, &json!({})).await?)?;
    Ok(Exit::Ok)
}

async fn rate(
    ctx: &Context,
    client: &Client,
    id: &str,
    rating: Rating,
    note: Option<String>,
) -> anyhow::Result<Exit> {
    let path = path(&["turns", &find(client, id).await?, "rating"])?;
    let rated: TurnRating = client.post(&path, &NewRating { rating, note }).await?;
    output::one(ctx.format, &rated, || {
        let note =
            if rated.note.is_empty() { String::new() } else { format!(" · {}", visible(&rated.note)) };
        format!("turn {} rated {}{note}", rated.turn_id, rated.rating.name())
    })?;
    Ok(Exit::Ok)
}

async fn list(
    ctx: &Context,
    client: &Client,
    thread: Option<String>,
    status: Option<String>,
    filter: Option<String>,
    order: ListOrder,
    limit: u64,
) -> anyhow::Result<Exit> {
    let thread = match thread {
        Some(id) => format!("&thread_id={}", source::named(client, &id).await?),
        None => String::new(),
    };
    let status = status.map(|status| format!("&status={status}")).unwrap_or_default();
    let query = order_query(&order) + &filter_query(filter.as_deref())?;
    let page: Page<api_types::Turn> =
        client.get(&format!("/v1/turns?limit={limit}{thread}{status}{query}")).await?;
    let turns = page.data;
    if turns.is_empty() {
        check_known_strategies(client, filter.as_deref()).await?;
    }
    output::many(ctx.format, &turns, || {
        if turns.is_empty() {
            return "no turns".to_owned();
        }
        let row = |turn: &api_types::Turn| {
            let (status, outcome) = (output::json_name(&turn.status), not_answered(turn));
            let status = outcome.map_or(status.clone(), |outcome| format!("{status}, {outcome}"));
            vec![
                turn.id.to_string(),
                turn.strategy.clone(),
                status,
                output::when(&turn.created_at),
                input_start(turn),
            ]
        };
        output::table(&["turn", "strategy", "status", "created", "input"], turns.iter().map(row))
    })?;
    if page.has_more {
        output::note("(there are more; see --limit)");
    }
    Ok(Exit::Ok)
}

async fn send(ctx: &Context, client: &Client, mut args: Send) -> anyhow::Result<Exit> {
    if args.text == "-" {
        args.text = read_stdin()?;
    }
    let Send { wait, follow, .. } = args;
    let mut body = body(&args)?;
    // The thread before the turn: its open question, and the number of its events.
    let mut before: Option<Thread> = None;
    match &args.thread {
        Some(thread) => {
            let id = source::named(client, thread).await?;
            if wait || follow {
                before = Some(client.get(&path(&["threads", &id])?).await?);
            }
            body["thread_id"] = json!(id);
        }
        None => body["strategy"] = json!(strategy(client, args.strategy.as_deref()).await),
    }
    let strategy = body["strategy"].as_str().unwrap_or_default().to_owned();
    let request = client.request(Method::POST, "/v1/turns").json(&body);
    let sent = client.fetch(with_idempotency_key(request, args.idempotency_key)?).await;
    let turn: api_types::Turn = match sent {
        Err(err) if args.thread.is_none() => return Err(with_suggestion(client, &strategy, err).await),
        sent => sent?,
    };
    if !wait && !follow {
        output::one(ctx.format, &turn, || {
            let (id, thread, status) = (turn.id, turn.thread_id, output::json_name(&turn.status));
            let due = follow::not_due(&turn).map(|at| format!(" and does not start before {at}"));
            format!("turn {id} of thread {thread} is {status}{}", due.unwrap_or_default())
        })?;
        return Ok(Exit::Ok);
    }
    follow::announce(&turn);
    let turn = if follow {
        let turn =
            follow::turn(ctx, client, &turn, before.as_ref().map_or(0, |before| before.events)).await?;
        note_outcome(ctx, &turn);
        hint(&turn).iter().for_each(|hint| output::note(hint));
        turn
    } else {
        let turn = follow::until_ended(client, &turn).await?;
        show(ctx, &turn)?;
        turn
    };
    let asked_before = before.as_ref().and_then(|before| before.interrupt.as_ref());
    if is_asked_again(asked_before, turn.interrupt.as_ref(), &args.text) {
        output::note(&format!("{:?} is none of the options, so the question is asked again", args.text));
    }
    Ok(exit_of(&turn))
}

/// Builds the request that a schedule submits.
pub(super) async fn scheduled(client: &Client, mut args: Send) -> anyhow::Result<Value> {
    if args.text == "-" {
        args.text = read_stdin()?;
    }
    let mut body = body(&args)?;
    match &args.thread {
        Some(thread) => body["thread_id"] = json!(source::named(client, thread).await?),
        None => body["strategy"] = json!(strategy(client, args.strategy.as_deref()).await),
    }
    Ok(body)
}

/// Builds the request body from the options, without the thread or strategy.
fn body(args: &Send) -> anyhow::Result<Value> {
    let mut body = json!({ "input": args.text });
    if let Some(tune) = &args.tune {
        body["config"] = parse_json("--tune", tune)?;
    }
    if let Some(budget) = &args.budget {
        body["budget"] = parse_json("--budget", budget)?;
    }
    if let Some(file) = &args.response_format {
        body["response_format"] = response_format(file)?;
    }
    if !args.metadata.is_empty() {
        let pairs = args.metadata.iter().map(|text| pair(text));
        body["metadata"] = Value::Object(pairs.collect::<Result<Map<_, _>, _>>()?);
    }
    if let Some(priority) = &args.priority {
        body["priority"] = json!(priority);
    }
    if let Some(delay) = args.delay {
        body["delay_seconds"] = json!(delay.as_secs());
    }
    if let Some(not_before) = &args.not_before {
        body["not_before"] = json!(not_before);
    }
    if let Some(multitask) = args.multitask_strategy {
        body["multitask_strategy"] = json!(multitask);
    }
    if args.replan {
        body["policy"] = json!("replan");
    }
    Ok(body)
}

/// Strategy of a new thread, and the one where there is no MCP server.
const PLANNER: &str = "planner";
const CHAT: &str = "chat";

/// Strategies that can do nothing without MCP servers.
const NEED_SERVERS: [&str; 4] = [PLANNER, "planner_with_prompts", "retriever", "action_plan"];

/// Returns the strategy of a new thread: the named one, or one that suits the configuration. Says so if the named one has no MCP
/// server to work with.
async fn strategy(client: &Client, named: Option<&str>) -> String {
    if let Some(name) = named.filter(|name| !NEED_SERVERS.contains(name)) {
        return name.to_owned();
    }
    // Only an operator may see the servers. Other keys get the usual strategy.
    let servers = client.get::<Page<McpServerSummary>>("/v1/mcp/servers").await;
    let has_none = servers.is_ok_and(|page| page.data.is_empty());
    match named {
        Some(name) => {
            if has_none {
                output::note(&format!(
                    "{name} works with the tools of MCP servers, and none is configured; hint: add one under [mcp.NAME], or ask a \
                     model alone with -g {CHAT}"
                ));
            }
            name.to_owned()
        }
        None if has_none => CHAT.to_owned(),
        None => PLANNER.to_owned(),
    }
}

/// Reads a format from a file. A file that holds no format holds a JSON Schema, whose name is that of the file.
fn response_format(file: &Path) -> anyhow::Result<Value> {
    let refused = |why: String| {
        let text =
            format!("--response-format: {}: {why}\nhint: give a file with a JSON Schema", file.display());
        CliError::with_exit(Exit::Usage, text)
    };
    let text = std::fs::read_to_string(file).map_err(|err| refused(err.to_string()))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|err| refused(format!("it is not JSON: {err}")))?;
    let is_format = |kind: &str| ["text", "json_object", "json_schema"].contains(&kind);
    match &value {
        Value::Object(fields) if fields.get("type").and_then(Value::as_str).is_some_and(is_format) => {
            Ok(value)
        }
        Value::Object(_) => {
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
            let name: String = stem.chars().map(legal).take(64).collect();
            Ok(json!({ "type": "json_schema", "json_schema": { "name": name, "schema": value } }))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(refused("it is not a JSON object".to_owned()))
        }
    }
}

/// Replaces the error for a strategy that the API does not have by one with the closest name.
async fn with_suggestion(client: &Client, strategy: &str, err: anyhow::Error) -> anyhow::Error {
    if crate::client::refusal(&err).is_none() {
        return err;
    }
    let Ok(page) = client.get::<Page<StrategySummary>>("/v1/strategies").await else { return err };
    let known: Vec<&str> = page.data.iter().map(|strategy| strategy.name.as_str()).collect();
    match known.contains(&strategy) {
        true => err,
        false => CliError::with_exit(Exit::Usage, suggest::unknown("strategy", strategy, &known)),
    }
}

/// Returns true if the same question is open again because the text is none of its options.
fn is_asked_again(before: Option<&Interrupt>, now: Option<&Interrupt>, text: &str) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return false };
    let same = (&before.question, &before.options) == (&now.question, &now.options);
    same && !now.open_ended && !now.options.is_empty() && Question::chosen(&now.options, text).is_none()
}

/// Parses `KEY=VALUE`. A value is text if it is not JSON, or JSON that would not be kept exactly.
fn pair(text: &str) -> anyhow::Result<(String, Value)> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
        CliError::with_exit(
            Exit::Usage,
            format!("--metadata {text:?}: expected KEY=VALUE, such as customer=17"),
        )
    })?;
    let json = check_json(value.as_bytes()).ok().and_then(|()| serde_json::from_str(value).ok());
    Ok((key.to_owned(), json.unwrap_or_else(|| json!(value))))
}

/// Prints a turn.
pub(super) fn show(ctx: &Context, turn: &api_types::Turn) -> anyhow::Result<()> {
    note_outcome(ctx, turn);
    output::one(ctx.format, turn, || {
        let hint = hint(turn).map(|hint| format!("\n{hint}")).unwrap_or_default();
        match turn.status {
            TurnStatus::Completed => turn.output.as_ref().and_then(|it| it.reply.clone()).unwrap_or_default(),
            TurnStatus::Interrupted => {
                let question = turn.interrupt.as_ref().map(question).unwrap_or_default();
                format!("{question}{hint}")
            }
            TurnStatus::Failed => format!("failed: {}{hint}", turn.error.as_deref().unwrap_or_default()),
            TurnStatus::Queued | TurnStatus::Running | TurnStatus::Cancelled => {
                format!(
                    "turn {} of thread {} is {}",
                    turn.id,
                    turn.thread_id,
                    output::json_name(&turn.status)
                )
            }
        }
    })
}

/// Notes the outcome of a turn that got no full answer, and its causes.
fn note_outcome(ctx: &Context, turn: &api_types::Turn) {
    if let Some(outcome) = not_answered(turn).filter(|_| ctx.format == Format::Text) {
        let cause = turn.cause.as_deref().unwrap_or_default();
        output::note(&visible(&format!("outcome: {outcome} ({cause})")));
    }
}

/// Returns the outcome of a turn that got no full answer.
fn not_answered(turn: &api_types::Turn) -> Option<String> {
    let outcome = turn.outcome.filter(|outcome| *outcome != Outcome::Answered);
    outcome.map(|outcome| output::json_name(&outcome))
}

/// Renders a question and its numbered options.
fn question(interrupt: &Interrupt) -> String {
    let options = options_to_text(interrupt.kind, &interrupt.options, "  ");
    visible(&format!("{}{options}", interrupt.question))
}

/// Returns the command that continues a turn, if a person must act.
fn hint(turn: &api_types::Turn) -> Option<String> {
    let (id, thread) = (turn.id, turn.thread_id);
    match (turn.status, turn.interrupt.as_ref().map(|interrupt| interrupt.kind)) {
        // A message does not settle a call in doubt; it waits until the call is settled.
        (TurnStatus::Interrupted, Some(InterruptKind::InDoubt)) => {
            Some(format!("(answer with: turnfold inbox answer {thread} ANSWER)"))
        }
        (TurnStatus::Interrupted, _) => {
            Some(format!("(answer with: turnfold turn send --thread {thread} ANSWER)"))
        }
        (TurnStatus::Failed, _) => Some(format!("(retry with: turnfold turn retry {id})")),
        _ => None,
    }
}

/// Returns the exit code for a turn that was waited for.
pub(super) fn exit_of(turn: &api_types::Turn) -> Exit {
    match turn.status {
        TurnStatus::Failed | TurnStatus::Cancelled => Exit::Finding,
        TurnStatus::Interrupted => Exit::Waiting,
        TurnStatus::Completed => match turn.outcome {
            Some(Outcome::Partial) => Exit::Partial,
            Some(Outcome::Declined) => Exit::Declined,
            Some(Outcome::Answered) | None => Exit::Ok,
        },
        TurnStatus::Queued | TurnStatus::Running => Exit::Ok,
    }
}

/// Returns the start of a turn's input, for a list.
fn input_start(turn: &api_types::Turn) -> String {
    let text = turn.input.last().map(|input| input.content.as_str()).unwrap_or_default();
    let short: String = text.chars().take(MAX_INPUT_CHARS).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

pub(super) fn read_stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|err| {
        if err.kind() == ErrorKind::InvalidData {
            return CliError::with_exit(Exit::Usage, "stdin is not valid UTF-8");
        }
        anyhow::Error::new(err).context("cannot read stdin")
    })?;
    Ok(text)
}
