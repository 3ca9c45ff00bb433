//! `turnfold thread fork`: a new thread from a copy of a log, with changes.

use std::{collections::BTreeMap, fs, ops::ControlFlow};

use api_types::{LogStatus, Page, Thread, Turn};
use reqwest::Method;
use serde_json::{Value, json};
use shared::{Event, Request};
use store::ThreadId;

use super::fork_list;
use crate::{
    args::Fork,
    client::{Client, path, with_idempotency_key},
    commands::{
        Context, follow,
        source::{Source, named},
    },
    exit::{CliError, Exit},
    json_option::parse_json,
    output::{self, counted},
};

pub(super) async fn run(ctx: &Context, args: Fork) -> anyhow::Result<Exit> {
    if let Some(file) = &args.from_list {
        return fork_list::run(ctx, &args, file).await;
    }
    let client = ctx.client()?;
    let id = named(&client, args.id.as_deref().unwrap_or("last")).await?;
    let body = body(&args)?;
    if let Some(at) = args.at {
        let writes = writes_after(&client, id.parse()?, at).await?;
        if !writes.is_empty() {
            output::note(&warning(&writes, "the recorded thread"));
        }
    }
    let thread = fork(&client, &id, &body, args.idempotency_key, args.wait).await?;
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
    Ok(if args.wait { exit_of(&thread) } else { Exit::Ok })
}

/// Builds the body of the request.
pub(super) fn body(args: &Fork) -> anyhow::Result<Value> {
    let Fork { at, tune, budget, model, prompt, learn, answer, .. } = args;
    let mut body = json!({"prompts": prompts(prompt)?, "answer": answer});
    if let Some(at) = at {
        body["at"] = json!(at);
    }
    if let Some(tune) = tune {
        body["config"] = parse_json("--tune", tune)?;
    }
    if let Some(budget) = budget {
        body["budget"] = parse_json("--budget", budget)?;
    }
    if let Some(model) = model {
        body["config"]["model"] = json!(model);
    }
    body["facts"] =
        learn.iter().map(|text| parse_json("--learn", text)).collect::<anyhow::Result<Vec<_>>>()?.into();
    Ok(body)
}

/// Creates a fork, and waits until it is idle if `wait` says so.
pub(super) async fn fork(
    client: &Client,
    id: &str,
    body: &Value,
    key: Option<String>,
    wait: bool,
) -> anyhow::Result<Thread> {
    let request = client.request(Method::POST, &path(&["threads", id, "fork"])?).json(body);
    let thread: Thread = client.fetch(with_idempotency_key(request, key)?).await?;
    match wait {
        true => wait_until_idle(client, &thread.summary.id.to_string()).await,
        false => Ok(thread),
    }
}

/// Number of calls of each tool.
pub(super) type Writes = BTreeMap<String, u64>;

/// Counts the calls that may change something and that a thread began after event `at`.
pub(super) async fn writes_after(client: &Client, id: ThreadId, at: u64) -> anyhow::Result<Writes> {
    let (mut writes, mut asked) = (Writes::new(), Vec::new());
    let source = Source::of(client);
    let scanned = source.scan(id, at, |recorded| {
        if let Event::Asked(event) = recorded.event {
            asked = event.requests;
        } else if let Event::Attempted(event) = recorded.event
            && at < recorded.seq
        {
            let tool = match asked.get(event.slot) {
                Some(Request::CallTool { server, call }) => format!("{server}.{}", call.name),
                Some(_) | None => "a call that was under way".to_owned(),
            };
            *writes.entry(tool).or_default() += 1;
        }
        Ok(ControlFlow::Continue(()))
    });
    scanned.await?;
    Ok(writes)
}

/// The warning about calls that a fork may make again.
pub(super) fn warning(writes: &Writes, whose: &str) -> String {
    let listed: Vec<String> = writes.iter().map(|(tool, times)| format!("{times} × {tool}")).collect();
    format!(
        "warning: a fork asks live models and calls live tools. After that event, {whose} made {} that may change something, and the \
         fork may make them again: {}\nhint: turnfold whatif run writes nothing",
        counted(writes.values().sum::<u64>(), "call"),
        listed.join(", ")
    )
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
