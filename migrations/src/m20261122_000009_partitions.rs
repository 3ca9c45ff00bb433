//! `events` in eight parts on PostgreSQL, by a hash of the thread: each part has an index of its own that fits the
//! memory better, and is vacuumed by itself. SQLite has no partitions and needs none.
//!
//! The rows are copied while the table is locked, in the migration's one transaction: stop the workers, and have as much
//! room again as the table takes.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{ConnectionTrait, DbBackend},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// How many parts: each costs an insert a little (of a batch of 512 rows, eight took a tenth more time than none), and a
/// later change of this number would copy every row again.
pub(crate) const PARTS: u32 = 8;

const COLUMNS: &str = "thread_id, seq, at, kind, payload, codec, hash";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DbBackend::Postgres {
            return Ok(());
        }
        let db = manager.get_connection();
        db.execute_unprepared(
            "LOCK TABLE events IN ACCESS EXCLUSIVE MODE;
             ALTER TABLE events RENAME TO events_whole;
             CREATE TABLE events (LIKE events_whole) PARTITION BY HASH (thread_id);",
        )
        .await?;
        for part in 0..PARTS {
            let sql = format!(
                "CREATE TABLE events_{part:02} PARTITION OF events \
                 FOR VALUES WITH (MODULUS {PARTS}, REMAINDER {part})"
            );
            db.execute_unprepared(&sql).await?;
        }
        // The key comes last: an index that is built once costs less than one that grows by each row.
        let sql = format!(
            "INSERT INTO events ({COLUMNS}) SELECT {COLUMNS} FROM events_whole;
             DROP TABLE events_whole;
             ALTER TABLE events ADD CONSTRAINT events_thread_seq PRIMARY KEY (thread_id, seq);
             ANALYZE events;"
        );
        db.execute_unprepared(&sql).await?;
        Ok(())
    }
}
