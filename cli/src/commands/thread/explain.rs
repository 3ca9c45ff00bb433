//! `turnfold thread why`: the last decision and its reason, and what the thread waits for.

use api_types::{Page, Turn};
use audit::{Decision, Explainer, Line};
use queue::clock;
use serde_json::{Value, json};
use store::{PauseKind, Store, ThreadId, TurnFilter, TurnStatus};

use super::source::Source;
use crate::{
    commands::Context,
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
    let mut explainer = Explainer::new(source.graph(ctx, id).await?);
    source.scan_to(id, at, |it| Ok(explainer.see(&it.event)?)).await?;
    let why = explainer.finish()?;
    let waits = match at {
        None => waits(source, id).await?,
        Some(_) => Vec::new(),
    };
    let mut thing = serde_json::to_value(&why)?;
    thing["waits"] = waits.iter().map(|it| it.json.clone()).collect();
    output::one(ctx.format, &thing, || {
        let mut text = match &why.decision {
            Some(it) => decision(it),
            None => "no decision yet in this turn\n".to_owned(),
        };
        let now = if at.is_none() { "now".to_owned() } else { format!("after event {}", why.seq) };
        text += &format!("{now}: {}", why.stands);
        text.extend(waits.iter().map(|it| format!("\n     {}", it.text)));
        text
    })?;
    Ok(Exit::Ok)
}

fn decision(it: &Decision) -> String {
    let mut text = format!("event {}: {} → {}\n", it.seq, it.node, it.to);
    text += &match &it.because {
        Some(why) => format!("because {why}\n"),
        None if it.heard.is_empty() => "from its state; no threshold was involved\n".to_owned(),
        None => "from the answers; no threshold was involved\n".to_owned(),
    };
    let lines = |what: &str, lines: &[Line]| {
        lines.iter().map(|it| format!("{what} {:>4} {}\n", it.seq, it.text)).collect::<String>()
    };
    text += &lines("asked   ", &it.asked);
    text += &lines("answered", &it.heard);
    text.extend(it.learned.iter().map(|fact| format!("fact {fact}\n")));
    if !it.instead.is_empty() {
        text += &format!("alternatives: {}\n", it.instead.join("; "));
    }
    text
}

/// A reason why the thread does not continue, for programs and for people.
struct Wait {
    json: Value,
    text: String,
}

/// Returns what the rows say about why the thread does not continue. Limits and busy workers are known only to the queue:
/// see `turnfold queue list`.
async fn waits(source: &Source, id: ThreadId) -> anyhow::Result<Vec<Wait>> {
    match source {
        Source::Database { store, .. } => waits_in_database(store, id).await,
        Source::Api(client) => {
            let path = format!("/v1/turns?thread_id={id}&status=queued&limit=1000");
            let page: Page<Turn> = client.get(&path).await?;
            let due = |it: &Turn| clock::parse_rfc3339(it.not_before.as_deref()?);
            Ok(queued(page.data.len(), page.data.iter().filter_map(due)))
        }
    }
}

async fn waits_in_database(store: &Store, id: ThreadId) -> anyhow::Result<Vec<Wait>> {
    let Some(thread) = store.thread(id).await? else { return Ok(Vec::new()) };
    let mut waits = Vec::new();
    for it in store.pauses().await? {
        let applies = match it.kind {
            PauseKind::Strategy => it.name == thread.strategy,
            PauseKind::Tenant => it.name == thread.tenant,
            PauseKind::Model => false,
        };
        if applies {
            let json =
                json!({"cause": "paused", "kind": it.kind.to_string(), "name": it.name, "reason": it.reason});
            waits.push(Wait { json, text: it.to_string() });
        }
    }
    let filter = TurnFilter { thread: Some(id), status: Some(TurnStatus::Queued), ..TurnFilter::default() };
    let turns = store.turns(filter, None, 1_000).await?;
    waits.extend(queued(turns.len(), turns.iter().filter_map(|it| it.due_at)));
    Ok(waits)
}

/// Describes queued turns and the first time at which one of them is due.
fn queued(turns: usize, due: impl Iterator<Item = i64>) -> Vec<Wait> {
    let mut waits = Vec::new();
    if let Some(due) = due.filter(|it| clock::now() < *it).min() {
        let due = clock::rfc3339(due);
        let text = format!("a turn is not due before {due}");
        waits.push(Wait { json: json!({"cause": "not_due", "until": due}), text });
    }
    if 0 < turns {
        let text = format!("{} queued behind it", counted(turns, "turn"));
        waits.push(Wait { json: json!({"cause": "behind", "turns": turns}), text });
    }
    waits
}
