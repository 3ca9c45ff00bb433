//! Steps a second of a worker. Workers of an older version leave it empty.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, "ALTER TABLE workers ADD COLUMN steps_per_second DOUBLE PRECISION").await
    }
}
