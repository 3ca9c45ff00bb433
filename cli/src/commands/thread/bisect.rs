//! `turnfold thread bisect`: the first event after which a condition holds, or the first build that decides differently.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Stdio,
};

use audit::{Condition, Found, Search};
use serde_json::{Value, json};
use store::ThreadId;
use threads::Predicate;
use tokio::process::Command;

use crate::{
    client::name,
    commands::{Context, source::Source},
    exit::{CliError, Exit},
    output,
};

pub(super) async fn event(
    ctx: &Context,
    source: &Source,
    id: ThreadId,
    condition: Option<&str>,
) -> anyhow::Result<Exit> {
    let sought = match condition {
        Some(text) => {
            let invalid =
                |err: store::FilterError| CliError::with_exit(Exit::Usage, format!("--where: {err}"));
            Condition::Holds(Predicate::parse(text).map_err(invalid)?)
        }
        None => Condition::Diverges,
    };
    let found = first(ctx, source, id, sought).await?;
    if found.is_none() {
        note_absent_paths(ctx, source, id, condition.unwrap_or_default()).await?;
    }
    output::one(ctx.format, &found, || match &found {
        None if condition.is_some() => "the condition holds after no event".to_owned(),
        None => "today's code makes every recorded decision".to_owned(),
        Some(found) => {
            let differs = found.divergence.as_ref().map(|divergence| {
                format!(
                    "\n{}, {}\n  recorded: {}\n  today:    {}",
                    divergence.node, divergence.field, divergence.then, divergence.today
                )
            });
            format!("{:>4} {}{}", found.seq, found.text, differs.unwrap_or_default())
        }
    })?;
    Ok(match (&found, condition) {
        (Some(_), None) | (None, Some(_)) => Exit::Finding,
        (Some(_), Some(_)) | (None, None) => Exit::Ok,
    })
}

/// Finds the first event after which `sought` holds.
async fn first(
    ctx: &Context,
    source: &Source,
    id: ThreadId,
    sought: Condition,
) -> anyhow::Result<Option<Found>> {
    let mut search = Search::new(source.graph(ctx, id).await?, sought);
    let mut found = None;
    source
        .scan(id, 0, |recorded| {
            found = search.see(&recorded.event)?;
            Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .await?;
    Ok(found)
}

/// Notes each state path of a condition that exists after no event: probably a typo.
async fn note_absent_paths(
    ctx: &Context,
    source: &Source,
    id: ThreadId,
    condition: &str,
) -> anyhow::Result<()> {
    let separator = |char: char| !char.is_alphanumeric() && !matches!(char, '.' | '_' | '-');
    for path in condition.split(separator).filter(|part| part.starts_with("state.")) {
        // An absent value compares as an empty text.
        let Ok(present) = Predicate::parse(&format!("{path} != ''")) else { continue };
        if first(ctx, source, id, Condition::Holds(present)).await?.is_none() {
            output::note(&format!(
                "{path} exists after no event; see the state with: turnfold thread state {id}"
            ));
        }
    }
    Ok(())
}

/// Replays the thread with each build in order, and stops at the first that decides differently.
pub(super) async fn builds(ctx: &Context, id: ThreadId, builds: &[PathBuf]) -> anyhow::Result<Exit> {
    let mut results = Vec::new();
    for build in builds {
        let result = replayed_by(ctx, id, build).await?;
        let diverged = result["verdict"] == "diverges";
        results.push(result);
        if diverged {
            break;
        }
    }
    let first = results.iter().find(|result| result["verdict"] == "diverges");
    let unchecked = results.iter().any(|result| result["verdict"] == "not_checked");
    let thing = json!({"thread": id, "first": first.map(|first| &first["build"]), "builds": results});
    output::one(ctx.format, &thing, || {
        let row = |value: &Value| {
            ["build", "verdict", "what"].map(|column| name(value, column).to_owned()).to_vec()
        };
        let rows = results.iter().map(row);
        let head = match first {
            Some(first) => format!("the first build that decides differently: {}", name(first, "build")),
            None => "none of these builds decides differently".to_owned(),
        };
        format!("{head}\n\n{}", output::table(&["build", "verdict", "what"], rows))
    })?;
    Ok(match (first, unchecked) {
        (Some(_), _) => Exit::Finding,
        (None, true) => Exit::Unchecked,
        (None, false) => Exit::Ok,
    })
}

/// Runs `thread replay` with another build, under the configuration of this process.
async fn replayed_by(ctx: &Context, id: ThreadId, build: &Path) -> anyhow::Result<Value> {
    let path = build.display().to_string();
    let output = Command::new(build)
        .args(&ctx.config_flags)
        .args(ctx.url.iter().flat_map(|url| ["--url", url]))
        .args(ctx.tenant.iter().flat_map(|tenant| ["--tenant", tenant]))
        .args(["thread", "replay", &id.to_string(), "--output", "json"])
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|err| CliError::with_exit(Exit::Usage, format!("--builds: cannot start {path}: {err}")))?;
    let report: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let divergences = report.as_ref().and_then(|report| report["divergences"].as_array());
    Ok(match (divergences.map(Vec::as_slice), output.status.code()) {
        (Some([]), _) => json!({"build": path, "verdict": "same", "what": ""}),
        (Some([first, ..]), _) => {
            let what = format!("event {}, {}, {}", first["seq"], name(first, "node"), name(first, "field"));
            json!({"build": path, "verdict": "diverges", "what": what, "divergence": first})
        }
        (None, code) => {
            let message = String::from_utf8_lossy(&output.stderr);
            let code = code.map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
            json!({"build": path, "verdict": "not_checked", "what": format!("{code}: {}", message.trim())})
        }
    })
}
