//! Treatment of turns that a key submits to a busy thread. Keys of an older version leave it empty.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, "ALTER TABLE api_keys ADD COLUMN multitask_strategy TEXT").await
    }
}
