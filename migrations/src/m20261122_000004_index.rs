//! `index_entries`: what each MCP server offers, as it is searched. A read model: the servers themselves can say it
//! again.
//!
//! ## Why vectors are bytes
//!
//! A catalogue has tens of servers, rarely thousands: all of them are read and compared exactly, in a few
//! milliseconds. So no engine needs an extension, and both do the same.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer, blob_null, text, text_null},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum IndexEntries {
    Table,
    /// Which server.
    Server,
    /// Names the text by its content.
    Hash,
    /// What the server offers.
    Text,
    /// The text as a vector: numbers of 32 bits, the lowest byte first. None, where no model embeds.
    Vector,
    /// The model that made the vector, as `provider/model`.
    Model,
    /// When the row was last written, in microseconds since the Unix epoch.
    UpdatedAt,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table(IndexEntries::Table)
            .col(text(IndexEntries::Server).primary_key())
            .col(text(IndexEntries::Hash))
            .col(text(IndexEntries::Text))
            .col(blob_null(IndexEntries::Vector))
            .col(text_null(IndexEntries::Model))
            .col(big_integer(IndexEntries::UpdatedAt))
            .to_owned();
        manager.create_table(table).await
    }
}
