//! `turnfold turn`: says things to agents, through the api.

use std::io::{ErrorKind, Read as _};

use reqwest::Url;
use serde_json::{Map, Value, json};
use shared::Question;
use store::{Conditions, TurnId, time};

use super::{Given, follow, redrive, thread};
use crate::{
    args::{GroupBy, Send, Turn, word},
    client::{Client, keyed, listed, name, path},
    exit::{Exit, Stop},
    output::{self, Format},
};

pub(crate) async fn run(given: Given, command: Turn) -> anyhow::Result<Exit> {
    let client = given.client()?;
    match command {
        Turn::Send(it) => send(&given, &client, it).await,
        Turn::Ls { conditions, group_by: Some(GroupBy::Cause), limit, .. } => {
            redrive::causes(&given, &client, conditions.as_deref(), limit).await
        }
        Turn::Ls { thread, status, conditions, group_by: None, limit } => {
            ls(&given, &client, thread, status, conditions, limit).await
        }
        Turn::Get { id, wait } => {
            let mut turn: Value = client.get(&path(&["turns", &named(&client, &id).await?])?).await?;
            if wait {
                turn = follow::until_ended(&client, &turn).await?;
            }
            if given.format == Format::Text && turn["took"].is_object() {
                output::remark(&format!("took: {}", output::took(&turn["took"])));
            }
            show(&given, &turn)?;
            Ok(if wait { exit(&turn) } else { Exit::Ok })
        }
        Turn::Cancel { id } => act(&given, &client, &id, "cancel").await,
        Turn::Retry { id } => act(&given, &client, &id, "retry").await,
        Turn::Redrive { conditions, rate, dry_run, yes } => {
            let how = redrive::How { conditions, pause: rate, dry_run, yes };
            redrive::run(&given, &client, &how).await
        }
    }
}

/// The id of the turn that is meant.
async fn named(client: &Client, id: &str) -> anyhow::Result<String> {
    if id != "last" {
        let (text, id): (_, Result<TurnId, _>) = (id, id.parse());
        return id.map(|it| it.to_string()).map_err(|_| no_id(text, "turn", "turn ls"));
    }
    let newest = client.get("/v1/turns?limit=1").await?;
    let id = newest["data"][0]["id"].as_str().map(str::to_owned);
    id.ok_or_else(|| Stop::because(Exit::Usage, "there is no turn yet"))
}

/// What is said of an id that is none.
pub(super) fn no_id(text: &str, what: &str, list: &str) -> anyhow::Error {
    let words = format!("{text:?} is no id of a {what}: `turnfold {list}` lists them");
    Stop::because(Exit::Usage, words)
}

async fn act(given: &Given, client: &Client, id: &str, act: &str) -> anyhow::Result<Exit> {
    let path = path(&["turns", &named(client, id).await?, act])?;
    show(given, &client.post(&path, &json!({})).await?)?;
    Ok(Exit::Ok)
}

async fn ls(
    given: &Given,
    client: &Client,
    thread: Option<String>,
    status: Option<String>,
    conditions: Option<String>,
    limit: u64,
) -> anyhow::Result<Exit> {
    let thread = match thread {
        Some(id) => format!("&thread_id={}", thread::named(client, &id).await?),
        None => String::new(),
    };
    let status = status.map(|it| format!("&status={it}")).unwrap_or_default();
    let asked_for = asked_for(conditions.as_deref())?;
    let page = client.get(&format!("/v1/turns?limit={limit}{thread}{status}{asked_for}")).await?;
    let turns = listed(&page);
    if turns.is_empty() {
        known_strategies(client, conditions.as_deref()).await?;
    }
    output::many(given.format, turns, || {
        let row = |it: &Value| {
            let cells = ["id", "strategy", "status", "created_at"].map(|column| name(it, column).to_owned());
            [cells.to_vec(), vec![asked(it)]].concat()
        };
        output::table(&["turn", "strategy", "status", "created", "input"], turns.iter().map(row))
    })?;
    if page["has_more"] == true {
        output::remark("(there are more: --limit)");
    }
    Ok(Exit::Ok)
}

/// Refuses conditions that nothing fulfils because they name a strategy that the api does not know: a typo, of which an empty
/// list would say nothing.
pub(super) async fn known_strategies(client: &Client, conditions: Option<&str>) -> anyhow::Result<()> {
    let read = conditions.and_then(|it| Conditions::parse(it, time::now()).ok());
    let Some(read) = read.filter(|it| it.strategies().next().is_some()) else { return Ok(()) };
    let page = client.get("/v1/strategies").await?;
    let known: Vec<&str> = listed(&page).iter().map(|it| name(it, "name")).collect();
    match read.strategies().find(|it| !known.contains(it)) {
        Some(name) => Err(unknown_strategy(name, &known)),
        None => Ok(()),
    }
}

/// What is said of a strategy that nobody knows.
pub(super) fn unknown_strategy(name: &str, known: &[&str]) -> anyhow::Error {
    let words = format!("--where: no strategy is called {name:?}; there are: {}", known.join(", "));
    Stop::because(Exit::Usage, words)
}

