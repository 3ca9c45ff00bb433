//! What was paid before: lines that were called the same, asked for the same and ended well.

use std::collections::{BTreeMap, HashSet};

use sea_orm::{ConnectionTrait as _, FromQueryResult};
use serde_json::Value;

use super::{Item, Memo, lines::ROWS};
use crate::{
    Error, Store, ThreadId, TurnId,
    log::{plain, signed, unsigned},
    words::{Words, number, text},
};

/// What came of an earlier line that asked for the same under the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    /// Its turn.
    pub turn: Option<TurnId>,
    /// Its thread.
    pub thread: Option<ThreadId>,
    /// What it was answered.
    pub response: Value,
}

impl Store {
    /// What came of earlier lines of this tenant that were called the same, asked for the same and ended well, by the
    /// number of the item.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn earlier_results(
        &self,
        tenant: &str,
        wanted: &[Item],
    ) -> Result<BTreeMap<u64, Earlier>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            wanted: i64,
            thread_id: Option<ThreadId>,
            turn_id: Option<TurnId>,
            line: String,
        }
        const WORDS: Words = Words {
            postgres: "SELECT it.nth AS wanted, items.thread_id, items.turn_id, (SELECT line FROM batch_results \
                       WHERE batch_id = items.batch_id AND n = items.done_no) AS line \
                       FROM unnest($2::bigint[], $3::text[], $4::text[]) AS it (nth, custom_id, memo) \
                       CROSS JOIN LATERAL (SELECT * FROM batch_items WHERE tenant = $1 \
                       AND custom_id = it.custom_id AND memo = it.memo \
                       AND (state = 'completed' OR state = 'reused') LIMIT 1) AS items",
            sqlite: "SELECT it.value ->> 'nth' AS wanted, items.thread_id, items.turn_id, results.line \
                     FROM json_each(?2) AS it CROSS JOIN batch_items AS items ON items.rowid = \
                     (SELECT known.rowid FROM batch_items AS known WHERE known.tenant = ?1 \
                     AND known.custom_id = it.value ->> 'custom_id' AND known.memo = it.value ->> 'memo' \
                     AND (known.state = 'completed' OR known.state = 'reused') LIMIT 1) \
                     JOIN batch_results AS results ON results.batch_id = items.batch_id \
                     AND results.n = items.done_no",
        };
        let pool = &self.database.hot;
        let columns = [
            number("nth", wanted, |it| signed(it.nth)),
            text("custom_id", wanted, |it| it.custom_id.clone()),
            text("memo", wanted, |it| it.memo.clone()),
        ];
        let statement = WORDS.with(pool, [tenant.into()], columns);
        let mut found = BTreeMap::new();
        for row in Row::find_by_statement(statement).all(pool).await? {
            let unread = |error| Error::Database(format!("a result cannot be read: {error}"));
            let mut line: Value = serde_json::from_str(&row.line).map_err(unread)?;
            let response = line["response"].take();
            found.insert(
                unsigned(row.wanted)?,
                Earlier { turn: row.turn_id, thread: row.thread_id, response },
            );
        }
        Ok(found)
    }

    /// Which of these lines, each with its name, an earlier one of this tenant answers, by their places among them.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn known_lines(&self, tenant: &str, lines: &[(String, Memo)]) -> Result<HashSet<usize>, Error> {
        const WORDS: Words = Words {
            postgres: "SELECT it.nth AS nth FROM unnest($2::bigint[], $3::text[], $4::text[]) \
                       AS it (nth, custom_id, memo) \
                       CROSS JOIN LATERAL (SELECT 1 FROM batch_items WHERE tenant = $1 \
                       AND custom_id = it.custom_id AND memo = it.memo \
                       AND (state = 'completed' OR state = 'reused') LIMIT 1) AS known",
            sqlite: "SELECT it.value ->> 'nth' AS nth FROM json_each(?2) AS it WHERE EXISTS \
                     (SELECT 1 FROM batch_items AS items WHERE items.tenant = ?1 \
                     AND items.custom_id = it.value ->> 'custom_id' AND items.memo = it.value ->> 'memo' \
                     AND (items.state = 'completed' OR items.state = 'reused'))",
        };
        let pool = &self.database.hot;
        let mut known = HashSet::new();
        for (page, lines) in lines.chunks(ROWS).enumerate() {
            let lines: Vec<(u64, &(String, Memo))> = (0..).zip(lines).collect();
            let columns = [
                number("nth", &lines, |(nth, _)| signed(*nth)),
                text("custom_id", &lines, |(_, (name, _))| plain(name)),
                text("memo", &lines, |(_, (_, memo))| memo.hash.clone()),
            ];
            let statement = WORDS.with(pool, [tenant.into()], columns);
            for row in pool.query_all_raw(statement).await? {
                let nth = usize::try_from(unsigned(row.try_get("", "nth")?)?).unwrap_or(usize::MAX);
                known.insert(page * ROWS + nth);
            }
        }
        Ok(known)
    }
}
