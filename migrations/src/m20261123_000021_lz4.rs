//! What is long in PostgreSQL is packed by lz4, where the server has it.
//!
//! ## Why
//!
//! PostgreSQL packs a value of more than two thousand bytes. Its own way (pglz) takes 3.6 ms for a chunk of results of
//! 240 KB, lz4 0.85 ms for the same size on the disk: a million results are three thousand chunks, and an agent's events are
//! often as long as to be packed too. What was written before stays as it is, and is read as ever.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{ConnectionTrait, DbBackend},
};

use super::m20261122_000009_partitions::PARTS;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DbBackend::Postgres {
            return Ok(());
        }
        let set =
            |table: &str, column| format!("ALTER TABLE {table} ALTER COLUMN {column} SET COMPRESSION lz4;");
        let columns =
            [("events", "payload"), ("turns", "input"), ("batch_results", "line"), ("file_chunks", "data")];
        // What is said of a table is not said of its partitions.
        let partitions = (0..PARTS).map(|part| set(&format!("events_{part:02}"), "payload"));
        let alter: String =
            columns.map(|(table, column)| set(table, column)).into_iter().chain(partitions).collect();
        // A server that was built without it says so, and goes on as before.
        let sql = format!("DO $$ BEGIN {alter} EXCEPTION WHEN feature_not_supported THEN NULL; END $$");
        manager.get_connection().execute_unprepared(&sql).await?;
        Ok(())
    }
}
