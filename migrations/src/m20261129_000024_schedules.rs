//! Schedules: turns and batches that are submitted at the times of a cron expression.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "
    CREATE TABLE schedules (
        id UUID NOT NULL PRIMARY KEY,
        tenant TEXT NOT NULL,
        by_operator BOOLEAN NOT NULL, -- true: it acts as an operator who names no tenant
        key_id TEXT,                  -- key with whose rights it submits; null: the API required none
        author TEXT NOT NULL,
        name TEXT NOT NULL,
        cron TEXT NOT NULL,
        zone TEXT NOT NULL,           -- IANA name
        missed TEXT NOT NULL,         -- skip, once or all
        target TEXT NOT NULL,         -- turn or batch
        body TEXT NOT NULL,           -- request, byte for byte as submitted
        created_at BIGINT NOT NULL,
        next_at BIGINT NOT NULL,      -- next firing
        due_at BIGINT,                -- next attempt of that firing; null while stopped
        stopped_at BIGINT,
        stopped_reason TEXT,          -- null: a person paused it
        last_at BIGINT,               -- the last firing: its time,
        last_id TEXT,                 -- the turn or batch,
        last_error TEXT               -- or why there is none
    );
    CREATE INDEX schedules_due_at ON schedules (due_at) WHERE due_at IS NOT NULL;
    CREATE INDEX schedules_tenant ON schedules (tenant, id);
    CREATE INDEX schedules_key_id ON schedules (key_id)";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLE).await
    }
}
