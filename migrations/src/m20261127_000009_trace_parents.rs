//! Spans of clients, of which turns are children in traces.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    CREATE TABLE trace_parents (
        turn_id UUID NOT NULL PRIMARY KEY,
        thread_id UUID NOT NULL,
        header TEXT NOT NULL          -- `traceparent` of W3C Trace Context
    );
    CREATE INDEX trace_parents_by_thread ON trace_parents (thread_id)";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
