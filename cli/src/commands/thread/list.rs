//! `turnfold thread list`.

use std::collections::HashSet;

use api_types::{Page, Turn};
use queue::clock;
use serde_json::{Value, json};
use store::{Thread as Row, ThreadStatus, TurnFilter};

use crate::{
    commands::{
        Context,
        selection::{check_known_strategies, conditions, filter_query},
        source::Source,
    },
    exit::{CliError, Exit},
    output,
};

/// Number of turns that are read at a time.
const PAGE: u64 = 1_000;

pub(super) async fn run(
    ctx: &Context,
    source: &Source,
    status: Option<String>,
    filter: Option<&str>,
    limit: u64,
) -> anyhow::Result<Exit> {
    let status = status.map(|it| it.parse::<ThreadStatus>()).transpose();
    let status = status.map_err(|err| CliError::with_exit(Exit::Usage, err.to_string()))?;
    // One more than is printed, to know whether there are more.
    let wanted = limit.saturating_add(1);
    let mut threads = match filter {
        Some(filter) => with_matching_turns(ctx, source, status, filter, wanted).await?,
        None => source.threads(status, None, wanted).await?,
    };
    let printed = usize::try_from(limit)?;
    let has_more = printed < threads.len();
    threads.truncate(printed);
    let things: Vec<Value> = threads.iter().map(to_json).collect();
    output::many(ctx.format, &things, || {
        if threads.is_empty() {
            return "no threads".to_owned();
        }
        let row = |it: &Row| {
            vec![it.id.to_string(), it.strategy.clone(), it.status.to_string(), clock::rfc3339(it.created_at)]
        };
        output::table(&["thread", "strategy", "status", "created"], threads.iter().map(row))
    })?;
    if has_more {
        output::note("(there are more; see --limit)");
    }
    Ok(Exit::Ok)
}

fn to_json(it: &Row) -> Value {
    json!({
        "id": it.id, "tenant": it.tenant, "strategy": it.strategy, "status": it.status.to_string(),
        "created_at": clock::rfc3339(it.created_at), "updated_at": clock::rfc3339(it.updated_at),
    })
}

/// Returns threads with a turn that matches the filter, at most `limit`; newest matching turn first.
async fn with_matching_turns(
    ctx: &Context,
    source: &Source,
    status: Option<ThreadStatus>,
    filter: &str,
    limit: u64,
) -> anyhow::Result<Vec<Row>> {
    let mut matching = MatchingThreads::new(ctx, source, filter).await?;
    let mut threads = Vec::new();
    while let Some(page) = matching.next_page().await? {
        for id in page {
            let fits = |it: &Row| status.is_none_or(|status| it.status == status);
            threads.extend(source.row(id).await?.filter(fits));
            if limit <= threads.len() as u64 {
                return Ok(threads);
            }
        }
    }
    Ok(threads)
}

/// Threads of the turns that match a filter, each once, page by page.
struct MatchingThreads<'a> {
    source: &'a Source,
    /// Filter of the database.
    conditions: store::Conditions,
    /// Filter as a part of the API's query.
    query: String,
    seen: HashSet<store::ThreadId>,
    after: Option<store::TurnId>,
    done: bool,
}

impl<'a> MatchingThreads<'a> {
    async fn new(ctx: &Context, source: &'a Source, filter: &str) -> anyhow::Result<Self> {
        let conditions = match source {
            Source::Database { store, .. } => conditions(ctx, store, filter).await?,
            Source::Api(client) => {
                check_known_strategies(client, Some(filter)).await?;
                store::Conditions::default()
            }
        };
        let query = filter_query(Some(filter))?;
        Ok(Self { source, conditions, query, seen: HashSet::new(), after: None, done: false })
    }

    async fn next_page(&mut self) -> anyhow::Result<Option<Vec<store::ThreadId>>> {
        if self.done {
            return Ok(None);
        }
        let turns: Vec<(store::TurnId, store::ThreadId)> = match self.source {
            Source::Database { store, .. } => {
                let filter = TurnFilter { conditions: Some(&self.conditions), ..TurnFilter::default() };
                let page = store.turns(filter, self.after, PAGE).await?;
                self.done = page.is_empty();
                page.iter().map(|it| (it.id, it.thread)).collect()
            }
            Source::Api(client) => {
                let after = self.after.map(|it| format!("&after={it}")).unwrap_or_default();
                let path = format!("/v1/turns?limit={PAGE}{after}{}", self.query);
                let page: Page<Turn> = client.get(&path).await?;
                self.done = !page.has_more;
                page.data.iter().map(|it| (it.id, it.thread_id)).collect()
            }
        };
        self.after = turns.last().map(|(turn, _)| *turn);
        Ok(Some(turns.into_iter().map(|(_, thread)| thread).filter(|it| self.seen.insert(*it)).collect()))
    }
}
