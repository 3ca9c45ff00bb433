//! `turnfold thread bisect`: the first event at which something holds, or the first of several builds that decides
//! otherwise.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::Stdio,
};

use audit::{Found, Search, Sought};
use serde_json::{Value, json};
use store::{Predicate, Store, ThreadId};
use tokio::process::Command;

use super::graph_of;
use crate::{
    client::name,
    commands::Given,
    exit::{Exit, Stop},
    output,
};

pub(super) async fn event(
    given: &Given,
    store: &Store,
    id: ThreadId,
    conditions: Option<&str>,
) -> anyhow::Result<Exit> {
    let sought = match conditions {
        Some(words) => {
            let wrong = |err: store::Unread| Stop::because(Exit::Usage, format!("--where: {err}"));
            Sought::Holds(Predicate::parse(words).map_err(wrong)?)
        }
        None => Sought::Diverges,
    };
    let found = first(given, store, id, sought).await?;
    if found.is_none() {
        tell_of_typos(given, store, id, conditions.unwrap_or_default()).await?;
    }
    output::one(given.format, &found, || match &found {
        None if conditions.is_some() => "it holds after no event".to_owned(),
        None => "today's code decides every step as the log says".to_owned(),
        Some(it) => {
            let differs = it.divergence.as_ref().map(|it| {
                format!("\n{}, {}\n  then:  {}\n  today: {}", it.node, it.field, it.then, it.today)
            });
            format!("{:>4} {}{}", it.seq, it.text, differs.unwrap_or_default())
        }
    })?;
    Ok(match (&found, conditions) {
        (Some(_), None) | (None, Some(_)) => Exit::Finding,
        (Some(_), Some(_)) | (None, None) => Exit::Ok,
    })
}

/// The first event after which that holds.
async fn first(given: &Given, store: &Store, id: ThreadId, sought: Sought) -> anyhow::Result<Option<Found>> {
    let mut search = Search::new(graph_of(given, store, id).await?, sought);
    let mut found = None;
    store
        .along_until(id, 0, |it| {
            found = search.see(&it.event)?;
            anyhow::Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .await?;
    Ok(found)
}

/// Says which paths into the state, of those that conditions name, led to nothing at any event.
async fn tell_of_typos(given: &Given, store: &Store, id: ThreadId, conditions: &str) -> anyhow::Result<()> {
    let in_no_path = |it: char| !it.is_alphanumeric() && !matches!(it, '.' | '_' | '-');
    for path in conditions.split(in_no_path).filter(|it| it.starts_with("state.")) {
        // What is not there is as an empty text.
        let Ok(there) = Predicate::parse(&format!("{path} != ''")) else { continue };
        if first(given, store, id, Sought::Holds(there)).await?.is_none() {
            output::remark(&format!(
                "{path} was there at no event: `turnfold thread state {id}` shows what there is"
            ));
        }
    }
    Ok(())
}

/// Asks each build, in the order given, and stops at the first that decides otherwise.
pub(super) async fn builds(given: &Given, id: ThreadId, builds: &[PathBuf]) -> anyhow::Result<Exit> {
    let mut told = Vec::new();
    for build in builds {
        let verified = verified(given, id, build).await?;
        let diverged = verified["verdict"] == "diverges";
        told.push(verified);
        if diverged {
            break;
        }
    }
    let first = told.iter().find(|it| it["verdict"] == "diverges");
    let unchecked = told.iter().any(|it| it["verdict"] == "not checked");
    let thing = json!({"thread": id, "first": first.map(|it| &it["build"]), "builds": told});
    output::one(given.format, &thing, || {
        let row =
            |it: &Value| ["build", "verdict", "what"].map(|column| name(it, column).to_owned()).to_vec();
        let rows = told.iter().map(row);
        let head = match first {
            Some(it) => format!("the first that decides otherwise: {}", name(it, "build")),
            None => "none of them decides otherwise".to_owned(),
        };
        format!("{head}\n\n{}", output::table(&["build", "verdict", "what"], rows))
    })?;
    Ok(match (first, unchecked) {
        (Some(_), _) => Exit::Finding,
        (None, true) => Exit::Unchecked,
        (None, false) => Exit::Ok,
    })
}

/// What `turnfold thread verify` of another build says, with the configuration that this one was started with.
async fn verified(given: &Given, id: ThreadId, build: &Path) -> anyhow::Result<Value> {
    let path = build.display().to_string();
    let output = Command::new(build)
        .args(&given.passed_on)
        .args(["thread", "verify", &id.to_string(), "--output", "json"])
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|err| Stop::because(Exit::Usage, format!("--builds: cannot start {path}: {err}")))?;
    let said: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let divergences = said.as_ref().and_then(|it| it["divergences"].as_array());
    Ok(match (divergences.map(Vec::as_slice), output.status.code()) {
        (Some([]), _) => json!({"build": path, "verdict": "same", "what": ""}),
        (Some([first, ..]), _) => {
            let what = format!("event {}, {}, {}", first["seq"], name(first, "node"), name(first, "field"));
            json!({"build": path, "verdict": "diverges", "what": what, "divergence": first})
        }
        (None, _) if said.is_some() => {
            return Err(Stop::because(Exit::Finding, format!("{path}: the hash chain of {id} is broken")));
        }
        (None, code) => {
            let words = String::from_utf8_lossy(&output.stderr);
            let code = code.map_or_else(|| "a signal".to_owned(), |it| format!("exit code {it}"));
            json!({"build": path, "verdict": "not checked", "what": format!("{code}: {}", words.trim())})
        }
    })
}
