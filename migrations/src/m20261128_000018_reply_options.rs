//! Demands of clients on the replies to their turns.

use sea_orm_migration::prelude::*;

use super::apply;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMN: &str =
    "ALTER TABLE turns ADD COLUMN reply_options TEXT /* JSON, copied into the event that starts the turn */";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, COLUMN).await
    }
}
