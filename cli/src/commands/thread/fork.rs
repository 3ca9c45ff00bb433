//! `turnfold thread fork`: another thread that begins with a copy of the log, and lives on with something changed.

use std::{collections::BTreeMap, fs};

use reqwest::Method;
use serde_json::{Value, json};

use super::named;
use crate::{
    args::Thread,
    client::{Client, keyed, path},
    commands::{Given, turn::json_of},
    exit::{Exit, Stop},
    output,
};

/// How long one request waits for the end of a turn, in seconds.
const PATIENCE: u64 = 30;

pub(super) async fn fork(given: &Given, command: Thread) -> anyhow::Result<Exit> {
    let Thread::Fork { id, at, tune, budget, model, prompt, learn, answer, idempotency_key, wait } = command
    else {
        return Ok(Exit::Usage);
    };
    let mut body = json!({"prompts": prompts(&prompt)?, "answer": answer});
    if let Some(at) = at {
        body["at"] = at.into();
    }
    if let Some(tune) = tune {
        body["config"] = json_of("--tune", &tune)?;
    }
    if let Some(budget) = budget {
        body["budget"] = json_of("--budget", &budget)?;
    }
    if let Some(model) = model {
        body["config"]["model"] = model.into();
    }
    body["learned"] =
        learn.iter().map(|it| json_of("--learn", it)).collect::<anyhow::Result<Vec<_>>>()?.into();
    let client = Client::new(&given.settings, given.url.as_deref(), given.tenant.as_deref())?;
    let id = named(&client, &id).await?;
    let request = client.request(Method::POST, &path(&["threads", &id, "fork"])?).json(&body);
    let request = keyed(request, idempotency_key)?;
    let mut thread: Value = client.send(request).await?.json().await?;
    if wait {
        thread = rested(&client, thread["id"].as_str().unwrap_or_default()).await?;
    }
    output::one(given.format, &thread, || {
        let of = |name: &str| thread[name].as_str().unwrap_or_default().to_owned();
        let goes_on = match thread["standing"].as_str() {
            Some("busy") => "goes on".to_owned(),
            _ => format!("is {}", of("standing")),
        };
        format!(
            "thread {} begins with events 0 to {} of {id} and {goes_on}",
            of("id"),
            thread["forked"]["seq"]
        )
    })?;
    Ok(if wait { ended(&thread) } else { Exit::Ok })
}

/// What the rest of a thread says to whoever waited for it.
pub(super) fn ended(thread: &Value) -> Exit {
    match thread["standing"].as_str() {
        Some("waiting") => Exit::Waiting,
        Some("failed") => Exit::Finding,
        _ => Exit::Ok,
    }
}

/// The thread, once its last turn has come to an end or asks a person.
async fn rested(client: &Client, id: &str) -> anyhow::Result<Value> {
    loop {
        let last = client.get(&format!("/v1/turns?thread_id={id}&limit=1")).await?;
        let turn = last["data"][0]["id"].as_str().unwrap_or_default();
        let turn = client.get(&format!("/v1/turns/{turn}?wait={PATIENCE}")).await?;
        if !matches!(turn["status"].as_str(), Some("queued" | "running")) {
            return client.get(&format!("/v1/threads/{id}")).await;
        }
    }
}

fn prompts(given: &[String]) -> anyhow::Result<BTreeMap<&str, String>> {
    given.iter().map(|it| prompt(it)).collect()
}

fn prompt(it: &str) -> anyhow::Result<(&str, String)> {
    let usage = |words: String| Stop::because(Exit::Usage, words);
    let (node, words) = it
        .split_once('=')
        .ok_or_else(|| usage(format!("--prompt {it:?}: write NODE=WORDS, or NODE=@FILE")))?;
    let words = match words.strip_prefix('@') {
        Some(file) => fs::read_to_string(file)
            .map_err(|err| usage(format!("--prompt {node}: cannot read {file}: {err}")))?,
        None => words.to_owned(),
    };
    Ok((node, words.trim_end().to_owned()))
}
