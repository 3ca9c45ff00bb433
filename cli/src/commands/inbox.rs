//! `turnfold inbox`: the questions that wait for a person, through the api.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{Given, follow, thread::named, turn};
use crate::{
    args::{Answer, Inbox},
    client::{Client, keyed, listed, name, path},
    exit::{Exit, Stop},
    output::{self, Format},
};

/// How often a watch looks. Nothing tells of the questions of all threads at once.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(given: Given, command: Inbox) -> anyhow::Result<Exit> {
    let client = given.client()?;
    match command {
        Inbox::Ls { watch: true, .. } if given.format == Format::Json => {
            let words =
                "-o json is one document, and --watch has no end: take -o jsonl, or leave one of them out";
            Err(Stop::because(Exit::Usage, words))
        }
        Inbox::Ls { kind, limit, watch } => {
            let kind = kind.map(|it| format!("&kind={it}")).unwrap_or_default();
            let path = format!("/v1/inbox?limit={limit}{kind}");
            let items = page(&client, &path).await?;
            list(&given, &items)?;
            if watch { again(&given, &client, &path, items).await } else { Ok(Exit::Ok) }
        }
        Inbox::Show { thread } => show(&given, &client, &named(&client, &thread).await?).await,
        Inbox::Answer(it) => answer(&given, &client, it).await,
    }
}

/// Lists again whenever something has changed since `items`, until nobody watches or the api is gone.
async fn again(given: &Given, client: &Client, path: &str, mut items: Vec<Value>) -> anyhow::Result<Exit> {
    loop {
        tokio::time::sleep(LOOK).await;
        let now = page(client, path).await?;
        if now != items {
            items = now;
            output::remark("");
            list(given, &items)?;
        }
    }
}

async fn page(client: &Client, path: &str) -> anyhow::Result<Vec<Value>> {
    Ok(listed(&client.get(path).await?).to_vec())
}

fn list(given: &Given, items: &[Value]) -> anyhow::Result<()> {
    output::many(given.format, items, || {
        if items.is_empty() {
            return "nobody is asked anything".to_owned();
        }
        let row = |it: &Value| {
            let cell = |field: &str| name(it, field).to_owned();
            vec![cell("thread_id"), cell("strategy"), cell("kind"), cell("asked_at"), asked(it)]
        };
        output::table(&["thread", "strategy", "kind", "asked", "question"], items.iter().map(row))
    })
}

/// The beginning of the question: it may be long, and of several lines.
fn asked(item: &Value) -> String {
    let line = name(item, "question").lines().next().unwrap_or_default();
    let short: String = line.chars().take(60).collect();
    if short.len() < name(item, "question").len() { format!("{short}…") } else { short }
}

async fn show(given: &Given, client: &Client, id: &str) -> anyhow::Result<Exit> {
    let thread = client.get(&path(&["threads", id])?).await?;
    if thread["interrupt"].is_null() {
        output::one(given.format, &Value::Null, || {
            format!("thread {id} is {} and asks nothing", name(&thread, "standing"))
        })?;
        return Ok(Exit::Ok);
    }
    let item = client.get(&path(&["inbox", id])?).await?;
    output::one(given.format, &item, || words(&item, id))?;
    Ok(Exit::Ok)
}

fn words(item: &Value, id: &str) -> String {
    let options = item["options"].as_array().cloned().unwrap_or_default();
    let listed = options
        .iter()
        .enumerate()
        .map(|(n, it)| format!("\n  {}. {}", n + 1, it.as_str().unwrap_or_default()))
        .collect::<String>();
    let ways = [
        ("allow_respond", "ANSWER"),
        ("allow_accept", "--accept"),
        ("allow_edit", "--edit JSON"),
        ("allow_ignore", "--ignore"),
    ];
    let allowed = |way: &str| item["interrupt"]["config"][way] == true;
    let ways: Vec<&str> = ways.into_iter().filter(|(way, _)| allowed(way)).map(|(_, how)| how).collect();
    format!(
        "{}: {}{listed}\nasked by {} at {}\n(answer with: turnfold inbox answer {id} {})",
        name(item, "kind"),
        name(item, "question"),
        name(item, "strategy"),
        name(item, "asked_at"),
        ways.join(" | ")
    )
}

async fn answer(given: &Given, client: &Client, how: Answer) -> anyhow::Result<Exit> {
    let Answer { thread, answer, accept, edit, ignore, idempotency_key, wait } = how;
    let body = match (answer, edit, accept, ignore) {
        (Some(text), ..) => {
            let text = if text == "-" { turn::stdin()? } else { text };
            json!({"type": "respond", "args": text})
        }
        (None, Some(edit), ..) => {
            json!({"type": "edit", "args": turn::json_of("--edit", &edit)?})
        }
        (None, None, true, _) => json!({"type": "accept"}),
        (None, None, false, true) => json!({"type": "ignore"}),
        (None, None, false, false) => {
            let words = "say what to answer: ANSWER, --accept, --edit JSON or --ignore";
            return Err(Stop::because(Exit::Usage, words));
        }
    };
    let thread = named(client, &thread).await?;
    let request = client.request(Method::POST, &path(&["inbox", &thread])?).json(&body);
    let request = keyed(request, idempotency_key)?;
    let answered: Value = client.send(request).await?.json().await?;
    if wait && !ignore {
        follow::say_which(&answered);
        let turn = follow::until_ended(client, &answered).await?;
        turn::show(given, &turn)?;
        return Ok(turn::exit(&turn));
    }
    output::one(given.format, &answered, || {
        let (id, status) = (name(&answered, "id"), name(&answered, "status"));
        format!("turn {id} of thread {thread} is {status}")
    })?;
    Ok(Exit::Ok)
}
