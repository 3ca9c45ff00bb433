//! `turnfold thread why`: why control went where it went, and what the thread waits for now.

use audit::{Decision, Explainer, Line};
use serde_json::{Value, json};
use store::{PauseKind, Store, ThreadId, TurnFilter, TurnStatus, time};

use super::{check_at, graph_of};
use crate::{
    commands::Given,
    exit::Exit,
    output::{self, counted},
};

pub(super) async fn why(given: &Given, store: &Store, id: ThreadId, at: Option<u64>) -> anyhow::Result<Exit> {
    check_at(store, id, at).await?;
    let mut explainer = Explainer::new(graph_of(given, store, id).await?);
    store.along(id, 0, at, |it| anyhow::Ok(explainer.see(&it.event)?)).await?;
    let why = explainer.finish()?;
    let waits = if at.is_none() { waits(store, id).await? } else { Vec::new() };
    let mut thing = serde_json::to_value(&why)?;
    thing["waits"] = waits.clone().into();
    output::one(given.format, &thing, || {
        let mut words = match &why.decision {
            Some(it) => decided(it),
            None => "nothing was decided yet in this turn\n".to_owned(),
        };
        let now = if at.is_none() { "now".to_owned() } else { format!("after event {}", why.seq) };
        words += &format!("{now}: {}", why.stands);
        words.extend(waits.iter().filter_map(|it| Some(format!("\n     {}", it["text"].as_str()?))));
        words
    })?;
    Ok(Exit::Ok)
}

fn decided(it: &Decision) -> String {
    let mut words = format!("event {}: {} → {}\n", it.seq, it.node, it.to);
    words += &match &it.because {
        Some(why) => format!("because {why}\n"),
        None if it.heard.is_empty() => "by what it knew; no threshold decided\n".to_owned(),
        None => "by what it heard; no threshold decided\n".to_owned(),
    };
    let lines = |what: &str, lines: &[Line]| {
        lines.iter().map(|it| format!("{what} {:>4} {}\n", it.seq, it.text)).collect::<String>()
    };
    words += &lines("asked", &it.asked);
    words += &lines("heard", &it.heard);
    words.extend(it.learned.iter().map(|fact| format!("learned {fact}\n")));
    if !it.instead.is_empty() {
        words += &format!("it could have gone to: {}\n", it.instead.join("; "));
    }
    words
}

/// What the rows tell of what holds the thread back. Which limit or which worker it waits for, the queue alone knows:
/// `turnfold queue ls` asks it.
async fn waits(store: &Store, id: ThreadId) -> anyhow::Result<Vec<Value>> {
    let Some(thread) = store.thread(id).await? else { return Ok(Vec::new()) };
    let mut waits = Vec::new();
    for it in store.pauses().await? {
        let holds = match it.kind {
            PauseKind::Strategy => it.name == thread.strategy,
            PauseKind::Tenant => it.name == thread.tenant,
            PauseKind::Model => false,
        };
        if holds {
            waits.push(json!({"cause": "paused", "text": it.to_string()}));
        }
    }
    let queued = TurnFilter { thread: Some(id), status: Some(TurnStatus::Queued), ..TurnFilter::default() };
    let queued = store.turns(queued, None, 1_000).await?;
    let due = queued.iter().filter_map(|it| it.due_at).filter(|it| time::now() < *it).min();
    if let Some(due) = due {
        let text = format!("a turn is not due before {}", time::rfc3339(due));
        waits.push(json!({"cause": "not_due", "text": text}));
    }
    if !queued.is_empty() {
        let text = format!("{} waiting for its rest", counted(queued.len(), "turn"));
        waits.push(json!({"cause": "behind", "text": text}));
    }
    Ok(waits)
}
