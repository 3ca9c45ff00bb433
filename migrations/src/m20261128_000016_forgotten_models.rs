//! Models about which an operator had everything forgotten that was learned.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE forgotten_models (
        model TEXT NOT NULL PRIMARY KEY,  -- provider/model
        \"by\" TEXT NOT NULL,             -- operator who asked for it
        \"at\" BIGINT NOT NULL            -- what was learned before this time is forgotten
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
