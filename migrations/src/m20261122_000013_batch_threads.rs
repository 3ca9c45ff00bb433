//! Of which batch a thread is: what it took is counted there.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum BatchItems {
    Table,
    ThreadId,
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let threads = Index::create()
            .name("batch_items_thread")
            .table(BatchItems::Table)
            .col(BatchItems::ThreadId)
            .to_owned();
        manager.create_index(threads).await
    }
}
