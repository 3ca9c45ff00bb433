//! API keys, and the keys by which turns were submitted.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE api_keys (
        id TEXT NOT NULL PRIMARY KEY, -- public part of the key: tf_ and 16 hexadecimal digits
        hash BYTEA NOT NULL,          -- SHA-256 of the secret part
        tenant TEXT,                  -- null: an operator's
        name TEXT NOT NULL,
        scopes TEXT NOT NULL,         -- names, separated by spaces
        created_by TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        expires_at BIGINT,            -- null: never
        revoked_at BIGINT,
        last_used_at BIGINT           -- to the minute
    );
    CREATE INDEX api_keys_created_at_id ON api_keys (created_at, id);
    CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at, id);

    -- Authenticated sender as JSON. SQLite keeps the text of the statement, so the comment stands before it.
    ALTER TABLE turns ADD COLUMN caller TEXT";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
