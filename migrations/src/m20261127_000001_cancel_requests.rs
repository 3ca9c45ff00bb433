//! Requests to cancel a turn that is running.
//!
//! ## Why they have a table of their own
//!
//! Every append of a worker looks whether its thread has a request. The table is nearly always empty, so that costs one
//! lookup per transaction, however many threads it writes. A column of `threads` or `turns` would be one lookup per step.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    -- At most one per thread, deleted by the append that cancels the turn.
    CREATE TABLE cancel_requests (
        thread_id UUID NOT NULL PRIMARY KEY,
        turn_id UUID NOT NULL,
        actor TEXT NOT NULL,    -- recorded in the event
        caller TEXT             /* the same as its key proves it: JSON */
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await
    }
}
