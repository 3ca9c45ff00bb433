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
    let Verification { events, chain, attachments, rows, .. } = &found;
    let exit = match &rows.not_checked {
        _ if !chain.intact || !attachments.differences.is_empty() || !rows.differences.is_empty() => {
            Exit::Finding
        }
        Some(_) => Exit::Unchecked,
        None => Exit::Ok,
    };
    let chain = match chain.intact {
        true => json!({"intact": true, "events": events, "head": chain.head}),
        false => json!({"intact": false, "broken_at": chain.broken_at, "problem": chain.problem}),
    };
    output::one(
        ctx.format,
        &json!({"ok": exit == Exit::Ok, "chain": chain, "attachments": attachments, "rows": rows}),
        || to_text(&found),
    )?;
    Ok(exit)
}

fn to_text(Verification { events, chain, attachments, rows, .. }: &Verification) -> String {
    let listed =
        |differences: &[String]| -> String { differences.iter().map(|text| format!("\n  {text}")).collect() };
    let chain = match (chain.broken_at, &chain.problem) {
        (Some(seq), Some(problem)) => format!("TAMPERED: the hash chain breaks at event {seq}: {problem}"),
        _ => format!("the hash chain over {events} events is intact"),
    };
    let chain = match attachments.differences.as_slice() {
        [] => chain,
        differences => format!("{chain}\nTAMPERED: images or files{}", listed(differences)),
    };
    if !rows.differences.is_empty() {
        let listed = listed(&rows.differences);
        return format!(
            "{chain}\nDIFFERENT: rows do not match the log{listed}\nhint: turnfold store rebuild"
        );
    }
    match &rows.not_checked {
        Some(why) => format!("{chain}\nNOT CHECKED: the rows: {why}"),
        None => format!("{chain}\nits rows match the log"),
    }
}
