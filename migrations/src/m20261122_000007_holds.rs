//! `holds`: the threads that nothing may delete, for as long as a person says so.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, text, uuid},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Holds {
    Table,
    /// Which thread.
    ThreadId,
    /// Why, in the words of whoever placed it.
    Reason,
    /// Who placed it.
    PlacedBy,
    /// When, in microseconds since the Unix epoch.
    PlacedAt,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table(Holds::Table)
            .col(uuid(Holds::ThreadId).primary_key())
            .col(text(Holds::Reason))
            .col(text(Holds::PlacedBy))
            .col(big_integer(Holds::PlacedAt))
            .to_owned();
        manager.create_table(table).await
    }
}
