//! `turnfold thread show` and `thread state`.

use serde_json::json;
use shared::{DynThread, RunStatus, visible};
use store::{ThreadId, ThreadStatus};

use crate::{
    commands::{Context, source::Source},
    exit::Exit,
    output,
};

pub(super) async fn show(ctx: &Context, source: &Source, id: ThreadId) -> anyhow::Result<Exit> {
    let thread = source.fold(ctx, id, None).await?;
    let turns = source.turns(id).await?;
    let standing = thread.status();
    let usage = api_types::Usage::from(thread.usage());
    let (question, error) = match &standing {
        RunStatus::Waiting(interrupt) => (Some(interrupt), None),
        RunStatus::Failed { reason, .. } => (None, Some(reason)),
        RunStatus::Idle | RunStatus::Busy => (None, None),
    };
    let node = match &standing {
        RunStatus::Failed { node, .. } => Some(node.to_string()),
        RunStatus::Idle | RunStatus::Busy | RunStatus::Waiting(_) => {
            thread.node().map(|node| node.to_string())
        }
    };
    let thing = json!({
        "id": id, "strategy": thread.strategy(), "status": status_of(&*thread).to_string(), "node": node, "error": error,
        "question": question.map(|interrupt| json!({"kind": interrupt.kind.name(), "question": interrupt.question, "options": interrupt.options})),
        "events": thread.seq(), "turns": turns, "reply": thread.reply(), "usage": usage,
    });
    output::one(ctx.format, &thing, || {
        let status = match &standing {
            RunStatus::Idle => "is idle".to_owned(),
            RunStatus::Busy => format!("is busy at node {}", thread.node().unwrap_or_default()),
            RunStatus::Waiting(interrupt) => {
                format!("waits for a person ({}): {}", interrupt.kind.name(), visible(&interrupt.question))
            }
            RunStatus::Failed { node, reason } => format!("failed at node {node}: {reason}"),
        };
        format!(
            "thread {id} ({}) {status}\nturns: {turns}, events: {}\nusage: {}\nlast reply: {}",
            thread.strategy(),
            thread.seq(),
            output::usage(&usage),
            thread.reply().unwrap_or("none")
        )
    })?;
    Ok(Exit::Ok)
}

pub(super) async fn state(
    ctx: &Context,
    source: &Source,
    id: ThreadId,
    at: Option<u64>,
) -> anyhow::Result<Exit> {
    let thread = source.fold(ctx, id, at).await?;
    let thing = json!({
        "seq": thread.seq() - 1, "state": thread.state()?, "messages": thread.messages(),
    });
    output::one(ctx.format, &thing, || {
        let line = |message: &shared::Message| format!("{}: {}\n", message.role.name(), message.content);
        let messages: String = thread.messages().iter().map(line).collect();
        format!("after event {}\n\n{messages}\nstate {:#}", thing["seq"], thing["state"])
    })?;
    Ok(Exit::Ok)
}

/// Returns the status that a thread's row must have according to its log.
pub(crate) fn status_of(thread: &dyn DynThread) -> ThreadStatus {
    match thread.status() {
        RunStatus::Idle => ThreadStatus::Idle,
        RunStatus::Busy => ThreadStatus::Busy,
        RunStatus::Waiting(_) => ThreadStatus::Interrupted,
        RunStatus::Failed { .. } => ThreadStatus::Error,
    }
}
