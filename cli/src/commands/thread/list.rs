//! `turnfold thread list`.

use api_types::ThreadSummary;
use serde_json::{Value, json};
use shared::ThreadStatus;

use crate::{
    args::ListOrder,
    commands::{
        Context,
        selection::{check_known_strategies, filter_query, order_query},
        source::Source,
    },
    exit::{CliError, Exit},
    output,
};

pub(super) async fn run(
    ctx: &Context,
    source: &Source,
    status: Option<String>,
    filter: Option<&str>,
    order: ListOrder,
    limit: u64,
) -> anyhow::Result<Exit> {
    let status = status.map(|name| name.parse::<ThreadStatus>()).transpose();
    let status = status.map_err(|error| CliError::with_exit(Exit::Usage, error.to_string()))?;
    let status = status.map(|status| format!("&status={status}")).unwrap_or_default();
    let query = status + &order_query(&order) + &filter_query(filter)?;
    // One more than is printed, to know whether there are more.
    let wanted = limit.saturating_add(1);
    let mut threads = source.threads(&query, None, wanted).await?;
    let printed = usize::try_from(limit)?;
    let has_more = printed < threads.len();
    threads.truncate(printed);
    if threads.is_empty() {
        check_known_strategies(source.client(), filter).await?;
    }
    let things: Vec<Value> = threads.iter().map(|thread| json!(thread)).collect();
    output::many(ctx.format, &things, || {
        if threads.is_empty() {
            return "no threads".to_owned();
        }
        let row = |thread: &ThreadSummary| {
            let (id, status) = (thread.id.to_string(), output::json_name(&thread.status));
            vec![id, thread.strategy.clone(), status, output::when(&thread.created_at)]
        };
        output::table(&["thread", "strategy", "status", "created"], threads.iter().map(row))
    })?;
    if has_more {
        output::note("(there are more; see --limit)");
    }
    Ok(Exit::Ok)
}
