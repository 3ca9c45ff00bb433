//! Column for the knowledge of a worker about models, as JSON. Workers of an older version leave it empty.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, "ALTER TABLE workers ADD COLUMN learned_models TEXT").await
    }
}
