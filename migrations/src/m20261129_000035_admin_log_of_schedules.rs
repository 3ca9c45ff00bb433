//! Schedules and webhooks in the administrative logs.
//!
//! No table changes. After this migration, the store writes an entry for each schedule and webhook that exists: from now on, a
//! verification compares their rows with the logs.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, _: &SchemaManager) -> Result<(), DbErr> {
        Ok(())
    }
}
