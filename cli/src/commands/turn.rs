//! `turnfold turn`: says things to agents, through the api.

use std::{
    io::{ErrorKind, Read as _},
    time::Duration,
};

use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Url;
use serde_json::{Value, json};
use sse_stream::SseStream;

use super::{Given, redrive};
use crate::{
    args::{GroupBy, Turn},
    client::{Client, keyed},
    exit::{Exit, Stop},
    output,
};

pub(crate) async fn run(given: Given, command: Turn) -> anyhow::Result<Exit> {
    let client = Client::new(&given.settings, given.url.as_deref(), given.tenant.as_deref())?;
    match command {
        Turn::Send { .. } => send(&given, &client, command).await,
        Turn::Ls { conditions, group_by: Some(GroupBy::Cause), limit, .. } => {
            redrive::causes(&given, &client, conditions.as_deref(), limit).await
        }
        Turn::Ls { thread, status, conditions, group_by: None, limit } => {
            let thread = thread.map(|it| format!("&thread_id={it}")).unwrap_or_default();
            let status = status.map(|it| format!("&status={it}")).unwrap_or_default();
            let conditions = asked_for(conditions.as_deref())?;
            let page = client.get(&format!("/v1/turns?limit={limit}{thread}{status}{conditions}")).await?;
            let turns = page["data"].as_array().cloned().unwrap_or_default();
            output::many(given.format, &turns, || {
                let cell = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
                let row = |it: &Value| {
                    vec![
                        cell(it, "id"),
                        cell(it, "strategy"),
                        cell(it, "status"),
                        cell(it, "created_at"),
                        asked(it),
                    ]
                };
                output::table(&["turn", "strategy", "status", "created", "input"], turns.iter().map(row))
            })?;
            Ok(Exit::Ok)
        }
        Turn::Get { id } => {
            let turn: Value = client.get(&format!("/v1/turns/{id}")).await?;
            if given.format == output::Format::Text && turn["took"].is_object() {
                output::remark(&format!("took: {}", output::took(&turn["took"])));
            }
            show(&given, &turn)
        }
        Turn::Cancel { id } => {
            show(&given, &client.post(&format!("/v1/turns/{id}/cancel"), &json!({})).await?)
        }
        Turn::Retry { id } => show(&given, &client.post(&format!("/v1/turns/{id}/retry"), &json!({})).await?),
        Turn::Redrive { conditions, rate, dry_run, yes } => {
            let how = redrive::How { conditions, pause: rate, dry_run, yes };
            redrive::run(&given, &client, &how).await
        }
    }
}

/// Conditions, as they stand in a query.
pub(super) fn asked_for(conditions: Option<&str>) -> anyhow::Result<String> {
    let Some(conditions) = conditions else { return Ok(String::new()) };
    // Only for its way of writing what a query cannot hold.
    let url = Url::parse_with_params("http://api/", [("where", conditions)])?;
    Ok(format!("&{}", url.query().unwrap_or_default()))
}

async fn send(given: &Given, client: &Client, command: Turn) -> anyhow::Result<Exit> {
    let Turn::Send {
        text,
        strategy,
        thread,
        tune,
        priority,
        delay,
        not_before,
        replan,
        idempotency_key,
        wait,
        follow,
    } = command
    else {
        return Ok(Exit::Usage);
    };
    let text = if text == "-" { stdin()? } else { text };
    let mut body = json!({ "input": text });
    let skip = match (follow, thread) {
        (true, Some(thread)) => {
            client.get(&format!("/v1/threads/{thread}")).await?["events"].as_u64().unwrap_or(0)
        }
        (true, None) | (false, _) => 0,
    };
    match thread {
        Some(thread) => body["thread_id"] = json!(thread),
        None => body["strategy"] = json!(strategy),
    }
    if let Some(tune) = tune {
        body["config"] = serde_json::from_str(&tune)
            .map_err(|err| Stop::because(Exit::Usage, format!("--tune is no JSON: {err}")))?;
    }
    if let Some(priority) = priority {
        body["priority"] = json!(priority.as_str());
    }
    if let Some(delay) = delay {
        body["delay_seconds"] = json!(delay.as_secs());
    }
    if let Some(not_before) = not_before {
        body["not_before"] = json!(not_before);
    }
    if replan {
        body["policy"] = json!("replan");
    }
    let request = client.request(reqwest::Method::POST, "/v1/turns").json(&body);
    let request = keyed(request, idempotency_key)?;
    let turn: Value = client.send(request).await?.json().await?;
    if follow {
        return follow_turn(given, client, &turn, skip).await;
    }
    if wait {
        return show(given, &until_ended(client, &turn).await?);
    }
    output::one(given.format, &turn, || {
        let (id, thread) = (name(&turn, "id"), name(&turn, "thread_id"));
        format!("turn {id} of thread {thread} is {}", name(&turn, "status"))
    })?;
    Ok(Exit::Ok)
}

