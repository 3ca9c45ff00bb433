//! `turnfold thread verify`: a thread's hash chain, and its rows against its log.

use serde_json::json;
use store::{Chain, DryRun, ThreadId};

use super::show::status_of;
use crate::{
    commands::{Context, source::Source},
    exit::Exit,
    output,
};

/// Result of comparing a thread's rows with its log.
enum Rows {
    Same,
    /// One description for each difference.
    Different(Vec<String>),
    /// Reason why this build cannot fold the log.
    NotChecked(String),
}

pub(super) async fn run(ctx: &Context, source: &Source, id: ThreadId) -> anyhow::Result<Exit> {
    let chain = source.verify_chain(id).await?;
    let rows = match &chain {
        Chain::Broken { .. } => Rows::NotChecked("the hash chain is broken".to_owned()),
        Chain::Intact { .. } => rows(ctx, source, id).await?,
    };
    let exit = match (&chain, &rows) {
        (Chain::Broken { .. }, _) | (_, Rows::Different(_)) => Exit::Finding,
        (_, Rows::NotChecked(_)) => Exit::Unchecked,
        (Chain::Intact { .. }, Rows::Same) => Exit::Ok,
    };
    let (different, not_checked) = match &rows {
        Rows::Same => (&[][..], None),
        Rows::Different(all) => (all.as_slice(), None),
        Rows::NotChecked(why) => (&[][..], Some(why)),
    };
    let chain_json = match &chain {
        Chain::Intact { events, head } => {
            json!({"intact": true, "events": events, "head": hex::encode(head)})
        }
        Chain::Broken { seq, what } => json!({"intact": false, "broken_at": seq, "problem": what}),
    };
    let thing = json!({
        "ok": exit == Exit::Ok, "chain": chain_json, "rows": {"differences": different, "not_checked": not_checked},
    });
    output::one(ctx.format, &thing, || to_text(&chain, &rows))?;
    Ok(exit)
}

fn to_text(chain: &Chain, rows: &Rows) -> String {
    let events = match chain {
        Chain::Broken { seq, what } => {
            return format!("TAMPERED: the hash chain breaks at event {seq}: {what}");
        }
        Chain::Intact { events, .. } => events,
    };
    let chain = format!("the hash chain over {events} events is intact");
    match rows {
        Rows::Same => format!("{chain}\nits rows match the log"),
        Rows::Different(all) => {
            let listed: String = all.iter().map(|difference| format!("\n  {difference}")).collect();
            format!("{chain}\nDIFFERENT: rows do not match the log{listed}\nhint: turnfold store rebuild")
        }
        Rows::NotChecked(why) => format!("{chain}\nNOT CHECKED: the rows: {why}"),
    }
}

/// Compares rows with the log: all rows in the database, the thread's status through the API.
async fn rows(ctx: &Context, source: &Source, id: ThreadId) -> anyhow::Result<Rows> {
    if let Err(why) = source.graph(ctx, id).await {
        return Ok(Rows::NotChecked(why.to_string()));
    }
    let differences = match source {
        Source::Database { store, .. } => {
            let one = store::ThreadScan::of(store::Conditions::default(), 1).only(Some(id));
            let rebuilt = threads::rebuild(store, &ctx.strategies, &one, DryRun::Yes).await?;
            rebuilt.differences.iter().map(|difference| difference.what.clone()).collect()
        }
        Source::Api(_) => {
            let row = source.row(id).await?.ok_or(store::Error::UnknownThread(id))?;
            let folded = status_of(&*source.fold(ctx, id, None).await?);
            // The thread may have moved between the two requests.
            let now = source.row(id).await?.map(|row| row.updated_at);
            match row.status == folded || now != Some(row.updated_at) {
                true => Vec::new(),
                false => vec![format!("status: {} in the row, {folded} in the log", row.status)],
            }
        }
    };
    Ok(if differences.is_empty() { Rows::Same } else { Rows::Different(differences) })
}
