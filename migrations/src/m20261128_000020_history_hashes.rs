//! Hashes of conversations that clients send whole.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMN: &str = "
    ALTER TABLE turns ADD COLUMN history_hash TEXT; -- hash of the conversation that ends with the messages of the turn
    CREATE INDEX turns_by_history ON turns (history_hash, position) WHERE history_hash IS NOT NULL";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, COLUMN).await
    }
}
