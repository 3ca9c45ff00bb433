//! MCP servers: their approved tools, and the index of their descriptions.
//!
//! ## Why vectors are bytes
//!
//! A catalogue has tens of servers, rarely thousands. All of them are read and compared exactly within a few milliseconds,
//! so neither database needs an extension.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE mcp_pins (
        server TEXT NOT NULL PRIMARY KEY,
        definitions TEXT NOT NULL,    -- tools as JSON, sorted
        hash TEXT NOT NULL,           -- SHA-256 of the definitions, in hexadecimal
        approved_by TEXT NOT NULL,    -- a person, or `first use`
        updated_at BIGINT NOT NULL
    );

    -- A read model: built again from the servers.
    CREATE TABLE index_entries (
        server TEXT NOT NULL PRIMARY KEY,
        hash TEXT NOT NULL,           -- hash of the text
        text TEXT NOT NULL,           -- description of the server's tools
        vector BYTEA,                 -- little-endian 32-bit floats; null without an embedding model
        model TEXT,                   -- embedding model, as provider/model
        updated_at BIGINT NOT NULL
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
