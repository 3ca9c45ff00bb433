//! Tells what was done, and what to type next.

use std::path::Path;

use serde_json::json;

use super::{
    Run,
    audit::{Audit, Fared},
    engine::Engine,
};
use crate::{commands::Given, output};

pub(super) fn tell(given: &Given, engine: &Engine, run: &Run, audit: &Audit) -> anyhow::Result<()> {
    let seconds = run.took.as_secs_f64();
    let rate = audit.nodes as f64 / seconds;
    let turns: Vec<String> = audit.turns.iter().map(|(status, n)| format!("{n} {status}")).collect();
    let thing = json!({
        "model": engine.model(), "seconds": seconds, "threads": audit.threads, "turns": audit.turns.iter().map(|(k, n)| (k.to_string(), n)).collect::<std::collections::BTreeMap<_, _>>(),
        "strategies": audit.strategies,
        "events": audit.events, "nodes": audit.nodes, "nodes_per_second": rate, "model_calls": audit.model_calls,
        "tool_calls": audit.tool_calls, "writes": audit.writes, "writes_once": audit.once, "answers": run.answers,
        "unanswered": run.unanswered.iter().map(|(id, question)| json!({"thread": id.to_string(), "question": question})).collect::<Vec<_>>(),
        "under_way_at_kill": run.under_way, "reconciled": run.reconciled, "findings": audit.findings,
    });
    output::one(given.format, &thing, || {
        let mut out = String::new();
        if let Some((id, log)) = &audit.survivor {
            out += &format!("One of the threads that were under way when the engine was killed ({id}):\n\n");
            let mut alive = true;
            for it in log {
                if alive && run.killed_at < it.at {
                    alive = false;
                    out += "     ══════ SIGKILL: the engine died here; what follows was done by the next one ══════\n";
                }
                out += &format!("{:>4} {}\n", it.seq, it.event);
            }
        }
        out += &format!(
            "\nDone in {seconds:.1} s, the kill and the restart included ({})\n\n\
             \x20 turns         {} ({} of them begun by answers that a person gave)\n\
             {}\
             \x20 nodes         {} ({rate:.0} a second)\n\
             \x20 events        {}, in {} threads\n\
             \x20 model calls   {}\n\
             \x20 tool calls    {}, {} of them writes\n\
             \x20 writes        {} of {} stand in the servers' own books exactly once\n\
             \x20 the kill      {} under way; {} in doubt and settled by looking\n\n",
            engine.model(),
            turns.join(", "),
            run.answers,
            strategies(audit),
            audit.nodes,
            audit.events,
            audit.threads,
            audit.model_calls,
            audit.tool_calls,
            audit.writes,
            audit.once,
            audit.writes,
            were(run.under_way, "turn"),
            were(run.reconciled, "write"),
        );
        for (id, question) in &run.unanswered {
            out += &format!("Left open, as the file has no answer to it: thread {id} asks: {question}\n\n");
        }
        out += &match audit.findings.as_slice() {
            [] => format!(
                "Proof: all {} logs were folded again and give the stored result, today's code decides every step as it\n\
                 was decided, and every hash chain holds.\n",
                audit.threads
            ),
            findings => format!("NOT CLEAN:\n  {}\n", findings.join("\n  ")),
        };
        out + &next(engine.folder(), audit)
    })
}

/// So many of something were.
fn were(n: impl TryInto<u64>, what: &str) -> String {
    let counted = output::counted(n, what);
    let were = if counted.starts_with("1 ") { "was" } else { "were" };
    format!("{counted} {were}")
}

/// How the turns of each strategy ended, a line each.
fn strategies(audit: &Audit) -> String {
    let line = |(nth, (name, it)): (usize, (&String, &Fared))| {
        let head = if nth == 0 { "ended well" } else { "" };
        format!("  {head:<12}  {name:<20} {} of {} turns\n", it.ended_well, it.turns)
    };
    audit.strategies.iter().enumerate().map(line).collect()
}

fn next(folder: &Path, audit: &Audit) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "turnfold".to_owned());
    let here = std::env::current_dir().unwrap_or_default();
    let config = folder.strip_prefix(&here).unwrap_or(folder).join("turnfold.toml");
    let turnfold = format!("{program} --config {}", config.display());
    let id = audit.survivor.as_ref().map_or("last".to_owned(), |(id, _)| id.to_string());
    format!(
        "\nNext:\n\
         \x20 {turnfold} thread verify {id}\n\
         \x20 {turnfold} thread state {id} --at 10\n\
         \x20 {turnfold} dev\n\
         and then, beside it:\n\
         \x20 {turnfold} turn send \"Book a walk on Friday at 15\" --follow\n"
    )
}
