//! Filters of webhooks.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMNS: &str = "
    ALTER TABLE webhooks ADD COLUMN strategy TEXT; -- only events of its turns; null: of all
    ALTER TABLE webhooks ADD COLUMN metadata TEXT  /* JSON object of texts that must be in the metadata; null: none */";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, COLUMNS).await
    }
}
