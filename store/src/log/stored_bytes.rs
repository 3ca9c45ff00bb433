//! Size of what a tenant stores.

use sea_orm::FromQueryResult;

use crate::{
    Error,
    log::{Store, database::statement, ids::unsigned},
};

impl Store {
    /// Returns the size of a tenant's files, logs and attachments in bytes, before the database compresses them.
    ///
    /// Reads every row of the tenant's threads by index, so its duration grows with their number.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn stored_bytes(&self, tenant: &str) -> Result<u64, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            bytes: i64,
        }
        let of_threads = |table: &str, column: &str| {
            format!(
                "SELECT coalesce(sum(octet_length({column})), 0) FROM {table} \
                 WHERE thread_id IN (SELECT id FROM threads WHERE tenant = $1)"
            )
        };
        let of_conversations = "SELECT coalesce(sum(octet_length(content)), 0) FROM attachments WHERE thread_id IN \
            (SELECT thread_id FROM conversations WHERE conversations.tenant = $1 AND NOT begun \
            AND NOT EXISTS (SELECT 1 FROM threads WHERE threads.id = conversations.thread_id))";
        let sql = format!(
            "SELECT CAST((SELECT coalesce(sum(bytes), 0) FROM files WHERE tenant = $1 AND status <> 'gone') + ({}) + ({}) \
             + ({of_conversations}) AS BIGINT) AS bytes",
            of_threads("events", "payload"),
            of_threads("attachments", "content"),
        );
        let pool = &self.database.pool;
        let row = Row::find_by_statement(statement(pool, &sql, [tenant.into()])).one(pool).await?;
        unsigned(row.map_or(0, |row| row.bytes))
    }
}
