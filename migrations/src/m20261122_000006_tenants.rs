//! Whose each thread is, and how urgent each turn.
//!
//! ## Why a turn says its tenant too
//!
//! It is that of its thread, for ever. Lists of turns are asked for by tenant, newest first, and would otherwise look at
//! everybody's turns and at the thread of each.

use sea_orm_migration::{
    prelude::*,
    schema::{integer, text},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Threads {
    Table,
    Id,
    /// Whom it belongs to; `default`, if nobody said so.
    Tenant,
}

#[derive(DeriveIden)]
enum Turns {
    Table,
    Position,
    ThreadId,
    Status,
    /// Whom its thread belongs to.
    Tenant,
    /// How urgent it is: 0 high, 1 normal, 2 low. A number, so that the lower can come first.
    Priority,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // One column a statement: SQLite takes no more.
        let columns = [
            Table::alter()
                .table(Threads::Table)
                .add_column(text(Threads::Tenant).default("default"))
                .to_owned(),
            Table::alter().table(Turns::Table).add_column(text(Turns::Tenant).default("default")).to_owned(),
            Table::alter().table(Turns::Table).add_column(integer(Turns::Priority).default(1)).to_owned(),
        ];
        for column in columns {
            manager.alter_table(column).await?;
        }
        // A tenant's lists come newest first.
        let threads = Index::create()
            .name("threads_tenant_id")
            .table(Threads::Table)
            .col(Threads::Tenant)
            .col(Threads::Id)
            .to_owned();
        let turns = Index::create()
            .name("turns_tenant_position")
            .table(Turns::Table)
            .col(Turns::Tenant)
            .col(Turns::Position)
            .to_owned();
        // A thread at rest asks for the first of its most urgent queued turns; before, it asked for its oldest.
        let waiting = Index::create()
            .name("turns_thread_status_priority_position")
            .table(Turns::Table)
            .col(Turns::ThreadId)
            .col(Turns::Status)
            .col(Turns::Priority)
            .col(Turns::Position)
            .to_owned();
        for index in [threads, turns, waiting] {
            manager.create_index(index).await?;
        }
        let oldest = Index::drop().name("turns_thread_status_position").table(Turns::Table).to_owned();
        manager.drop_index(oldest).await
    }
}
