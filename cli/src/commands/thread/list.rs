//! `turnfold thread list`.

use queue::clock;
use serde_json::{Value, json};
use store::{Thread as Row, ThreadStatus};

use crate::{
    commands::{
        Context,
        selection::{check_known_strategies, conditions, filter_query},
        source::{Source, Threads},
    },
    exit::{CliError, Exit},
    output,
};

pub(super) async fn run(
    ctx: &Context,
    source: &Source,
    status: Option<String>,
    filter: Option<&str>,
    limit: u64,
) -> anyhow::Result<Exit> {
    let selected = selected(ctx, source, status, filter).await?;
    // One more than is printed, to know whether there are more.
    let wanted = limit.saturating_add(1);
    let mut threads = source.threads(&selected, None, wanted).await?;
    let printed = usize::try_from(limit)?;
    let has_more = printed < threads.len();
    threads.truncate(printed);
    let things: Vec<Value> = threads.iter().map(to_json).collect();
    output::many(ctx.format, &things, || {
        if threads.is_empty() {
            return "no threads".to_owned();
        }
        let row = |row: &Row| {
            vec![
                row.id.to_string(),
                row.strategy.clone(),
                row.status.to_string(),
                clock::rfc3339(row.created_at),
            ]
        };
        output::table(&["thread", "strategy", "status", "created"], threads.iter().map(row))
    })?;
    if has_more {
        output::note("(there are more; see --limit)");
    }
    Ok(Exit::Ok)
}

fn to_json(row: &Row) -> Value {
    json!({
        "id": row.id, "tenant": row.tenant, "strategy": row.strategy, "status": row.status.to_string(),
        "created_at": clock::rfc3339(row.created_at), "updated_at": clock::rfc3339(row.updated_at),
    })
}

/// Parses the options of the list.
async fn selected(
    ctx: &Context,
    source: &Source,
    status: Option<String>,
    filter: Option<&str>,
) -> anyhow::Result<Threads> {
    let status = status.map(|text| text.parse::<ThreadStatus>()).transpose();
    let status = status.map_err(|err| CliError::with_exit(Exit::Usage, err.to_string()))?;
    let mut threads = Threads { status, ..Threads::default() };
    match (source, filter) {
        (_, None) => {}
        (Source::Database { store, .. }, Some(filter)) => {
            threads.turns = Some(conditions(ctx, store, filter).await?);
        }
        (Source::Api(client), Some(_)) => {
            check_known_strategies(client, filter).await?;
            threads.query = filter_query(filter)?;
        }
    }
    Ok(threads)
}