/// Conditions, as they stand in a query.
pub(super) fn asked_for(conditions: Option<&str>) -> anyhow::Result<String> {
    let Some(conditions) = conditions else { return Ok(String::new()) };
    // Only for its way of writing what a query cannot hold.
    let url = Url::parse_with_params("http://api/", [("where", conditions)])?;
    Ok(format!("&{}", url.query().unwrap_or_default()))
}

async fn send(given: &Given, client: &Client, what: Send) -> anyhow::Result<Exit> {
    let Send {
        text,
        strategy,
        thread,
        tune,
        budget,
        metadata,
        priority,
        delay,
        not_before,
        replan,
        idempotency_key,
        wait,
        follow,
    } = what;
    let text = if text == "-" { stdin()? } else { text };
    let mut body = json!({ "input": text });
    // What the thread asks before it hears this, and how many events there are of it.
    let mut before = Value::Null;
    match thread {
        Some(thread) => {
            let id = thread::named(client, &thread).await?;
            if wait || follow {
                before = client.get(&path(&["threads", &id])?).await?;
            }
            body["thread_id"] = json!(id);
        }
        None => body["strategy"] = json!(strategy),
    }
    if let Some(tune) = tune {
        body["config"] = json_of("--tune", &tune)?;
    }
    if let Some(budget) = budget {
        body["budget"] = json_of("--budget", &budget)?;
    }
    if !metadata.is_empty() {
        body["metadata"] =
            Value::Object(metadata.iter().map(|it| pair(it)).collect::<Result<Map<_, _>, _>>()?);
    }
    if let Some(priority) = priority {
        body["priority"] = json!(word(&priority));
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
    if !wait && !follow {
        output::one(given.format, &turn, || {
            let (id, thread) = (name(&turn, "id"), name(&turn, "thread_id"));
            let due = follow::not_due(&turn).map(|it| format!(", and not heard before {it}"));
            format!("turn {id} of thread {thread} is {}{}", name(&turn, "status"), due.unwrap_or_default())
        })?;
        return Ok(Exit::Ok);
    }
    follow::say_which(&turn);
    let turn = if follow {
        let turn = follow::turn(given, client, &turn, before["events"].as_u64().unwrap_or(0)).await?;
        hint(&turn).iter().for_each(|it| output::remark(it));
        turn
    } else {
        let turn = follow::until_ended(client, &turn).await?;
        show(given, &turn)?;
        turn
    };
    if is_asked_again(&before["interrupt"], &turn["interrupt"], &text) {
        output::remark(&format!("{text:?} is none of the options, so it is asked again"));
    }
    Ok(exit(&turn))
}

/// Whether the same choice stands there again, because what was said is none of its options.
fn is_asked_again(before: &Value, now: &Value, text: &str) -> bool {
    let Some(options) = now["options"].as_array().filter(|it| !it.is_empty()) else { return false };
    let same = ["question", "options"].iter().all(|it| before[it] == now[it]);
    let options: Vec<String> = options.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect();
    same && Question::chosen(&options, text).is_none()
}

/// What an option says that is JSON.
pub(super) fn json_of(option: &str, text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text)
        .map_err(|err| Stop::because(Exit::Usage, format!("{option} is no JSON: {err}")))
}

/// A key and what stands there; what is no JSON is text.
fn pair(text: &str) -> anyhow::Result<(String, Value)> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
        Stop::because(Exit::Usage, format!("--metadata {text:?}: write KEY=VALUE, as in customer=17"))
    })?;
    Ok((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value))))
}

/// Prints how far a turn has come.
pub(super) fn show(given: &Given, turn: &Value) -> anyhow::Result<()> {
    output::one(given.format, turn, || {
        let hint = hint(turn).map(|it| format!("\n{it}")).unwrap_or_default();
        match name(turn, "status") {
            "completed" => name(&turn["output"], "reply").to_owned(),
            "interrupted" => {
                let options = turn["interrupt"]["options"].as_array().cloned().unwrap_or_default();
                let listed = options
                    .iter()
                    .enumerate()
                    .map(|(n, it)| format!("\n  {}. {}", n + 1, it.as_str().unwrap_or_default()));
                format!("{}{}{hint}", name(&turn["interrupt"], "question"), listed.collect::<String>())
            }
            "failed" => format!("failed: {}{hint}", name(turn, "error")),
            status => format!("turn {} of thread {} is {status}", name(turn, "id"), name(turn, "thread_id")),
        }
    })
}

/// How it goes on, if that is up to somebody.
fn hint(turn: &Value) -> Option<String> {
    let thread = name(turn, "thread_id");
    match (name(turn, "status"), name(&turn["interrupt"], "kind")) {
        // Words to the thread do not settle a call in doubt: they wait until it is settled.
        ("interrupted", "in_doubt") => Some(format!("(answer with: turnfold inbox answer {thread} ANSWER)")),
        ("interrupted", _) => Some(format!("(answer with: turnfold turn send --thread {thread} ANSWER)")),
        ("failed", _) => Some(format!("(try again with: turnfold turn retry {})", name(turn, "id"))),
        _ => None,
    }
}

/// What the end of a turn says to whoever waited for it.
pub(super) fn exit(turn: &Value) -> Exit {
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