/// Waits for a turn's end, with a sign of life for whoever watches.
pub(super) async fn until_ended(client: &Client, turn: &Value) -> anyhow::Result<Value> {
    let spinner = ProgressBar::new_spinner();
    spinner.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}")?);
    spinner.enable_steady_tick(Duration::from_millis(120));
    let path = format!("/v1/turns/{}?wait=30", name(turn, "id"));
    let mut turn = turn.clone();
    while ["queued", "running"].contains(&name(&turn, "status")) {
        spinner.set_message(format!("{} …", name(&turn, "status")));
        turn = client.get(&path).await?;
    }
    spinner.finish_and_clear();
    Ok(turn)
}

/// Prints the events of the turn's thread, but for the first `skip`, until it rests.
async fn follow_turn(given: &Given, client: &Client, turn: &Value, skip: u64) -> anyhow::Result<Exit> {
    let thread = name(turn, "thread_id");
    let after = skip.checked_sub(1).map(|it| format!("&after={it}")).unwrap_or_default();
    let stream = client.stream(&format!("/v1/threads/{thread}/events?until=rest{after}")).await?;
    let mut events = SseStream::from_bytes_stream(stream.bytes_stream());
    while let Some(event) = events.next().await {
        let event =
            event.map_err(|err| Stop::because(Exit::Unreachable, format!("the stream broke off: {err}")))?;
        let Some(data) = event.data.filter(|_| event.id.is_some()) else { continue };
        let event: Value = serde_json::from_str(&data)?;
        let seq = event["seq"].as_u64().unwrap_or_default();
        output::one(given.format, &event, || format!("{seq:>4} {}", name(&event, "text")))?;
    }
    let turn = until_ended(client, turn).await?;
    Ok(exit(&turn))
}

pub(super) fn show(given: &Given, turn: &Value) -> anyhow::Result<Exit> {
    output::one(given.format, turn, || match name(turn, "status") {
        "completed" => turn["output"]["reply"].as_str().unwrap_or_default().to_owned(),
        "interrupted" => {
            let options = turn["interrupt"]["options"].as_array().cloned().unwrap_or_default();
            let listed = options
                .iter()
                .enumerate()
                .map(|(n, it)| format!("\n  {}. {}", n + 1, it.as_str().unwrap_or_default()));
            let thread = name(turn, "thread_id");
            let asked = name(&turn["interrupt"], "question");
            // Words to the thread do not settle a call in doubt: they wait until it is settled.
            let how = match name(&turn["interrupt"], "kind") {
                "in_doubt" => format!("inbox answer {thread} ANSWER"),
                _ => format!("turn send --thread {thread} ANSWER"),
            };
            format!("{asked}{}\n(answer with: turnfold {how})", listed.collect::<String>())
        }
        "failed" => {
            let id = name(turn, "id");
            format!("failed: {}\n(try again with: turnfold turn retry {id})", name(turn, "error"))
        }
        status => format!("turn {} of thread {} is {status}", name(turn, "id"), name(turn, "thread_id")),
    })?;
    Ok(exit(turn))
}

fn exit(turn: &Value) -> Exit {
    match name(turn, "status") {
        "failed" | "cancelled" => Exit::Finding,
        "interrupted" => Exit::Waiting,
        _ => Exit::Ok,
    }
}

fn asked(turn: &Value) -> String {
    let words =
        turn["input"].as_array().and_then(|it| it.last()).map(|it| name(it, "content")).unwrap_or_default();
    let short: String = words.chars().take(60).collect();
    if short.len() < words.len() { format!("{short}…") } else { short }
}

pub(super) fn name<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

pub(super) fn stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|err| {
        if err.kind() == ErrorKind::InvalidData {
            return Stop::because(Exit::Usage, "what stdin says is no text in UTF-8");
        }
        anyhow::Error::new(err).context("cannot read stdin")
    })?;
    Ok(text)
}
