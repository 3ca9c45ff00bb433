//! Decisions of operators: holds, which prevent deletion, and pauses, which prevent new work. And the row that a readiness
//! check writes.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE holds (
        thread_id UUID NOT NULL PRIMARY KEY,
        reason TEXT NOT NULL,
        placed_by TEXT NOT NULL,
        placed_at BIGINT NOT NULL
    );

    CREATE TABLE pauses (
        kind TEXT NOT NULL,           -- strategy, model or tenant
        name TEXT NOT NULL,
        reason TEXT NOT NULL,
        by TEXT NOT NULL,
        at BIGINT NOT NULL,
        PRIMARY KEY (kind, name)
    );

    -- One row, written by readiness checks to learn whether the database accepts writes.
    CREATE TABLE readiness (
        id INTEGER NOT NULL PRIMARY KEY,
        at BIGINT NOT NULL
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
