//! How many items of a batch stand where, kept in its row; and how urgent each item is.
//!
//! ## Why it is kept and not counted
//!
//! Whoever watches a batch of a million lines asks once a second. Every change of items locks their batch's row anyway, so
//! the sums cost nothing beside it.

use sea_orm_migration::{prelude::*, schema::integer, sea_orm::ConnectionTrait, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[derive(DeriveIden)]
enum Batches {
    Table,
    /// A JSON object: by state, how many items stand so.
    Counts,
}

#[derive(DeriveIden)]
enum BatchItems {
    Table,
    BatchId,
    Nth,
    State,
    /// How urgent its turn is: 0 before 1 before 2.
    Priority,
}

/// Those of batches that are there already.
const COUNTED: [(DbBackend, &str); 2] = [
    (
        DbBackend::Postgres,
        "UPDATE batches SET counts = COALESCE((SELECT json_object_agg(state, n)::text FROM (SELECT state, \
         COUNT(*) AS n FROM batch_items WHERE batch_id = batches.id GROUP BY state) AS counted), '{}')",
    ),
    (
        DbBackend::Sqlite,
        "UPDATE batches SET counts = COALESCE((SELECT json_group_object(state, n) FROM (SELECT state, \
         COUNT(*) AS n FROM batch_items WHERE batch_id = batches.id GROUP BY state)), '{}')",
    ),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let counts = ColumnDef::new(Batches::Counts).text().not_null().default("{}").to_owned();
        let counts = Table::alter().table(Batches::Table).add_column(counts).to_owned();
        manager.alter_table(counts).await?;
        let priority = integer(BatchItems::Priority).default(2).to_owned();
        let priority = Table::alter().table(BatchItems::Table).add_column(priority).to_owned();
        manager.alter_table(priority).await?;
        let db = manager.get_connection();
        let backend = manager.get_database_backend();
        for (_, sql) in COUNTED.iter().filter(|(of, _)| *of == backend) {
            db.execute_unprepared(sql).await?;
        }
        db.execute_unprepared(
            "UPDATE batch_items SET priority = (SELECT priority FROM batches WHERE id = batch_items.batch_id) \
             WHERE state = 'waiting'",
        )
        .await?;
        // What is next: the most urgent first, then as the lines stand.
        let by_number = Index::drop().name("batch_items_state_nth").table(BatchItems::Table).to_owned();
        manager.drop_index(by_number).await?;
        let by_urgency = Index::create()
            .name("batch_items_state_priority_nth")
            .table(BatchItems::Table)
            .col(BatchItems::BatchId)
            .col(BatchItems::State)
            .col(BatchItems::Priority)
            .col(BatchItems::Nth)
            .to_owned();
        manager.create_index(by_urgency).await
    }
}
