//! The first and the last turn of threads, for lists of threads.

use sea_orm::EntityTrait as _;

use crate::{
    Error, Turn,
    log::{Store, ids::ThreadId, tables::turns},
    sql_batch::{StatementText, id},
};

const ENDS: StatementText = StatementText {
    postgres: "SELECT turns.* FROM unnest($1::uuid[]) AS it (thread) CROSS JOIN LATERAL ( \
               (SELECT * FROM turns WHERE thread_id = it.thread ORDER BY position LIMIT 1) UNION \
               (SELECT * FROM turns WHERE thread_id = it.thread ORDER BY position DESC LIMIT 1)) AS turns \
               ORDER BY turns.position",
    sqlite: "SELECT turns.* FROM json_each(?1) AS it CROSS JOIN turns ON turns.id IN ( \
             (SELECT id FROM turns WHERE thread_id = unhex(it.value ->> 'thread') ORDER BY position LIMIT 1), \
             (SELECT id FROM turns WHERE thread_id = unhex(it.value ->> 'thread') ORDER BY position DESC LIMIT 1)) \
             ORDER BY turns.position",
};

impl Store {
    /// Returns the first and the last turn of each of these threads, oldest first. A thread with a single turn has it once.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if turnfold cannot have written a row.
    pub async fn end_turns(&self, threads: &[ThreadId]) -> Result<Vec<Turn>, Error> {
        if threads.is_empty() {
            return Ok(Vec::new());
        }
        let db = &self.database.pool;
        let statement = ENDS.with(db, [], [id("thread", threads, |thread| *thread)]);
        let rows = turns::Entity::find().from_raw_sql(statement).all(db).await?;
        rows.into_iter().map(Turn::try_from).collect()
    }
}
