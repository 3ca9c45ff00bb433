//! Batches that an operator created without acting for a tenant.
//!
//! ## Why the batch knows
//!
//! Its lines are validated and submitted after the request, by any API. They may exceed the bounds of tenants only if the
//! operator's request could.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, "ALTER TABLE batches ADD COLUMN by_operator BOOLEAN NOT NULL DEFAULT FALSE").await
    }
}
