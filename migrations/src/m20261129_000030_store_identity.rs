//! The identity of a store, which its checkpoints name.
//!
//! ## Why it is made here
//!
//! A user who may only read the database makes checkpoints too. A copy of the database keeps the identity, so a restored backup
//! continues the list of heads of its original.

use sea_orm_migration::prelude::*;

use super::{apply, apply_to_postgres, apply_to_sqlite};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "
    -- One row.
    CREATE TABLE store_identity (
        id UUID NOT NULL PRIMARY KEY
    )";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLE).await?;
        apply_to_postgres(manager, "INSERT INTO store_identity (id) VALUES (gen_random_uuid())").await?;
        apply_to_sqlite(manager, "INSERT INTO store_identity (id) VALUES (randomblob(16))").await
    }
}
