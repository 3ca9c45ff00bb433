//! `turnfold thread why`: the last decision and its reason, and what the thread waits for.

use api_types::{Decision, EventText, Explanation, LogStatus, WaitReason};
use audit::Explainer;
use store::ThreadId;

use crate::{
    client::path,
    commands::{Context, source::Source},
    exit::Exit,
    output::{self, counted},
};

pub(super) async fn run(
    ctx: &Context,
    source: &Source,
    id: ThreadId,
    at: Option<u64>,
) -> anyhow::Result<Exit> {
    source.check_event(id, at).await?;
    let why = explanation(ctx, source, id, at).await?;
    output::one(ctx.format, &why, || {
        let mut text = match &why.decision {
            Some(decided) => decision(decided),
            None => "no decision yet in this turn\n".to_owned(),
        };
        let now = if at.is_none() { "now".to_owned() } else { format!("after event {}", why.seq) };
        text += &format!("{now}: {}", status(&why));
        text.extend(why.waits.iter().map(|reason| format!("\n     {}", wait(reason))));
        text
    })?;
    Ok(Exit::Ok)
}

async fn explanation(
    ctx: &Context,
    source: &Source,
    id: ThreadId,
    at: Option<u64>,
) -> anyhow::Result<Explanation> {
    match source {
        Source::Api(client) => {
            let up_to = at.map(|at| format!("?at={at}")).unwrap_or_default();
            client.get(&format!("{}{up_to}", path(&["threads", &id.to_string(), "why"])?)).await
        }
        Source::Database { store, .. } => {
            let mut explainer = Explainer::new(source.graph(ctx, id).await?);
            source.scan_to(id, at, |recorded| Ok(explainer.see(&recorded.event)?)).await?;
            let mut why = explainer.finish()?;
            if at.is_none() {
                why.waits = audit::waits(store, id).await?;
            }
            Ok(why)
        }
    }
}

fn decision(decision: &Decision) -> String {
    let mut text = format!("event {}: {} → {}\n", decision.seq, decision.node, decision.to);
    text += &match &decision.reason {
        Some(reason) => format!("because {reason}\n"),
        None if decision.answers.is_empty() => "from its state; no threshold was involved\n".to_owned(),
        None => "from the answers; no threshold was involved\n".to_owned(),
    };
    let lines = |what: &str, lines: &[EventText]| {
        lines.iter().map(|line| format!("{what} {:>4} {}\n", line.seq, line.text)).collect::<String>()
    };
    text += &lines("asked   ", &decision.requests);
    text += &lines("answered", &decision.answers);
    text.extend(decision.facts.iter().map(|fact| format!("fact {fact}\n")));
    if !decision.alternatives.is_empty() {
        text += &format!("alternatives: {}\n", decision.alternatives.join("; "));
    }
    text
}

fn status(why: &Explanation) -> String {
    let node = why.node.as_deref().unwrap_or_default();
    match why.status {
        LogStatus::Idle => "idle: the next message starts a turn".to_owned(),
        LogStatus::Waiting => format!("asks a person: {}", why.question.as_deref().unwrap_or_default()),
        LogStatus::Failed => format!("failed at {node}: {}", why.cause.as_deref().unwrap_or_default()),
        LogStatus::Busy if why.pending.is_empty() => format!("runs {node}"),
        LogStatus::Busy => format!("runs {node}, which waits for: {}", why.pending.join(", ")),
    }
}

fn wait(reason: &WaitReason) -> String {
    match reason {
        WaitReason::Paused { kind, name, text } if text.is_empty() => format!("{kind} {name} is paused"),
        WaitReason::Paused { kind, name, text } => format!("{kind} {name} is paused: {text}"),
        WaitReason::NotDue { until } => format!("a turn is not due before {until}"),
        WaitReason::Queued { turns } => format!("{} queued", counted(*turns, "turn")),
    }
}
