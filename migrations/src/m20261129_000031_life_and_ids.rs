//! The last sign of life of a worker, and indexes that find ids by their last eight characters.
//!
//! ## Why signs of life have no index
//!
//! They change many times a second. PostgreSQL rewrites only the row, and no index, when a column without one changes.
//!
//! ## Why ids are found by their ends
//!
//! UUIDv7 begins with its time, so ids of the same minute begin alike. The last eight characters are random.

use sea_orm_migration::prelude::*;

use super::{apply, apply_to_postgres, apply_to_sqlite};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, "ALTER TABLE workers ADD COLUMN alive_at BIGINT").await?;
        for table in ["threads", "turns", "batches"] {
            let index = format!("CREATE INDEX {table}_by_end ON {table}");
            apply_to_postgres(manager, &format!("{index} (right(id::text, 8))")).await?;
            apply_to_sqlite(manager, &format!("{index} (hex(substr(id, -4)))")).await?;
        }
        Ok(())
    }
}
