//! Items that wait for a person stand apart from those that are under way: the former may be all of a batch, and the latter are
//! looked at with every step.

use sea_orm_migration::{prelude::*, sea_orm::ConnectionTrait};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        for sql in [
            "DROP INDEX batch_items_begun",
            "CREATE INDEX batch_items_fed ON batch_items (batch_id, fed_at) WHERE state = 'fed'",
            "CREATE INDEX batch_items_asked ON batch_items (batch_id, fed_at) WHERE state = 'asked'",
        ] {
            db.execute_unprepared(sql).await?;
        }
        Ok(())
    }
}
