//! Indexes of items that hold an item only while somebody looks for it there.
//!
//! ## Why they are partial
//!
//! An item changes its state twice, and to PostgreSQL it is a new row each time, which enters every index that it fits. One
//! index over all states held each item three times, and one over what lines ask for as often, though only lines that ended
//! well are looked for by that. Their conditions stand word for word in the queries: SQLite knows them by that.
//!
//! ## Why only the key holds all items by their batch
//!
//! To whoever plans over a young table all indexes look alike that say something of the batch, and one that says nothing of
//! the line would be walked over all items of the batch for each of them. The partial ones are out of the question for a
//! line whose state is not asked for; and the names of a batch's lines, of which each stands once, are held as one text
//! with the batch.

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
        let old = [
            "batch_items_state_priority_nth",
            "batch_items_tenant_custom_id_memo",
            "batch_items_thread",
            "batch_items_custom_id",
        ];
        for index in old {
            db.execute_unprepared(&format!("DROP INDEX {index}")).await?;
        }
        let new = [
            // Those that are to be begun, the most urgent first.
            "batch_items_waiting ON batch_items (batch_id, priority, nth) WHERE state = 'waiting'",
            // Those whose turns are under way or wait for a person, and the batch of a thread.
            "batch_items_begun ON batch_items (batch_id, fed_at) WHERE state = 'fed' OR state = 'asked'",
            "batch_items_thread ON batch_items (thread_id) WHERE thread_id IS NOT NULL",
            // Why lines have no answer.
            "batch_items_ill ON batch_items (batch_id, state, nth) \
             WHERE state = 'failed' OR state = 'bad' OR state = 'expired'",
            // An earlier result of the same line.
            "batch_items_well ON batch_items (tenant, custom_id, memo) \
             WHERE state = 'completed' OR state = 'reused'",
        ];
        for index in new {
            db.execute_unprepared(&format!("CREATE INDEX {index}")).await?;
        }
        let postgres = manager.get_database_backend() == DbBackend::Postgres;
        let name = if postgres {
            "(batch_id::text || custom_id) COLLATE \"C\""
        } else {
            "hex(batch_id) || custom_id"
        };
        db.execute_unprepared(&format!("CREATE UNIQUE INDEX batch_items_name ON batch_items (({name}))"))
            .await?;
        Ok(())
    }
}
