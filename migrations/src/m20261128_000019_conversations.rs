//! Conversations of OpenAI's API.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE conversations (
        thread_id UUID NOT NULL PRIMARY KEY,  -- a turn begins the thread
        tenant TEXT NOT NULL,
        metadata TEXT NOT NULL,               -- a JSON object of the client
        items TEXT NOT NULL,                  -- messages that the next turn begins with, as JSON
        created_at BIGINT NOT NULL
    );
    CREATE INDEX conversations_by_tenant ON conversations (tenant)";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
