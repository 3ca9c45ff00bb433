//! `turnfold thread why`: the last decision and its reason, and what the thread waits for.

use api_types::{Decision, EventText, Explanation, LogStatus, TimeKind, TimeTotal, WaitReason};
use store::ThreadId;

use crate::{
    client::{Client, path},
    commands::Context,
    exit::Exit,
    output::{self, counted},
};

pub(super) async fn run(
    ctx: &Context,
    client: &Client,
    id: ThreadId,
    at: Option<u64>,
) -> anyhow::Result<Exit> {
    let up_to = at.map(|at| format!("?at={at}")).unwrap_or_default();
    let path = path(&["threads", &id.to_string(), "why"])?;
    let why: Explanation = client.get(&format!("{path}{up_to}")).await?;
    output::one(ctx.format, &why, || {
        let mut text = match &why.decision {
            Some(decided) => decision(decided),
            None => "no decision yet in this turn\n".to_owned(),
        };
        let now = if at.is_none() { "now".to_owned() } else { format!("after event {}", why.seq) };
        text += &format!("{now}: {}", status(&why));
        text += &time(&why);
        text.extend(why.waits.iter().map(|reason| format!("\n     {}", wait(reason))));
        text
    })?;
    Ok(Exit::Ok)
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

/// Renders the time of the turn by its uses, the longest first, and its takeovers.
fn time(why: &Explanation) -> String {
    let mut totals: Vec<&TimeTotal> = why.time.iter().collect();
    totals.sort_by_key(|total| std::cmp::Reverse(total.ms));
    let all: u64 = totals.iter().map(|total| total.ms).sum();
    let uses: Vec<String> = totals
        .iter()
        .map(|total| format!("{} {}", use_of_time(total.kind), output::seconds(total.ms)))
        .collect();
    let mut text = match uses.is_empty() {
        true => String::new(),
        false => format!("\ntime {}: {}", output::seconds(all), uses.join(" · ")),
    };
    text.extend(why.takeovers.iter().map(|taken| {
        format!(
            "\nevent {}: {} took over from {}, which died or stalled",
            taken.seq, taken.worker, taken.from
        )
    }));
    text
}

fn use_of_time(kind: TimeKind) -> &'static str {
    match kind {
        TimeKind::Slot => "waiting for a slot",
        TimeKind::Limit => "waiting for a limit or provider",
        TimeKind::Person => "waiting for a person",
        TimeKind::Model => "model",
        TimeKind::Tool => "tool",
        TimeKind::Engine => "engine",
        TimeKind::NoWorker => "no worker alive",
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
