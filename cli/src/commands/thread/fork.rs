//! `turnfold thread fork`: a new thread from a copy of a log, with changes.

use std::{collections::BTreeMap, fs};

use api_types::{LogStatus, Page, Thread, Turn};
use reqwest::Method;
use serde_json::json;

use crate::{
    args::Fork,
    client::{Client, path, with_idempotency_key},
    commands::{Context, follow, source::named},
    exit::{CliError, Exit},
    json_option::parse_json,
    output,
};

pub(super) async fn run(ctx: &Context, args: Fork) -> anyhow::Result<Exit> {
    let Fork { id, at, tune, budget, model, prompt, learn, answer, idempotency_key, wait } = args;
    let mut body = json!({"prompts": prompts(&prompt)?, "answer": answer});
    if let Some(at) = at {
        body["at"] = at.into();
    }
    if let Some(tune) = tune {
        body["config"] = parse_json("--tune", &tune)?;
    }
    if let Some(budget) = budget {
        body["budget"] = parse_json("--budget", &budget)?;
    }
    if let Some(model) = model {
        body["config"]["model"] = model.into();
    }
    body["facts"] =
        learn.iter().map(|text| parse_json("--learn", text)).collect::<anyhow::Result<Vec<_>>>()?.into();
    let client = ctx.client()?;
    let id = named(&client, &id).await?;
    let request = client.request(Method::POST, &path(&["threads", &id, "fork"])?).json(&body);
    let mut thread: Thread = client.fetch(with_idempotency_key(request, idempotency_key)?).await?;
    if wait {
        thread = wait_until_idle(&client, &thread.summary.id.to_string()).await?;
    }
    output::one(ctx.format, &thread, || {
        let status = if thread.log_status == LogStatus::Busy {
            "continues".to_owned()
        } else {
            format!("is {}", output::json_name(&thread.log_status))
        };
        format!(
            "thread {} is a copy of events 0 to {} of {id} and {status}",
            thread.summary.id,
            thread.forked.as_ref().map_or(0, |forked| forked.seq)
        )
    })?;
    Ok(if wait { exit_of(&thread) } else { Exit::Ok })
}

/// Returns the exit code for a thread that was waited for.
pub(super) fn exit_of(thread: &Thread) -> Exit {
    match thread.log_status {
        LogStatus::Waiting => Exit::Waiting,
        LogStatus::Failed => Exit::Finding,
        LogStatus::Idle | LogStatus::Busy => Exit::Ok,
    }
}

/// Waits until the last turn of a thread ends or asks a person, and returns the thread.
async fn wait_until_idle(client: &Client, id: &str) -> anyhow::Result<Thread> {
    let last: Page<Turn> = client.get(&format!("/v1/turns?thread_id={id}&limit=1")).await?;
    if let Some(turn) = last.data.first() {
        follow::announce(turn);
        follow::until_ended(client, turn).await?;
    }
    client.get(&path(&["threads", id])?).await
}

fn prompts(overrides: &[String]) -> anyhow::Result<BTreeMap<&str, String>> {
    overrides.iter().map(|text| prompt(text)).collect()
}

fn prompt(argument: &str) -> anyhow::Result<(&str, String)> {
    let usage = |message: String| CliError::with_exit(Exit::Usage, message);
    let (node, text) = argument
        .split_once('=')
        .ok_or_else(|| usage(format!("--prompt {argument:?}: expected NODE=TEXT or NODE=@FILE")))?;
    let text = match text.strip_prefix('@') {
        Some(file) => fs::read_to_string(file)
            .map_err(|err| usage(format!("--prompt {node}: cannot read {file}: {err}")))?,
        None => text.to_owned(),
    };
    Ok((node, text.trim_end().to_owned()))
}
