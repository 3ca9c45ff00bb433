//! Webhooks, and the outbox of their deliveries.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE webhooks (
        id UUID NOT NULL PRIMARY KEY,
        tenant TEXT,                  -- null: an operator's, for the batches of all tenants
        url TEXT NOT NULL,
        types TEXT NOT NULL,          -- JSON array of event types
        secret TEXT NOT NULL,         -- signs the deliveries: whsec_…
        created_at BIGINT NOT NULL,
        disabled_at BIGINT,
        disabled_reason TEXT
    );

    CREATE TABLE webhook_deliveries (
        id UUID NOT NULL PRIMARY KEY,
        webhook_id UUID NOT NULL,
        type TEXT NOT NULL,
        payload TEXT NOT NULL,        -- body, byte for byte as signed
        created_at BIGINT NOT NULL,
        state TEXT NOT NULL,          -- pending, delivered or failed
        attempts INTEGER NOT NULL,
        due_at BIGINT NOT NULL,       -- next attempt; during an attempt, the end of its lease
        tried_at BIGINT,              -- the last attempt: when,
        status INTEGER,               -- HTTP status of the answer,
        error TEXT                    -- or why there was none
    );
    CREATE INDEX webhook_deliveries_state_due_at ON webhook_deliveries (state, due_at);
    CREATE INDEX webhook_deliveries_webhook_id ON webhook_deliveries (webhook_id, id)";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
