//! Requests to cancel that roll the turn back.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMNS: &str = "ALTER TABLE cancel_requests ADD COLUMN rolled_back INTEGER NOT NULL DEFAULT 0 /* 1: recorded in the event */";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, COLUMNS).await
    }
}
