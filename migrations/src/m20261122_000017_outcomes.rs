//! Indexes of turns and threads that a turn does not have to enter anew at every change of its status.
//!
//! ## Why no index holds a status
//!
//! To PostgreSQL a row is a new one whenever a column changes that an index holds, and enters all indexes of its table
//! again: some ninety microseconds for the two rows of one change, where a node's events take seven. A turn that is heard
//! changes its thread to busy and back, too. So indexes hold an outcome, which is null as long as a turn is queued or
//! running, and what a thread is stuck in, null while it is idle or busy; both follow from the status by themselves. And pages have
//! room for the next version of a row.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{ConnectionTrait, DbBackend},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        let postgres = manager.get_database_backend() == DbBackend::Postgres;
        // Each engine can add only the one kind.
        let kept = if postgres { "STORED" } else { "VIRTUAL" };
        let columns = [("turns", "outcome", "'queued', 'running'"), ("threads", "stuck", "'idle', 'busy'")];
        if postgres {
            for (table, ..) in columns {
                db.execute_unprepared(&format!("ALTER TABLE {table} SET (fillfactor = 50)")).await?;
            }
        }
        for (table, column, but) in columns {
            let sql = format!(
                "ALTER TABLE {table} ADD COLUMN {column} TEXT GENERATED ALWAYS AS \
                 (CASE WHEN status IN ({but}) THEN NULL ELSE status END) {kept}"
            );
            db.execute_unprepared(&sql).await?;
        }
        let old = [
            "threads_status_id",
            "turns_status_position",
            "turns_thread_status_priority_position",
            "turns_tenant_status",
        ];
        for index in old {
            db.execute_unprepared(&format!("DROP INDEX {index}")).await?;
        }
        let new = [
            // A thread at rest asks for the first of its most urgent queued turns, the sweep for threads with open turns.
            "turns_open_thread ON turns (thread_id, priority, position) WHERE outcome IS NULL",
            // The door counts what of a tenant waits before it lets more of it in.
            "turns_open_tenant ON turns (tenant) WHERE outcome IS NULL",
            // The turns of a thread, and those that failed, or wait for a person.
            "turns_thread_position ON turns (thread_id, position)",
            "turns_outcome_position ON turns (outcome, position) WHERE outcome IS NOT NULL",
            "threads_stuck_id ON threads (stuck, id) WHERE stuck IS NOT NULL",
        ];
        for index in new {
            db.execute_unprepared(&format!("CREATE INDEX {index}")).await?;
        }
        Ok(())
    }
}
