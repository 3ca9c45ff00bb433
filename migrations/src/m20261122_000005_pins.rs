//! `mcp_pins`: what tools each MCP server had when it was first used, or when a person last approved of them.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, text},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum McpPins {
    Table,
    /// Which server.
    Server,
    /// Its tools, sorted, as JSON.
    Definitions,
    /// The SHA-256 of that text, in hexadecimal.
    Hash,
    /// Who took them for good: a person's name, or that it was the first use.
    ApprovedBy,
    /// When the row was last written, in microseconds since the Unix epoch.
    UpdatedAt,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table(McpPins::Table)
            .col(text(McpPins::Server).primary_key())
            .col(text(McpPins::Definitions))
            .col(text(McpPins::Hash))
            .col(text(McpPins::ApprovedBy))
            .col(big_integer(McpPins::UpdatedAt))
            .to_owned();
        manager.create_table(table).await
    }
}
