//! The demo's report: the story of one thread, the figures, the proof, and the commands to try next.

use serde_json::{Value, json};

use super::{
    Run,
    audit::{Audit, StrategyResult},
    engine::Engine,
    story::story,
};
use crate::{
    commands::Context,
    output::{self, counted},
};

/// Maximum number of findings, failures or open questions listed; the rest is counted.
const MAX_LISTED: usize = 5;

pub(super) fn print(ctx: &Context, engine: &Engine, run: &Run, audit: &Audit) -> anyhow::Result<()> {
    output::one(ctx.format, &as_json(engine, run, audit), || {
        let sections = [across_the_kill(run, audit), figures(run, audit), problems(run, audit), proof(audit)];
        let text: String = sections.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n");
        text + &next(engine, audit)
    })
}

fn as_json(engine: &Engine, run: &Run, audit: &Audit) -> Value {
    let turns: serde_json::Map<_, _> =
        audit.turns.iter().map(|(status, n)| (status.to_string(), json!(n))).collect();
    let unanswered = run.unanswered.iter();
    json!({
        "model": engine.model(), "seconds": run.elapsed.as_secs_f64(), "threads": audit.threads, "turns": turns,
        "strategies": audit.strategies, "failures": audit.failures,
        "events": audit.events, "nodes": audit.nodes, "nodes_per_second": rate(run, audit),
        "model_calls": audit.model_calls, "tool_calls": audit.tool_calls,
        "writes": audit.writes, "writes_once": audit.writes_once,
        "writes_unchanged": audit.writes_unchanged, "answers": run.answers,
        "unanswered": unanswered.map(|(id, question)| json!({"thread": id.to_string(), "question": question})).collect::<Vec<_>>(),
        "running_at_kill": run.running_at_kill, "reconciled": run.reconciled, "findings": audit.findings,
    })
}

fn rate(run: &Run, audit: &Audit) -> f64 {
    audit.nodes as f64 / run.elapsed.as_secs_f64()
}

fn across_the_kill(run: &Run, audit: &Audit) -> String {
    let Some((_, log)) = &audit.survivor else { return String::new() };
    let lines = story(log, run.killed_at).join("\n");
    format!("One of the turns that were running when the engine was killed:\n\n{lines}\n")
}

fn figures(run: &Run, audit: &Audit) -> String {
    let turns = audit.turns.iter();
    let turns: Vec<_> =
        turns.map(|(status, n)| format!("{n} {status}").replace("interrupted", "asked a person")).collect();
    format!(
        "Done in {:.1} s, including the kill and the restart\n\n\
         \x20 turns         {}; {} answered\n\
         {}\
         \x20 nodes         {} ({:.0} per second), {} in {}\n\
         \x20 calls         {} to models, {} to tools, {} of them writes\n\
         \x20 writes        {} of {} are in the servers' own data exactly once{}\n\
         \x20 the kill      {} running; {} without an answer, settled by reading the server's data\n",
        run.elapsed.as_secs_f64(),
        turns.join(", "),
        counted(run.answers as u64, "question"),
        strategies(audit),
        audit.nodes,
        rate(run, audit),
        counted(audit.events, "event"),
        counted(audit.threads, "thread"),
        audit.model_calls,
        audit.tool_calls,
        audit.writes,
        audit.writes_once,
        audit.writes,
        unchanged(audit),
        counted(run.running_at_kill, "turn"),
        counted(run.reconciled, "write"),
    )
}

/// Words for writes that found everything as they would have made it.
fn unchanged(audit: &Audit) -> String {
    match audit.writes_unchanged {
        0 => String::new(),
        some => format!(", and {some} changed nothing there"),
    }
}

/// Renders how the turns of each strategy ended, one line each.
fn strategies(audit: &Audit) -> String {
    let line = |(nth, (name, result)): (usize, (&String, &StrategyResult))| {
        let head = if nth == 0 { "ended well" } else { "" };
        format!("  {head:<12}  {name:<20} {} of {} turns\n", result.ended_well, result.turns)
    };
    audit.strategies.iter().enumerate().map(line).collect()
}

/// Questions without an answer, and failed turns by cause.
fn problems(run: &Run, audit: &Audit) -> String {
    let open = run.unanswered.iter().map(|(id, question)| format!("thread {id} asks: {question}"));
    let open = listed("Left open, because the file has no answer:", open.collect());
    let failed = audit.failures.iter().map(|(cause, n)| format!("{}: {cause}", counted(*n, "turn")));
    open + &listed("FAILED turns, by cause:", failed.collect())
}

fn proof(audit: &Audit) -> String {
    if audit.is_clean() {
        return format!(
            "Proof: every log ({}) gives the state in the tables, today's code makes every recorded decision again,\n\
             and the hashes of the events show that no log was changed.\n",
            audit.threads
        );
    }
    listed("NOT CLEAN:", audit.findings.clone())
}

/// A titled list of at most [`MAX_LISTED`] lines; empty if there are none.
fn listed(title: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let more = lines.len().saturating_sub(MAX_LISTED);
    let mut text = format!("{title}\n");
    for line in lines.into_iter().take(MAX_LISTED) {
        text += &format!("  {line}\n");
    }
    if more > 0 {
        text += &format!("  and {more} more\n");
    }
    text
}

fn next(engine: &Engine, audit: &Audit) -> String {
    let folder = engine.folder();
    let program = std::env::args().next().unwrap_or_else(|| "turnfold".to_owned());
    let here = std::env::current_dir().unwrap_or_default();
    let config = folder.strip_prefix(&here).unwrap_or(folder).join("turnfold.toml");
    let turnfold = format!("{program} --config {}", config.display());
    let (page, id) = match &audit.survivor {
        Some((id, _)) => (format!("/#/threads/{id}"), id.to_string()),
        None => (String::new(), "last".to_owned()),
    };
    format!(
        "\nLook at it:\n\
         \x20 {turnfold} dev\n\
         and open {url}{page}\n\
         In a second terminal:\n\
         \x20 {turnfold} turn send \"Book a walk on Friday at 15\" --follow\n\
         \x20 {turnfold} thread events {id}\n\
         \x20 {turnfold} thread replay {id}\n",
        url = engine.url()
    )
}
