//! Workers that run, as they last reported.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE workers (
        id UUID NOT NULL PRIMARY KEY, -- new at each start
        name TEXT NOT NULL,
        host TEXT NOT NULL,
        pid BIGINT NOT NULL,
        version TEXT NOT NULL,
        strategies TEXT NOT NULL,     -- versions by name, as a JSON object
        slots BIGINT NOT NULL,
        in_flight BIGINT NOT NULL,
        started_at BIGINT NOT NULL,
        seen_at BIGINT NOT NULL
    );
    CREATE INDEX workers_by_seen ON workers (seen_at)";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
