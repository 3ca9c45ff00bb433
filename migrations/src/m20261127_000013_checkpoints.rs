//! Checkpoints, as they were last made.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE audit_checkpoints (
        origin TEXT NOT NULL PRIMARY KEY, -- name of the key that signed it
        file TEXT NOT NULL,               -- where the note was written
        heads BIGINT NOT NULL,            -- heads that it attests
        threads BIGINT NOT NULL,          -- threads that were read
        findings BIGINT NOT NULL,         -- threads that were not attested again
        made_at BIGINT NOT NULL
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
