//! Deaths of workers whose queue is in memory and dies with them.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    -- Threads that may have killed a worker, and a row with the nil UUID while a worker runs: if it is still there when the next one
    -- starts, the worker died. Empty after an orderly stop.
    CREATE TABLE deaths (
        thread_id UUID NOT NULL PRIMARY KEY,
        count BIGINT NOT NULL,
        worker TEXT NOT NULL
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
