//! Filters of webhooks.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMNS: &str = "
    -- Strategy of the turns whose events are sent; null: all.
    ALTER TABLE webhooks ADD COLUMN strategy TEXT;

    -- JSON object of texts that the metadata must have; null: none.
    ALTER TABLE webhooks ADD COLUMN metadata TEXT";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, COLUMNS).await
    }
}
