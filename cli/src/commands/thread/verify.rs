//! `turnfold thread verify`: a thread's hash chain, and its rows against its log.

use api_types::Verification;
use serde_json::json;
use store::ThreadId;

use crate::{
    commands::{Context, source::Source},
    exit::Exit,
    output,
};

pub(super) async fn run(ctx: &Context, source: &Source, id: ThreadId) -> anyhow::Result<Exit> {
    let found = source.verify(id).await?;
    let Verification { events, chain, rows, .. } = &found;
    let exit = match &rows.not_checked {
        _ if !chain.intact || !rows.differences.is_empty() => Exit::Finding,
        Some(_) => Exit::Unchecked,
        None => Exit::Ok,
    };
    let chain = match chain.intact {
        true => json!({"intact": true, "events": events, "head": chain.head}),
        false => json!({"intact": false, "broken_at": chain.broken_at, "problem": chain.problem}),
    };
    output::one(ctx.format, &json!({"ok": exit == Exit::Ok, "chain": chain, "rows": rows}), || {
        to_text(&found)
    })?;
    Ok(exit)
}

fn to_text(Verification { events, chain, rows, .. }: &Verification) -> String {
    if let (Some(seq), Some(problem)) = (chain.broken_at, &chain.problem) {
        return format!("TAMPERED: the hash chain breaks at event {seq}: {problem}");
    }
    let chain = format!("the hash chain over {events} events is intact");
    if !rows.differences.is_empty() {
        let listed: String = rows.differences.iter().map(|text| format!("\n  {text}")).collect();
        return format!(
            "{chain}\nDIFFERENT: rows do not match the log{listed}\nhint: turnfold store rebuild"
        );
    }
    match &rows.not_checked {
        Some(why) => format!("{chain}\nNOT CHECKED: the rows: {why}"),
        None => format!("{chain}\nits rows match the log"),
    }
}
