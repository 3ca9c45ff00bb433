//! Processes that count ended turns and model responses.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE count_writers (
        id UUID NOT NULL PRIMARY KEY,               -- new at each start
        written_at BIGINT NOT NULL,                 -- everything counted before is written
        claimed_until BIGINT NOT NULL DEFAULT 0     -- until then, a process counts again what this one did not write
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
