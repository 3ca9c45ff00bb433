//! `forks`: the threads that were forked with an idempotency key, so that the same wish is the same fork.

use sea_orm_migration::{
    prelude::*,
    schema::{text, uuid},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Forks {
    Table,
    /// The client's name for the fork, with the tenant before it.
    IdempotencyKey,
    /// What was asked for, so that one key is not used for two.
    RequestHash,
    /// The thread that came of it.
    ThreadId,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table(Forks::Table)
            .col(text(Forks::IdempotencyKey).primary_key())
            .col(text(Forks::RequestHash))
            .col(uuid(Forks::ThreadId))
            .to_owned();
        manager.create_table(table).await?;
        let threads =
            Index::create().name("forks_thread_id").table(Forks::Table).col(Forks::ThreadId).to_owned();
        manager.create_index(threads).await
    }
}
