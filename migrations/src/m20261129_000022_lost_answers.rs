//! Answers that their clients did not receive.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMNS: &str = "
    ALTER TABLE turns ADD COLUMN lost_key TEXT;   -- request whose answer was lost, until a repetition has joined the turn
    ALTER TABLE turns ADD COLUMN lost_at BIGINT;
    CREATE INDEX turns_by_lost_key ON turns (lost_key, position) WHERE lost_key IS NOT NULL";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, COLUMNS).await
    }
}
