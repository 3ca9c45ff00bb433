//! `turnfold thread fork`: another thread that begins with a copy of the log, and lives on with something changed.

use std::{collections::BTreeMap, fs};

use reqwest::Method;
use serde_json::{Value, json};

use super::named;
use crate::{
    args::Fork,
    client::{Client, keyed, listed, name, path},
    commands::{Given, follow, turn::json_of},
    exit::{Exit, Stop},
    output,
};

pub(super) async fn fork(given: &Given, how: Fork) -> anyhow::Result<Exit> {
    let Fork { id, at, tune, budget, model, prompt, learn, answer, idempotency_key, wait } = how;
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
    let client = given.client()?;
    let id = named(&client, &id).await?;
    let request = client.request(Method::POST, &path(&["threads", &id, "fork"])?).json(&body);
    let request = keyed(request, idempotency_key)?;
    let mut thread: Value = client.send(request).await?.json().await?;
    if wait {
        thread = rested(&client, name(&thread, "id")).await?;
    }
    output::one(given.format, &thread, || {
        let goes_on = match name(&thread, "standing") {
            "busy" => "goes on".to_owned(),
            standing => format!("is {standing}"),
        };
        format!(
            "thread {} begins with events 0 to {} of {id} and {goes_on}",
            name(&thread, "id"),
            thread["forked"]["seq"]
        )
    })?;
    Ok(if wait { ended(&thread) } else { Exit::Ok })
}

/// What the rest of a thread says to whoever waited for it.
pub(super) fn ended(thread: &Value) -> Exit {
    match name(thread, "standing") {
        "waiting" => Exit::Waiting,
        "failed" => Exit::Finding,
        _ => Exit::Ok,
    }
}

/// The thread, once its last turn, if it has one, has come to an end or asks a person.
async fn rested(client: &Client, id: &str) -> anyhow::Result<Value> {
    let last = client.get(&format!("/v1/turns?thread_id={id}&limit=1")).await?;
    if let Some(turn) = listed(&last).first() {
        follow::say_which(turn);
        follow::until_ended(client, turn).await?;
    }
    client.get(&path(&["threads", id])?).await
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
