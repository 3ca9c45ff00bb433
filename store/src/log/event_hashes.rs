//! Hashes of single events: equal hashes prove that a log is the same up to there.

use sea_orm::ConnectionTrait as _;

use crate::{
    Error,
    log::{
        Store,
        ids::{ThreadId, signed, unsigned},
    },
    sql_batch::{StatementText, id, number},
};

const HASHES: StatementText = StatementText {
    postgres: "SELECT events.thread_id, events.seq, events.hash FROM unnest($1::uuid[], $2::bigint[]) AS it (thread, seq) \
               JOIN events ON events.thread_id = it.thread AND events.seq = it.seq",
    sqlite: "SELECT events.thread_id, events.seq, events.hash FROM json_each(?1) AS it CROSS JOIN events \
             ON events.thread_id = unhex(it.value ->> 'thread') AND events.seq = it.value ->> 'seq'",
};

impl Store {
    /// Returns the hashes of those of these events that exist, each with its thread and number, in no particular order. The hash
    /// of an event covers all events before it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn event_hashes(
        &self,
        events: &[(ThreadId, u64)],
    ) -> Result<Vec<(ThreadId, u64, Vec<u8>)>, Error> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let db = &self.database.hot;
        let columns =
            [id("thread", events, |(thread, _)| *thread), number("seq", events, |(_, seq)| signed(*seq))];
        let rows = db.query_all_raw(HASHES.with(db, [], columns)).await?;
        let event = |row: sea_orm::QueryResult| {
            Ok((row.try_get_by_index(0)?, unsigned(row.try_get_by_index(1)?)?, row.try_get_by_index(2)?))
        };
        rows.into_iter().map(event).collect()
    }
}
