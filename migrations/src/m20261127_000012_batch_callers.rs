//! Authenticated creators of batches.
//!
//! ## Why the batch knows
//!
//! Its lines are submitted after the request, by any API. Their threads record the key of the request.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, "ALTER TABLE batches ADD COLUMN caller TEXT").await
    }
}
