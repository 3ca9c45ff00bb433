//! MCP servers, as workers last found them.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE mcp_servers (
        server TEXT NOT NULL PRIMARY KEY,
        offer TEXT,                   -- everything the server offers except its tools, as a JSON object
        definitions TEXT,             -- tools as JSON, as in `mcp_pins`; null if they cannot be shown
        error TEXT,                   -- why the last attempt to reach the server failed; null if it did not
        worker TEXT NOT NULL,         -- name of the worker that reported last
        seen_at BIGINT NOT NULL
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
