//! Reuse of results that were already paid for: from successful lines with the same name and content.

use std::collections::{BTreeMap, HashSet};

use sea_orm::{ConnectionTrait as _, FromQueryResult};
use shared::{BatchResult, ResultResponse, ResultRun};

use super::{CacheKey, Item, lines::ROWS};
use crate::{
    Error, Store, ThreadId, TurnId,
    log::{plain, signed, unsigned},
    sql_batch::{StatementText, number, text},
};

/// Result of an earlier line with the same name and content.
#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    /// Turn of the earlier line.
    pub turn: Option<TurnId>,
    /// Thread of the earlier line.
    pub thread: Option<ThreadId>,
    /// Response to the earlier line.
    pub response: ResultResponse,
    /// Run that led to it, as the earlier line names it.
    pub run: Option<ResultRun>,
}

/// A line for which an earlier result is wanted.
pub(super) struct Wanted {
    pub(super) nth: u64,
    pub(super) custom_id: Option<String>,
    pub(super) cache_key: Option<String>,
}

impl Store {
    /// Returns the results of this tenant's earlier successful lines with the same name and content, by item number.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn earlier_results(
        &self,
        tenant: &str,
        wanted: &[Item],
    ) -> Result<BTreeMap<u64, Earlier>, Error> {
        let wanted = wanted.iter().map(|item| Wanted {
            nth: item.nth,
            custom_id: item.custom_id.clone(),
            cache_key: item.cache_key.clone(),
        });
        self.earlier(tenant, &wanted.collect::<Vec<_>>(), i64::MAX).await
    }

    /// Returns the same for lines, until the results have this many bytes together.
    pub(super) async fn earlier(
        &self,
        tenant: &str,
        wanted: &[Wanted],
        bytes: i64,
    ) -> Result<BTreeMap<u64, Earlier>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            wanted: i64,
            thread_id: Option<ThreadId>,
            turn_id: Option<TurnId>,
            line: String,
        }
        const STATEMENT: StatementText = StatementText {
            postgres: "SELECT wanted, thread_id, turn_id, line FROM (SELECT known.*, \
                       sum(octet_length(line)) OVER (ROWS UNBOUNDED PRECEDING) AS so_far FROM \
                       (SELECT it.nth AS wanted, items.thread_id, items.turn_id, (SELECT line FROM batch_results \
                       WHERE batch_id = items.batch_id AND n = items.result_no) AS line \
                       FROM unnest($3::bigint[], $4::text[], $5::text[]) AS it (nth, custom_id, cache_key) \
                       CROSS JOIN LATERAL (SELECT * FROM batch_items WHERE tenant = $1 \
                       AND custom_id = it.custom_id AND cache_key = it.cache_key \
                       AND (state = 'completed' OR state = 'reused') LIMIT 1) AS items) AS known) AS known \
                       WHERE so_far <= $2",
            sqlite: "SELECT wanted, thread_id, turn_id, line FROM (SELECT it.value ->> 'nth' AS wanted, \
                     items.thread_id, items.turn_id, results.line, \
                     sum(octet_length(results.line)) OVER (ROWS UNBOUNDED PRECEDING) AS so_far FROM json_each(?3) AS it CROSS JOIN batch_items AS items ON items.rowid = \
                     (SELECT known.rowid FROM batch_items AS known WHERE known.tenant = ?1 \
                     AND known.custom_id = it.value ->> 'custom_id' AND known.cache_key = it.value ->> 'cache_key' \
                     AND (known.state = 'completed' OR known.state = 'reused') LIMIT 1) \
                     JOIN batch_results AS results ON results.batch_id = items.batch_id \
                     AND results.n = items.result_no) AS known WHERE so_far <= ?2",
        };
        let pool = &self.database.hot;
        let columns = [
            number("nth", wanted, |line| signed(line.nth)),
            text("custom_id", wanted, |line| line.custom_id.as_deref().map(plain)),
            text("cache_key", wanted, |line| line.cache_key.clone()),
        ];
        let statement = STATEMENT.with(pool, [tenant.into(), bytes.into()], columns);
        let mut found = BTreeMap::new();
        for row in Row::find_by_statement(statement).all(pool).await? {
            let unread = |error| Error::Database(format!("a result cannot be read: {error}"));
            let line: BatchResult = serde_json::from_str(&row.line).map_err(unread)?;
            let response = line.response.unwrap_or_default();
            let earlier = Earlier { turn: row.turn_id, thread: row.thread_id, response, run: line.turnfold };
            found.insert(unsigned(row.wanted)?, earlier);
        }
        Ok(found)
    }

    /// Returns the indices of those named lines that have a reusable result of this tenant.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn known_lines(
        &self,
        tenant: &str,
        lines: &[(String, CacheKey)],
    ) -> Result<HashSet<usize>, Error> {
        const STATEMENT: StatementText = StatementText {
            postgres: "SELECT it.nth AS nth FROM unnest($2::bigint[], $3::text[], $4::text[]) \
                       AS it (nth, custom_id, cache_key) \
                       CROSS JOIN LATERAL (SELECT 1 FROM batch_items WHERE tenant = $1 \
                       AND custom_id = it.custom_id AND cache_key = it.cache_key \
                       AND (state = 'completed' OR state = 'reused') LIMIT 1) AS known",
            sqlite: "SELECT it.value ->> 'nth' AS nth FROM json_each(?2) AS it WHERE EXISTS \
                     (SELECT 1 FROM batch_items AS items WHERE items.tenant = ?1 \
                     AND items.custom_id = it.value ->> 'custom_id' AND items.cache_key = it.value ->> 'cache_key' \
                     AND (items.state = 'completed' OR items.state = 'reused'))",
        };
        let pool = &self.database.hot;
        let mut known = HashSet::new();
        for (page, lines) in lines.chunks(ROWS).enumerate() {
            let lines: Vec<(u64, &(String, CacheKey))> = (0..).zip(lines).collect();
            let columns = [
                number("nth", &lines, |(nth, _)| signed(*nth)),
                text("custom_id", &lines, |(_, (name, _))| plain(name)),
                text("cache_key", &lines, |(_, (_, cache_key))| cache_key.hash.clone()),
            ];
            let statement = STATEMENT.with(pool, [tenant.into()], columns);
            for row in pool.query_all_raw(statement).await? {
                let nth = usize::try_from(unsigned(row.try_get("", "nth")?)?).unwrap_or(usize::MAX);
                known.insert(page * ROWS + nth);
            }
        }
        Ok(known)
    }
}
