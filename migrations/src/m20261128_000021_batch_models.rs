//! Models of batches, and the spans of the clients that created them.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(
            manager,
            "ALTER TABLE batches ADD COLUMN model TEXT; ALTER TABLE batches ADD COLUMN trace_parent TEXT",
        )
        .await
    }
}
