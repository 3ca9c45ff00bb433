//! The database schema. One file is one migration and covers one topic.
//!
//! A released migration is never edited; a change of the schema is a new migration.
//!
//! The statements are written with PostgreSQL's types, and `SQLITE_TYPES` translates them for SQLite. What differs beyond the
//! types is written out for each database.
//!
//! ## Why no foreign keys
//!
//! A thread and its first event are inserted in one transaction. A thread is deleted together with everything that refers
//! to it, also in one transaction (`store/src/retention/threads.rs`). A foreign key could find nothing, and would cost every
//! insert. The chunks of a file and the items of a batch are deleted in pages after their parent's row; what a crash leaves
//! behind is deleted by the next sweep or prune.

mod m20261126_000001_threads;
mod m20261126_000002_batches;
mod m20261126_000003_webhooks;
mod m20261126_000004_operations;
mod m20261126_000005_mcp;
mod m20261127_000001_cancel_requests;
mod m20261127_000002_deaths;
mod m20261127_000006_keys;
mod m20261127_000008_workers;
mod m20261127_000009_trace_parents;
mod m20261127_000010_batch_operators;
mod m20261127_000011_mcp_servers;
mod m20261127_000012_batch_callers;
mod m20261127_000013_checkpoints;
mod m20261127_000014_stats;
mod m20261127_000015_worker_steps;
mod m20261128_000016_forgotten_models;
mod m20261128_000017_rolled_back;
mod m20261128_000018_reply_options;
mod m20261128_000019_conversations;
mod m20261128_000020_history_hashes;
mod m20261128_000021_batch_models;
mod m20261129_000022_lost_answers;
mod m20261129_000023_count_writers;
mod m20261129_000024_schedules;
mod m20261129_000025_webhook_filters;
mod m20261129_000026_awaited_answers;
mod m20261129_000027_learned_models;
mod m20261129_000028_key_multitask;
mod m20261129_000029_indexes;
mod m20261129_000030_store_identity;
mod m20261129_000031_life_and_ids;
mod m20261129_000032_search;
mod m20261129_000033_prompts;
mod m20261129_000034_admin_log;
mod m20261129_000035_admin_log_of_schedules;
mod m20261130_000036_ratings;

use sea_orm_migration::{
    IntoSchemaManagerConnection, MigrationTrait, MigratorTrait, SchemaManager,
    sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait},
    seaql_migrations,
};

/// The migrations that builds before 0.1.0 applied. A database with one of these must be created anew.
const BEFORE_0_1_0: [&str; 4] = ["m20261121_", "m20261122_", "m20261123_", "m20261125_"];

/// The migrations of a database, compared with those of this build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Migrations that the database lacks, oldest first.
    pub pending: Vec<String>,
    /// Applied migrations that this build does not know, because a newer build applied them.
    pub unknown: Vec<String>,
    /// Migrations of a development build before 0.1.0, which no build can upgrade.
    pub before_release: Vec<String>,
}

/// Compares the migrations without changing the database; needs no right to create tables.
///
/// # Errors
///
/// [`DbErr`] if the database does not answer.
pub async fn survey<'c>(db: impl IntoSchemaManagerConnection<'c>) -> Result<Survey, DbErr> {
    let manager = SchemaManager::new(db);
    let applied: Vec<String> = if manager.has_table("seaql_migrations").await? {
        let rows = seaql_migrations::Entity::find().all(manager.get_connection()).await?;
        rows.into_iter().map(|row| row.version).collect()
    } else {
        Vec::new()
    };
    let known: Vec<String> =
        Migrator::migrations().iter().map(|migration| migration.name().to_owned()).collect();
    let pending = known.iter().filter(|name| !applied.contains(name)).cloned().collect();
    let is_before_release = |name: &String| BEFORE_0_1_0.iter().any(|prefix| name.starts_with(prefix));
    let (before_release, unknown) =
        applied.into_iter().filter(|name| !known.contains(name)).partition(is_before_release);
    Ok(Survey { pending, unknown, before_release })
}

/// Applies all pending migrations in one transaction, and returns their names.
///
/// # Errors
///
/// [`DbErr`] if the database refuses a statement, or has migrations that this build does not know.
pub async fn migrate(tx: &DatabaseTransaction) -> Result<Vec<String>, DbErr> {
    let pending = survey(tx).await?.pending;
    Migrator::up(tx, None).await?;
    Ok(pending)
}

struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261126_000001_threads::Migration),
            Box::new(m20261126_000002_batches::Migration),
            Box::new(m20261126_000003_webhooks::Migration),
            Box::new(m20261126_000004_operations::Migration),
            Box::new(m20261126_000005_mcp::Migration),
            Box::new(m20261127_000001_cancel_requests::Migration),
            Box::new(m20261127_000002_deaths::Migration),
            Box::new(m20261127_000006_keys::Migration),
            Box::new(m20261127_000008_workers::Migration),
            Box::new(m20261127_000009_trace_parents::Migration),
            Box::new(m20261127_000010_batch_operators::Migration),
            Box::new(m20261127_000011_mcp_servers::Migration),
            Box::new(m20261127_000012_batch_callers::Migration),
            Box::new(m20261127_000013_checkpoints::Migration),
            Box::new(m20261127_000014_stats::Migration),
            Box::new(m20261127_000015_worker_steps::Migration),
            Box::new(m20261128_000016_forgotten_models::Migration),
            Box::new(m20261128_000017_rolled_back::Migration),
            Box::new(m20261128_000018_reply_options::Migration),
            Box::new(m20261128_000019_conversations::Migration),
            Box::new(m20261128_000020_history_hashes::Migration),
            Box::new(m20261128_000021_batch_models::Migration),
            Box::new(m20261129_000022_lost_answers::Migration),
            Box::new(m20261129_000023_count_writers::Migration),
            Box::new(m20261129_000024_schedules::Migration),
            Box::new(m20261129_000025_webhook_filters::Migration),
            Box::new(m20261129_000026_awaited_answers::Migration),
            Box::new(m20261129_000027_learned_models::Migration),
            Box::new(m20261129_000028_key_multitask::Migration),
            Box::new(m20261129_000029_indexes::Migration),
            Box::new(m20261129_000030_store_identity::Migration),
            Box::new(m20261129_000031_life_and_ids::Migration),
            Box::new(m20261129_000032_search::Migration),
            Box::new(m20261129_000033_prompts::Migration),
            Box::new(m20261129_000034_admin_log::Migration),
            Box::new(m20261129_000035_admin_log_of_schedules::Migration),
            Box::new(m20261130_000036_ratings::Migration),
        ]
    }
}

/// SQLite's names for PostgreSQL's types. `uuid_text` makes the driver store a UUID as text.
const SQLITE_TYPES: [(&str, &str); 4] =
    [("UUID", "uuid_text"), ("BIGINT", "integer"), ("BYTEA", "blob"), ("INTEGER", "integer")];

/// Executes statements on both databases.
async fn apply(manager: &SchemaManager<'_>, statements: &str) -> Result<(), DbErr> {
    apply_to_postgres(manager, statements).await?;
    apply_to_sqlite(manager, statements).await
}

/// Executes statements on PostgreSQL only.
async fn apply_to_postgres(manager: &SchemaManager<'_>, statements: &str) -> Result<(), DbErr> {
    if manager.get_database_backend() == DbBackend::Postgres {
        manager.get_connection().execute_unprepared(statements).await?;
    }
    Ok(())
}

/// Executes statements on SQLite only, with its names for the types.
async fn apply_to_sqlite(manager: &SchemaManager<'_>, statements: &str) -> Result<(), DbErr> {
    if manager.get_database_backend() == DbBackend::Sqlite {
        let sql = SQLITE_TYPES
            .iter()
            .fold(statements.to_owned(), |sql, (postgres, sqlite)| sql.replace(postgres, sqlite));
        manager.get_connection().execute_unprepared(&sql).await?;
    }
    Ok(())
}

/// Compresses long values of these columns with LZ4, where the PostgreSQL server supports it.
///
/// ## Why
///
/// PostgreSQL compresses values of more than 2,000 bytes. For a chunk of 240 KB of results its default method (pglz) takes
/// 3.6 ms, LZ4 0.85 ms, for the same size on disk.
async fn compress(manager: &SchemaManager<'_>, columns: &[(&str, &str)]) -> Result<(), DbErr> {
    let alter: String = columns
        .iter()
        .map(|(table, column)| format!("ALTER TABLE {table} ALTER COLUMN {column} SET COMPRESSION lz4;"))
        .collect();
    // A server that was built without LZ4 keeps its default method.
    let sql = format!("DO $$ BEGIN {alter} EXCEPTION WHEN feature_not_supported THEN NULL; END $$");
    apply_to_postgres(manager, &sql).await
}
