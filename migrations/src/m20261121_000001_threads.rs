//! `threads`: one row a conversation. A read model: its log is the truth.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, text, uuid},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Threads {
    Table,
    /// A UUIDv7, so that the order of identities is the order of creation.
    Id,
    /// The name of its strategy, for lists; the log's first event has the rest.
    Strategy,
    /// `idle`, `busy`, `interrupted` or `error`; written only when it changes, with the event that changes
    /// it.
    Status,
    /// When it was opened, in microseconds since the Unix epoch.
    CreatedAt,
    /// When its status was last written, in microseconds since the Unix epoch.
    UpdatedAt,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table(Threads::Table)
            .col(uuid(Threads::Id).primary_key())
            .col(text(Threads::Strategy))
            .col(text(Threads::Status))
            .col(big_integer(Threads::CreatedAt))
            .col(big_integer(Threads::UpdatedAt))
            .to_owned();
        manager.create_table(table).await?;
        // The sweep asks for all that are busy, page by page.
        let by_status = Index::create()
            .name("threads_status_id")
            .table(Threads::Table)
            .col(Threads::Status)
            .col(Threads::Id)
            .to_owned();
        manager.create_index(by_status).await
    }
}
