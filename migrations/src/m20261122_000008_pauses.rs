//! `pauses`: what an operator wants no more begun, until it is resumed.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, text},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Pauses {
    Table,
    /// What is paused: `strategy` or `model`.
    Kind,
    /// Which.
    Name,
    /// Why, in a person's words.
    Reason,
    /// Who said so.
    By,
    /// When, in microseconds since the Unix epoch.
    At,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table(Pauses::Table)
            .col(text(Pauses::Kind))
            .col(text(Pauses::Name))
            .col(text(Pauses::Reason))
            .col(text(Pauses::By))
            .col(big_integer(Pauses::At))
            .primary_key(Index::create().col(Pauses::Kind).col(Pauses::Name))
            .to_owned();
        manager.create_table(table).await
    }
}
