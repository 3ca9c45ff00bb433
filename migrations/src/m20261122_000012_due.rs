//! When a turn may be heard at the earliest, and why it failed in words by which failures can be counted.

use sea_orm_migration::{
    prelude::*,
    schema::{big_integer_null, text_null},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Turns {
    Table,
    Status,
    Tenant,
    /// Its thread does not hear it before this, in microseconds since the Unix epoch; null, if at once.
    DueAt,
    /// Its error without what differs from case to case; null while it has not failed, and of what failed before this
    /// column was there.
    Cause,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // One column a statement: SQLite takes no more.
        for column in [big_integer_null(Turns::DueAt), text_null(Turns::Cause)] {
            let alter = Table::alter().table(Turns::Table).add_column(column).to_owned();
            manager.alter_table(alter).await?;
        }
        // The door counts what of a tenant waits before it lets more of it in.
        let waiting = Index::create()
            .name("turns_tenant_status")
            .table(Turns::Table)
            .col(Turns::Tenant)
            .col(Turns::Status)
            .to_owned();
        manager.create_index(waiting).await
    }
}
